"""`relaid`: a contraction on copies whose channels are neighbours, by another template.

    relaid ac grouped 64x28 …
      A[channel, position] --> workspace --> grouped --> workspace --> C[channel, position]

Vectors, TMA boxes and matrix fragments hold channels of one pixel. Where operands have their
channels first, a copy of each and the template that is made for neighbours may take less time than
a kernel that reads single elements. See `README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.layout_conversion.copies import copied, copyable
from convir.lowering.kernels.target import DEFAULT_TARGET, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.contraction.fused import EpilogueOperand
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.config import KernelConfig
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import Place

FAMILY = "relaid"
WIDE_GROUPS = 64
"""Channels of groups from which on they are multiplied as fast from planes, the copies counted."""
MOVED = ("ac", "a", "c", "abc", "ab", "bc")
"""The operands that are copied, as letters; the first ones for which there is a template."""


@dataclass(frozen=True)
class RelaidConfig:
    """Which operands are copied, and the kernel between the copies."""

    operands: str
    """Letters of `abc`."""
    inner: KernelConfig

    def __str__(self) -> str:
        """`relaid ac grouped 64x28 …`."""
        return f"{FAMILY} {self.operands} {self.inner}"


@dataclass(frozen=True)
class Relaid:
    """The family over others."""

    families: Sequence[Family]

    def plan(
        self, spec: Contraction, epilogue: Epilogue, gpu: Target
    ) -> tuple[RelaidConfig, ...] | Refusal:
        """The configs of the first family that takes the copies, best first."""
        movable = _movable(spec, epilogue)
        if isinstance(movable, Refusal):
            return movable
        if spec.groups > 1 and min(spec.depth, spec.columns) >= WIDE_GROUPS:
            return Refusal(f"groups of {spec.depth} channels are no faster on copies")
        reason = "there is no template for its copies"
        planes = movable.replace("b", "")
        for family in self.families:
            for operands in dict.fromkeys((planes, movable)):
                moved, _ = copied(spec, operands)
                configs = family.plan(moved, epilogue, gpu)
                if not isinstance(configs, Refusal):
                    return tuple(RelaidConfig(operands, config) for config in configs)
                reason = f"on copies, {family.name}: {configs.reason}"
        return Refusal(reason)

    def parse(self, text: str) -> RelaidConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        family, _, rest = text.partition(" ")
        operands, _, inner = rest.partition(" ")
        if family != FAMILY or operands not in MOVED:
            raise ValueError(f"operands are one of {', '.join(MOVED)}, then a config")
        family = self._family_of(inner)
        if family is None:
            raise ValueError(f"there is no template of '{inner}'")
        return RelaidConfig(operands, family.parse(inner))

    def kernels(
        self,
        spec: Contraction,
        epilogue: Epilogue,
        config: RelaidConfig,
        target: Target = DEFAULT_TARGET,
    ) -> KernelPlan | Refusal:
        """The launches of a config: copies, the kernel, and the copy of its result."""
        movable = _movable(spec, epilogue)
        family = self._family_of(str(config.inner))
        if isinstance(movable, Refusal) or family is None:
            return movable if isinstance(movable, Refusal) else Refusal("there is no template")
        if not set(config.operands) <= set(movable):
            return Refusal(f"of '{config.operands}' only '{movable}' can be copied")
        moved, copies = copied(spec, config.operands)
        plan = family.kernels(moved, epilogue, config.inner, target)
        if isinstance(plan, Refusal):
            return plan
        first = len(plan.workspace)
        places: dict[Place, Pointer] = {
            copy.operand: Pointer("workspace", first + i) for i, copy in enumerate(copies)
        }
        kernels = [copy.kernel(places[copy.operand].index) for copy in copies]
        before = [k for k, copy in zip(kernels, copies, strict=True) if not copy.back]
        after = [k for k, copy in zip(kernels, copies, strict=True) if copy.back]
        inner = plan.resolved(lambda pointer: places.get(pointer.place, pointer))
        return KernelPlan(
            (*before, *inner.kernels, *after),
            (*plan.workspace, *(copy.nbytes for copy in copies)),
            plan.state,
        )

    def _family_of(self, config: str) -> Family | None:
        name = config.partition(" ")[0]
        return next((each for each in self.families if each.name == name), None)


def _movable(spec: Contraction, epilogue: Epilogue) -> str | Refusal:
    """The operands whose channels are not neighbours, as letters, where they can be copied."""
    letters = copyable(spec)
    result = spec.result.lower()
    if result in letters and (spec.accumulate or any(map(_varies, epilogue.operands))):
        return Refusal("its result is computed from planes that are not copied")
    if letters in ("", "b"):
        return Refusal("its operands have their channels as neighbours, or are no whole planes")
    return letters


def _varies(operand: EpilogueOperand) -> bool:
    """Whether an epilogue reads another element of it at another position."""
    along = (stride for phase in operand.phases for stride in phase.axis_strides)
    return operand.follows_result or any(along)


def layout_conversion(families: Sequence[Family]) -> Family:
    """The family that copies operands for the first of `families` that takes the copies."""
    relaid = Relaid(families)
    return Family(FAMILY, relaid.plan, relaid.parse, relaid.kernels)
