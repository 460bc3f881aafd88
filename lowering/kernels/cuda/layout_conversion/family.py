"""`layout_conversion`: a contraction on copies whose channels are contiguous, by another kernel
family.

    layout_conversion ac grouped_direct 64x28 …
      A[channel, position] --> workspace --> grouped --> workspace --> C[channel, position]

Vectors, TMA boxes and matrix fragments hold channels of one pixel. Where operands have their
channels first, a copy of each and the kernel family that is made for neighbours may take less time
than a kernel that reads single elements. See `README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.layout_conversion.copies import copied, copy_launches, copyable
from convir.lowering.kernels.cuda.layout_conversion.predict import copies_time, copy_work
from convir.lowering.kernels.cuda.prediction.traffic import KEPT_PROBLEMS
from convir.lowering.kernels.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.fused import EpilogueOperand
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import Place
    from convir.lowering.kernels.cuda.layout_conversion.copies import Copy
    from convir.lowering.kernels.protocol import KernelConfig, KernelFamily
    from convir.lowering.kernels.target import Target

FAMILY = "layout_conversion"
MOVED = ("ac", "a", "c", "abc", "ab", "bc", "b")
"""The operands that are copied, as letters; the first ones for which there is a kernel family."""


@dataclass(frozen=True)
class LayoutConversionConfig:
    """Which operands are copied, and the kernel between the copies."""

    operands: str
    """Letters of `abc`."""
    inner: KernelConfig

    def __str__(self) -> str:
        """`layout_conversion ac grouped_direct 64x28 …`."""
        return f"{FAMILY} {self.operands} {self.inner}"


@dataclass(frozen=True)
class LayoutConversion:
    """The family over others."""

    families: Sequence[KernelFamily]
    name: str = FAMILY

    def problem(
        self, contraction: Contraction, epilogue: Epilogue, target: Target
    ) -> Problem | Refusal:
        """The contraction, or why none of its operands is copied."""
        del target
        movable = _movable(contraction, epilogue)
        return movable if isinstance(movable, Refusal) else Problem(contraction, epilogue)

    def candidates(
        self, problem: Problem, target: Target
    ) -> tuple[LayoutConversionConfig, ...] | Refusal:
        """The configs of every family that takes the copies."""
        spec, epilogue = problem.contraction, problem.epilogue
        movable = _movable(spec, epilogue)
        if isinstance(movable, Refusal):
            return movable
        found: list[LayoutConversionConfig] = []
        reason = "no family takes its copies"
        for family in self.families:
            for choice in _choices(movable, spec):
                for operands in choice:
                    moved, _ = copied(spec, operands)
                    configs = family.candidates(Problem(moved, epilogue), target)
                    if not isinstance(configs, Refusal):
                        if operands:
                            found += [LayoutConversionConfig(operands, each) for each in configs]
                        break
                    reason = f"on copies, {family.name}: {configs.reason}"
        return tuple(found) or Refusal(reason)

    def parse(self, text: str) -> LayoutConversionConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        family, _, rest = text.partition(" ")
        operands, _, inner = rest.partition(" ")
        if family != FAMILY or operands not in MOVED:
            raise ValueError(f"operands are one of {', '.join(MOVED)}, then a config")
        return LayoutConversionConfig(operands, self._family_of(inner).parse(inner))

    def refusal(self, problem: Problem, config: KernelConfig, target: Target) -> Refusal | None:
        """Why a config may not run on `target`; None if it may."""
        conversion = _own(config)
        moved = self._moved(problem, conversion)
        if isinstance(moved, Refusal):
            return moved
        return self._family_of(conversion.inner).refusal(moved[0], conversion.inner, target)

    def predict(self, problem: Problem, config: KernelConfig, target: Target) -> float:
        """µs of the copies, and of the kernel between them."""
        conversion = _own(config)
        moved, copying = _copying(problem.contraction, conversion.operands, target)
        on_copies = Problem(moved, problem.epilogue)
        family = self._family_of(conversion.inner)
        return family.predict(on_copies, conversion.inner, target) + copying

    def launch(
        self, problem: Problem, config: KernelConfig, target: Target
    ) -> KernelPlan | Refusal:
        """The launches of a config: copies, the kernel, and the copy of its result."""
        conversion = _own(config)
        moved = self._moved(problem, conversion)
        if isinstance(moved, Refusal):
            return moved
        on_copies, copies = moved
        plan = self._family_of(conversion.inner).launch(on_copies, conversion.inner, target)
        if isinstance(plan, Refusal):
            return plan
        first = len(plan.workspace)
        places: dict[Place, Pointer] = {
            copy.operand: Pointer("workspace", first + i) for i, copy in enumerate(copies)
        }
        placed = [(copy, places[copy.operand]) for copy in copies]
        before, after = copy_launches(placed), copy_launches(placed, back=True)
        inner = plan.resolved(lambda pointer: places.get(pointer.place, pointer))
        return KernelPlan(
            (*before, *inner.kernels, *after),
            (*plan.workspace, *(copy.nbytes for copy in copies)),
            plan.state,
        )

    def _moved(
        self, problem: Problem, config: LayoutConversionConfig
    ) -> tuple[Problem, tuple[Copy, ...]] | Refusal:
        """The problem on copies."""
        movable = _movable(problem.contraction, problem.epilogue)
        if isinstance(movable, Refusal):
            return movable
        if not set(config.operands) <= set(movable):
            return Refusal(f"of '{config.operands}' only '{movable}' can be copied")
        moved, copies = copied(problem.contraction, config.operands)
        return Problem(moved, problem.epilogue), copies

    def _family_of(self, config: KernelConfig | str) -> KernelFamily:
        """The family of a config.

        Raises:
            ValueError: there is none.
        """
        name = str(config).partition(" ")[0]
        for family in self.families:
            if family.name == name:
                return family
        raise ValueError(f"there is no family of '{config}'")


@lru_cache(maxsize=KEPT_PROBLEMS)
def _copying(spec: Contraction, operands: str, target: Target) -> tuple[Contraction, float]:
    """The contraction on copies, and the µs of the copies."""
    moved, copies = copied(spec, operands)
    return moved, copies_time([copy_work(copy) for copy in copies], target)


def _own(config: KernelConfig) -> LayoutConversionConfig:
    if not isinstance(config, LayoutConversionConfig):
        raise TypeError(f"'{config}' is not a config of {FAMILY}")
    return config


def _movable(spec: Contraction, epilogue: Epilogue) -> str | Refusal:
    """The operands whose channels are not neighbours, as letters, where they can be copied."""
    letters = copyable(spec)
    result = spec.result.lower()
    if result in letters and (spec.accumulate or any(map(_varies, epilogue.operands))):
        return Refusal("its result is computed from planes that are not copied")
    if letters in ("", "b" if spec.result == "B" else ""):
        return Refusal("its operands have contiguous channels, or are no whole planes")
    return letters


def _choices(movable: str, spec: Contraction) -> tuple[tuple[str, ...], ...]:
    """Operands that may be copied, as letters. Of each choice the first ones for which there is a
    kernel family: filters are copied where no family takes them as they lie.

    Pixels of C may stay as they lie: those of a gradient of weights are read so, results are
    written so.
    """
    whole = tuple(dict.fromkeys((movable.replace("b", ""), movable)))
    if "c" not in movable:
        return (whole,)
    if spec.result == "B":
        as_it_lies = (letters for letters in ("b", "a", "ab") if set(letters) <= set(movable))
        return (*((letters,) for letters in as_it_lies), whole)
    return whole, tuple(letters.replace("c", "") for letters in whole)


def _varies(operand: EpilogueOperand) -> bool:
    """Whether an epilogue reads another element of it at another position."""
    along = (stride for phase in operand.phases for stride in phase.axis_strides)
    return operand.follows_result or any(along)
