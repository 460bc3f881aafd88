"""The plan of a program for any batch, without the passes and without LLVM.

What the passes made for three neighbouring batches says how every size of the program and of its
kernels' problems grows (`program_growth`). The code of the three is merged to one that reads the
numbers in which they differ (`shared_numbers`), and compiled once. For another batch each kernel's
family writes its code anew: it must be the merged one but for those numbers, which are then the
program's. So every number is what a compilation for that batch would have as a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import StructuralKeys
from convir.lowering.implementations import HOST, LOOPS, config_of
from convir.lowering.kernels.host.fused_chain.launch import ChainCode
from convir.lowering.kernels.host.launch import HostLaunch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import planned_kernel
from convir.lowering.loops.llvm.shared_numbers import NUMBER_BYTES, families, merge, parse
from convir.runtime.batches.growth import growth_of
from convir.runtime.batches.program_growth import program_growth
from convir.runtime.host.jit import object_code
from convir.runtime.host.kernel_codes import Placed, options_of, pointers_of
from convir.runtime.host.planner import Coded, plan_coded
from convir.runtime.program import Launch, launch_overlaps_partly, results_over_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.host.launch import HostCode
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.lowering.loops.llvm.shared_numbers import Merged
    from convir.runtime.batches.program_growth import ProgramGrowth
    from convir.runtime.host.jit import ObjectCode
    from convir.runtime.host.plan import HostPlan
    from convir.runtime.program import Program

    _Launches: TypeAlias = Callable[[int], HostLaunch | Refusal]


@dataclass(frozen=True)
class _Kernel:
    """The launch of one call."""

    launches: _Launches
    """What it is for a batch."""
    code: int
    """Which code it runs."""


@dataclass(frozen=True)
class HostBatches:
    """The plans of a program for all batches."""

    _program: ProgramGrowth
    _kernels: tuple[_Kernel | None, ...]
    """Of each call; None where it is no launch."""
    _merged: tuple[Merged, ...]
    _codes: tuple[ObjectCode, ...]
    _cpu: CpuTarget

    def at(self, batch: int) -> HostPlan | Refusal:
        """The plan for a batch."""
        program = self._program.at(batch)
        if isinstance(program, Refusal):
            return program
        launches: dict[int, HostLaunch] = {}
        written: dict[int, HostCode] = {}
        for call, planned in zip(program.calls, self._kernels, strict=True):
            if planned is None:
                continue
            launch = planned.launches(batch)
            if isinstance(launch, Refusal):
                return launch
            if written.setdefault(planned.code, launch.code) != launch.code:
                return Refusal("kernels that are one for other batches differ")
            launches[id(call)] = launch
        coded = self._coded(written)
        if isinstance(coded, Refusal):
            return coded
        return plan_coded(program, self._cpu, lambda call: launches[id(call)], coded, beside=True)

    def _coded(self, written: dict[int, HostCode]) -> Coded | Refusal:
        placed: dict[HostCode, Placed] = {}
        numbers: list[int] = []
        for number, code in written.items():
            merged = self._merged[number]
            own = merged.numbers_of(parse(code.ir))
            if own is None:
                return Refusal("its kernels have other code for that batch")
            begin = len(numbers) * NUMBER_BYTES if own else None
            placed[code] = Placed(number, merged.entries[0], begin)
            numbers += own
        return Coded(placed, self._codes, tuple(numbers))


def batches_of(
    programs: Sequence[Program],
    batches: Sequence[int],
    cpu: CpuTarget,
    served: Sequence[int] = (),
) -> HostBatches | Refusal:
    """The plans for all batches, or why there are none.

    Args:
        programs: of one function, for three neighbouring batches.
        batches: each program's.
        cpu: the processor.
        served: further batches that the code has room for, where it is the same code.

    Raises:
        PassFailedException: a kernel has no code for the host.
        CompileError: LLVM refuses the code.
    """
    growth = program_growth(programs, batches)
    if isinstance(growth, Refusal):
        return growth
    kernels: list[_Kernel | None] = []
    known: dict[tuple[HostCode | None, ...], int] = {}
    firsts: list[HostLaunch] = []
    for alike in zip(*(program.calls for program in programs), strict=True):
        calls = [call for call in alike if isinstance(call, Launch)]
        if not calls:
            kernels.append(None)
            continue
        launches = _launches_of(calls, batches, cpu)
        made = launches if isinstance(launches, Refusal) else _all_at(launches, batches)
        if isinstance(launches, Refusal) or isinstance(made, Refusal):
            reason = launches if isinstance(launches, Refusal) else made
            return Refusal(f"@{calls[0].kernel.sym_name.data}: {reason}")
        others = map(launches, served)
        codes = (
            *(launch.code for launch in made),
            *(x.code if isinstance(x, HostLaunch) else None for x in others),
        )
        if codes not in known:
            known[codes] = len(known)
            firsts.append(made[0])
        kernels.append(_Kernel(launches, known[codes]))
    merged: list[Merged] = []
    compiled: list[ObjectCode] = []
    for codes, first in zip(known, firsts, strict=True):
        modules = [parse(code.ir) for code in codes if code is not None]
        family = families(modules)[0]
        if family[: len(batches)] != [*range(len(batches))]:
            return Refusal("its kernels have other code for other batches")
        merged.append(merge([modules[at] for at in family], pointers_of(first, modules[0])))
        exports = tuple(merged[-1].entries[0].values())
        compiled.append(object_code(merged[-1].ir, cpu, options_of(first), exports))
    return HostBatches(growth, tuple(kernels), tuple(merged), tuple(compiled), cpu)


def _all_at(launches: _Launches, batches: Sequence[int]) -> list[HostLaunch] | Refusal:
    made: list[HostLaunch] = []
    for batch in batches:
        launch = launches(batch)
        if isinstance(launch, Refusal):
            return launch
        made.append(launch)
    return made


def _launches_of(
    calls: Sequence[Launch], batches: Sequence[int], cpu: CpuTarget
) -> _Launches | Refusal:
    bodies = [
        KernelBody(x.kernel, results_over_arguments(x), launch_overlaps_partly(x)) for x in calls
    ]
    if len({(body.reused, body.overlaps_partly) for body in bodies}) > 1:
        return Refusal("results lie over arguments for some batches")
    planned = planned_kernel(bodies[0], config_of(calls[0].kernel, HOST) or LOOPS, cpu)
    if isinstance(planned, Refusal):
        return planned
    first, family = planned.launch, planned.family
    if not isinstance(first, HostLaunch) or isinstance(first.code, ChainCode):
        return Refusal(f"{family.name} shares its functions with others")
    if _is_one_body([call.kernel for call in calls]):
        return lambda batch: first
    if family.name == LOOPS:
        return Refusal("loops have every size in their code")
    problems = [family.problem(body, cpu) for body in bodies]
    refused = next((problem for problem in problems if isinstance(problem, Refusal)), None)
    if refused is not None:
        return refused
    growth = growth_of([each for each in problems if not isinstance(each, Refusal)], batches)
    if isinstance(growth, Refusal):
        return growth

    def at(batch: int) -> HostLaunch | Refusal:
        made = family.launch(growth.at(batch), planned.config, cpu)
        return made if isinstance(made, HostLaunch | Refusal) else Refusal("a library computes it")

    return at


def _is_one_body(kernels: Sequence[kernel.FuncOp]) -> bool:
    """Whether kernels compute the same of tensors of the same shapes."""
    keys = StructuralKeys()
    return len({keys.of_regions(each) for each in kernels}) == 1
