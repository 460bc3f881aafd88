"""The plan of a program for any batch, without the passes and without NVRTC.

What the passes made for three neighbouring batches says how every size of the program and of its
kernels' problems grows (`program_growth`). For another batch, each kernel's family is asked anew
what the same config launches on the problem of that batch: grids, arguments, tensor maps and
workspace are what a compilation would get, by the same code. A source that is not compiled yet is a
refusal, and so is a config that is not legal there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import StructuralKeys
from convir.lowering.implementations import CUDA, LOOPS, config_of
from convir.lowering.kernels.cuda.launch import POINTER_ALIGNMENT, KernelPlan
from convir.lowering.kernels.cuda.problem import read_problem
from convir.lowering.kernels.registry import (
    launches_of,
    names_family,
    row_family_of,
    row_launches_of,
)
from convir.runtime.batches.growth import growth_of
from convir.runtime.batches.program_growth import program_growth
from convir.runtime.cuda.plan import PlannedLaunch
from convir.runtime.cuda.planar_run import is_planar
from convir.runtime.cuda.planner import launch_plan, plan_program, with_state
from convir.runtime.program import Launch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.target import Target
    from convir.runtime.batches.program_growth import ProgramGrowth
    from convir.runtime.cuda.plan import CudaPlan
    from convir.runtime.program import Program

    _Launches: TypeAlias = Callable[[int], KernelPlan | Refusal]


@dataclass(frozen=True)
class CudaBatches:
    """The plans of a program for all batches."""

    plan: CudaPlan
    """Of the first batch, compiled."""
    _program: ProgramGrowth
    _launches: tuple[_Launches | None, ...]
    """What each call launches for a batch; None for a call that is no launch."""
    _gpu: Target

    def at(self, batch: int) -> CudaPlan | Refusal:
        """The plan for a batch, with the code of the first one."""
        program = self._program.at(batch)
        if isinstance(program, Refusal):
            return program
        found: dict[int, KernelPlan] = {}
        for call, launches in zip(program.calls, self._launches, strict=True):
            if launches is None or not isinstance(call, Launch):
                continue
            made = launches(batch)
            made = made if isinstance(made, Refusal) else with_state(made, call)
            if isinstance(made, Refusal):
                return made
            found[id(call)] = made
        plan = plan_program(program, self._gpu, lambda call: found[id(call)])
        steps = [step for step in plan.steps if isinstance(step, PlannedLaunch)]
        if any(at % POINTER_ALIGNMENT for step in steps for _, at in step.places.values()):
            return Refusal(f"an operand does not begin at a multiple of {POINTER_ALIGNMENT} bytes")
        if not self.plan.cubins.keys() >= set(plan.sources):
            return Refusal("its kernels have other code for that batch")
        return replace(plan, cubins=self.plan.cubins)


def batches_of(
    plan: CudaPlan, programs: Sequence[Program], batches: Sequence[int], gpu: Target
) -> CudaBatches | Refusal:
    """The plans for all batches, or why there are none.

    Args:
        plan: of the first of the programs, compiled.
        programs: of one function, for three neighbouring batches.
        batches: each program's.
        gpu: what the plan is for.
    """
    growth = program_growth(programs, batches)
    if isinstance(growth, Refusal):
        return growth
    launches: list[_Launches | None] = []
    for alike in zip(*(program.calls for program in programs), strict=True):
        calls = [call for call in alike if isinstance(call, Launch)]
        found = _launches_of(calls, batches, gpu) if calls else None
        if isinstance(found, Refusal):
            return Refusal(f"@{calls[0].kernel.sym_name.data}: {found.reason}")
        launches.append(found)
    made = CudaBatches(plan, growth, tuple(launches), gpu)
    tried = made.at(batches[1])  # What has other code there has it nearly everywhere.
    return tried if isinstance(tried, Refusal) else made


def _launches_of(
    calls: Sequence[Launch], batches: Sequence[int], gpu: Target
) -> _Launches | Refusal:
    config = config_of(calls[0].kernel, CUDA) or LOOPS
    if is_planar(calls[0]):
        return Refusal("planar programs are one kernel together")
    if _is_one_body([call.kernel for call in calls]):
        plan = launch_plan(calls[0], gpu)
        return lambda batch: plan
    if not names_family(config):
        return Refusal("loops have every size in their code")
    rows = row_family_of(config)
    launches: Callable[[Any], KernelPlan | Refusal] | Refusal
    problems: list[Any]
    if rows is not None:
        launches = row_launches_of(config, gpu)
        problems = [rows.problem(call.kernel, gpu) for call in calls]
    else:
        launches = launches_of(config, gpu)
        problems = [read_problem(call.kernel) for call in calls]
    if isinstance(launches, Refusal):
        return launches
    refused = next((problem for problem in problems if isinstance(problem, Refusal)), None)
    if refused is not None:
        return refused
    read = [problem for problem in problems if not isinstance(problem, Refusal)]
    growth = growth_of(read, batches)
    if isinstance(growth, Refusal):
        return growth
    return lambda batch: launches(growth.at(batch))


def _is_one_body(kernels: Sequence[kernel.FuncOp]) -> bool:
    """Whether kernels compute the same of tensors of the same shapes."""
    keys = StructuralKeys()
    return len({keys.of_regions(each) for each in kernels}) == 1
