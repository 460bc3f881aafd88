"""Choices within a kernel family that are made after selection: partition and warp roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from convir.analysis.refusal import Refusal
from convir.dialects.kernel import ops as kernel
from convir.dialects.rt import ops as rt
from convir.lowering.implementations import CUDA, LOOPS
from convir.lowering.kernels.cuda.old_spelling import read_config
from convir.lowering.regions.outline_kernels import outlined
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.kernels.target import Target

Kernel: TypeAlias = "kernel.RegionOp | kernel.FuncOp"


@dataclass(frozen=True)
class Choice:
    """What is asked of a config: the value of a field."""

    asked: str
    """`KEY=VALUE`."""
    what: str
    """The field in words."""
    besides: str = ""
    """Other fields that are asked for, as `KEY=VALUE KEY=VALUE`."""

    def of(self, config: str) -> str | Refusal:
        """The text of `config` with what is asked for, and all else as it is."""
        family, *words = config.split(" ")
        found = {word.partition("=")[0]: word for word in words}
        changed = {word.partition("=")[0]: word for word in (self.asked, *self.besides.split())}
        missing = [key for key in changed if key not in found]
        if missing:
            field = self.what if self.asked.startswith(missing[0]) else f"'{missing[0]}'"
            return Refusal(f"{family} has no choice of {field}")
        return " ".join((family, *(found | changed).values()))


def choose(module: ModuleOp, pass_name: str, choice: Choice, gpu: Target) -> None:
    """Make a choice in the cuda config of every kernel of `module` whose kernel family has it on
    `gpu`.

    What is changed, the fields besides, and what is not changed, and why, are remarks of
    `pass_name`.
    """
    launched = {op.callee.root_reference for op in module.walk() if isinstance(op, rt.LaunchOp)}
    for op in list(module.walk()):
        if not isinstance(op, kernel.RegionOp | kernel.FuncOp):
            continue
        text = op.configs.data.get(CUDA) if op.configs is not None else None
        config = read_config(text.data) if isinstance(text, StringAttr) else LOOPS
        if isinstance(op, kernel.FuncOp) and op.sym_name in launched:
            changed = Refusal("its workspace is planned already")
        else:
            changed = _changed(op, config, choice, gpu)
        if isinstance(changed, Refusal):
            remarks.refused(pass_name, op, changed.reason)
            continue
        known = dict(op.configs.data) if op.configs is not None else {}
        op.configs = DictionaryAttr({**known, CUDA: StringAttr(changed)})
        asked = choice.of(config)
        besides = [] if isinstance(asked, Refusal) else _difference(asked, changed)
        note = f"; it needs {' '.join(besides)}" if besides else ""
        remarks.fired(pass_name, op, f"{changed}{note}")


def _changed(op: Kernel, config: str, choice: Choice, gpu: Target) -> str | Refusal:
    """The config that stands for `op` from now on: itself with the choice made, or the most similar
    candidate that has it, the fastest of those that are equally similar."""
    # The host needs none of the kernel families.
    from convir.lowering.kernels.cuda.problem import read_problem  # noqa: PLC0415
    from convir.lowering.kernels.registry import family_of, plan_kernel  # noqa: PLC0415

    family = family_of(config)
    if family is None:
        return Refusal(f"'{config}' is not a config of a family")
    asked = choice.of(config)
    if isinstance(asked, Refusal):
        return asked
    try:
        family.parse(asked)
    except ValueError as error:
        return Refusal(str(error))
    callee = op if isinstance(op, kernel.FuncOp) else outlined(op, "candidate")[0]
    plan = plan_kernel(callee, asked, gpu)
    if not isinstance(plan, Refusal):
        return asked
    problem = read_problem(callee)
    if isinstance(problem, Refusal):
        return problem
    found = family.candidates(problem, gpu)
    candidates = () if isinstance(found, Refusal) else found
    by_time = sorted(candidates, key=lambda each: family.predict(problem, each, gpu))
    others = [text for text in map(str, by_time) if choice.of(text) == text]
    return min(others, key=lambda text: len(_difference(config, text)), default=plan)


def _difference(before: str, after: str) -> list[str]:
    """The fields of a config that another one does not have so."""
    had = before.split(" ")
    return [word for word in after.split(" ") if word not in had]
