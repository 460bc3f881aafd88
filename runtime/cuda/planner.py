"""From a program to a plan for one GPU: every kernel is planned, every buffer placed.

Nothing here needs a GPU, so that a plan may be made in a process without one.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import once_for_equal_bodies
from convir.lowering.implementations import CUDA, LOOPS, config_of
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.registry import names_family, plan_kernel
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.runtime.cuda.cublas import WORKSPACE_BYTES
from convir.runtime.cuda.plan import CudaPlan, PlannedLaunch
from convir.runtime.cuda.planar_run import PACKED, in_runs, is_planar, packed, planar_run
from convir.runtime.program import (
    Buffer,
    Gemm,
    Launch,
    Space,
    launch_overlaps,
    memory_positions,
    reused_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.lowering.kernels.target import Target
    from convir.runtime.cuda.plan import Place, Step
    from convir.runtime.program import Array, Call, Program

_log = logging.getLogger(__name__)

ALIGNMENT = 256
"""Bytes: where the memory of a call is divided, as CUDA's own allocations are aligned."""


def plan_program(
    program: Program, gpu: Target, launches: Callable[[Launch], KernelPlan] | None = None
) -> CudaPlan:
    """Plan every kernel of `program` for `gpu`.

    Args:
        program: what is planned.
        gpu: for which GPU.
        launches: what each launch is on the GPU; None to read that from the bodies of kernels.

    Raises:
        PassFailedException: a kernel has no code for the GPU.
    """
    planner = _Planner(program, gpu, launches or (lambda call: launch_plan(call, gpu)))
    numbers = {id(call): number for number, call in enumerate(program.calls)}
    steps: list[Step] = []
    calls: list[tuple[int, ...]] = []
    for run in in_runs(program.calls):
        made, run_calls = planner.steps(run), [numbers[id(call)] for call in run]
        steps += made
        # One step each, or one for all.
        calls += [(n,) for n in run_calls] if len(made) == len(run) else [tuple(run_calls)]
    return CudaPlan(
        program.name,
        program.inputs,
        program.outputs,
        planner.arena_bytes,
        planner.workspace_offset,
        program.constants,
        program.state_bytes,
        tuple(planner.packed),
        tuple(with_dependent_launches(steps)),
        program.stream,
        tuple(program.summary(CUDA)),
        calls=tuple(calls),
    )


def with_dependent_launches(steps: Sequence[Step]) -> Iterator[Step]:
    """`steps`, of whose kernels those are dependent launches that one ahead triggers."""
    triggered = False
    for step in steps:
        if not isinstance(step, PlannedLaunch):
            triggered = False
            yield step
            continue
        kernels: list[CudaKernel] = []
        for kernel in step.kernels:
            is_kept = triggered or not kernel.is_dependent
            kernels.append(kernel if is_kept else replace(kernel, is_dependent=False))
            triggered = kernel.triggers_dependents
        yield replace(step, kernels=tuple(kernels))


def unaligned_kernels(call: Launch) -> KernelPlan:
    """What is launched for arrays that begin anywhere, as views may."""
    return _loops(call, aligned=False)


class _Planner:
    """Collects the memory of one program."""

    def __init__(
        self, program: Program, gpu: Target, launches: Callable[[Launch], KernelPlan]
    ) -> None:
        self._program = program
        self._gpu = gpu
        self._launches = launches
        self._first = memory_positions(program)
        self.packed: list[Array] = []
        self.workspace_offset = _aligned(program.arena_bytes)
        gemms = any(isinstance(call, Gemm) for call in program.calls)
        self.arena_bytes = self.workspace_offset + (WORKSPACE_BYTES if gemms else 0)

    def steps(self, calls: Sequence[Call]) -> list[Step]:
        """What enqueues some calls: one kernel, if they are launches of planar programs."""
        launches = [call for call in calls if isinstance(call, Launch) and is_planar(call)]
        if not launches:
            return [self._launch(x) if isinstance(x, Launch) else x for x in calls]
        found = planar_run(launches, self._gpu)
        if isinstance(found, Refusal):
            _log.warning("%s: %s; loops instead", launches[0].kernel.sym_name.data, found.reason)
            return [self._launch(launch) for launch in launches]
        code, buffers = found
        places = {pointer: self._place(buffer) for pointer, buffer in buffers.items()}
        behind = self._first[Space.STATE] + len(self._program.state_bytes)
        places[PACKED] = behind + len(self.packed), 0
        self.packed.append(packed(code, buffers, self._program.constants))
        return [PlannedLaunch((code.kernel,), places)]

    def _launch(self, call: Launch) -> PlannedLaunch:
        plan = self._launches(call)
        places = {Pointer("output", i): self._place(x) for i, x in enumerate(call.outputs)}
        places |= {Pointer("input", i): self._place(x) for i, x in enumerate(call.inputs)}
        offset = self.workspace_offset
        for i, size in enumerate(plan.workspace):
            places[Pointer("workspace", i)] = self._first[Space.ARENA], offset
            offset += _aligned(size)
        self.arena_bytes = max(self.arena_bytes, offset)
        for i, state in enumerate(states_of(call)[: len(plan.state)]):
            places[Pointer("state", i)] = self._place(state)
        return PlannedLaunch(plan.kernels, places, self._program.calls.index(call))

    def _place(self, buffer: Buffer) -> Place:
        return self._first[buffer.space] + buffer.index, buffer.offset


def launch_plan(call: Launch, gpu: Target) -> KernelPlan:
    """What is launched for `call`: what selection chose, or loops where that is not legal."""
    callee = call.kernel
    config = config_of(callee, CUDA) or LOOPS
    if names_family(config):
        plan = plan_kernel(callee, config, gpu)
        if isinstance(plan, KernelPlan):
            plan = with_state(plan, call)
        if isinstance(plan, KernelPlan):
            return plan
        _log.warning("%s: %s; loops instead", callee.sym_name.data, plan.reason)
    return _loops(call, aligned=True)


def likely_loops(callee: kernel.FuncOp) -> KernelPlan:
    """The loops of a kernel that is launched for buffers which begin at `ALIGNMENT`, and none of
    which is another's memory.

    Raises:
        PassFailedException: as `plan_loops`.
    """
    return _planned_loops(callee, True, True, ())


def _loops(call: Launch, *, aligned: bool) -> KernelPlan:
    restrict = not launch_overlaps(call)
    return _planned_loops(call.kernel, restrict, aligned, reused_arguments(call))


@once_for_equal_bodies
def _planned_loops(
    callee: kernel.FuncOp, restrict: bool, aligned: bool, reused: tuple[int, ...]
) -> KernelPlan:
    return plan_loops(callee, restrict=restrict, aligned=aligned, reused=reused)


def states_of(call: Launch) -> list[Buffer]:
    """What persists of a launch's memory."""
    return [buffer for buffer in call.workspace if buffer.space is Space.STATE]


def with_state(plan: KernelPlan, call: Launch) -> KernelPlan | Refusal:
    """`plan`, if the launch has the persistent memory that it needs."""
    given = [state.nbytes for state in states_of(call)]
    if len(given) < len(plan.state) or any(a < b for a, b in zip(given, plan.state, strict=False)):
        return Refusal(f"it keeps {sum(plan.state)} bytes, and its launch has rt.state of {given}")
    return plan


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
