"""One problem, all backends: data, turns, errors, rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from convir.dialects.conv.geometry import Direction
from convir.reference.checking.inputs import DTYPES
from convir.reference.dtypes import FLOAT_LIMITS, TF32_LIMITS
from convir.runtime.bench.candidate import Candidate, Failed
from convir.runtime.bench.row import OUR_PEERS, OURS, Ceilings, Row
from convir.runtime.bench.timing import Timing, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.reference.checking.compare import Difference
    from convir.runtime.bench.candidate import Weights
    from convir.runtime.bench.cuda import CudaBench
    from convir.runtime.bench.device import BenchDevice
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array


F32 = "f32"


@dataclass(frozen=True)
class Task:
    """One line of a suite that is to be measured."""

    suite: str
    line: str
    problem: ConvProblem
    formula: Callable[[Sequence[Array]], Array]
    """Computes it from NumPy operands, in f64."""
    compile: Callable[[str, ConvProblem, Array | None], Executable]
    """Compiles a program of ours; the arguments are a backend (`convir`, or one of `OUR_PEERS`),
    the problem in the layouts of its operands, and the weights, where they are a constant of it."""
    allow_tf32: bool = False
    """Whether f32 may be multiplied as TF32."""


@dataclass(frozen=True)
class Effort:
    """How long a problem may take."""

    seed: int
    budget_s: float
    """Seconds of calls for each backend."""
    rounds: int | None
    """How many calls of each are timed, whatever they take; None to follow the budget."""


@dataclass(frozen=True)
class Checked:
    """A backend that computed the problem, and how far off it was."""

    candidate: Candidate
    worst: Difference
    failure: str | None
    """What is wrong with it, if anything is."""


def run_task(task: Task, device: BenchDevice, peers: Sequence[str], effort: Effort) -> list[Row]:
    """Measure our program and every peer on one problem.

    The first row is ours. On a device where constant weights are prepared once, so is the second,
    with the filter as a constant; then come the further layouts that the device measures us in.
    Every backend first computes into memory full of NaN, and is compared with the formula.
    """
    problem = task.problem
    ceilings = device.ceilings(problem.dtype)
    try:
        inputs = device.inputs(problem, effort.seed)
        expected = device.expected(problem, inputs, task.formula)
    except Exception as error:
        return [_failed(task, Failed(OURS, "as given", f"no reference: {why(error)}"), ceilings)]
    candidates: list[Candidate | Failed] = [_ours(task, OURS, device, inputs)]
    if device.prepares_weights and problem.direction is not Direction.WGRAD:
        candidates.append(_ours(task, OURS, device, inputs, "constant"))
    candidates += [_rearranged(task, other, device, inputs) for other in device.rearranged(problem)]
    for peer in peers:
        if peer in OUR_PEERS:
            candidates.append(_ours(task, peer, device, inputs))
        else:
            candidates += device.peer(peer, problem, inputs)
    relative = tolerance_of(problem, tf32=task.allow_tf32 and problem.dtype == F32)
    checked = [
        check(candidate, device, expected, relative)
        if isinstance(candidate, Candidate)
        else candidate
        for candidate in candidates
    ]
    del expected
    calls = {_key(c.candidate): c.candidate.call for c in checked if isinstance(c, Checked)}
    timings = measure(calls, device.clock, effort.budget_s, effort.rounds) if calls else {}
    return [_row(task, c, timings, ceilings) for c in checked]


def check(
    candidate: Candidate, device: BenchDevice, expected: Any, relative: float
) -> Checked | Failed:
    """Compute once into memory full of NaN, and compare with what is expected."""
    try:
        candidate.poison()
        candidate.call()
        worst = device.difference(expected, candidate.result(), relative)
    except Exception as error:
        return Failed(candidate.backend, candidate.layout, why(error), candidate.weights)
    wrong = worst.error > worst.allowed
    failure = f"wrong: error {worst.error:.3g}, allowed {worst.allowed:.3g}" if wrong else None
    return Checked(candidate, worst, failure)


def tolerance_of(problem: ConvProblem, *, tf32: bool = False) -> float:
    """CK's relative tolerance: the largest of the roundings of the factors, the result and the sum.

    Args:
        problem: what is computed.
        tf32: whether both factors of a product are rounded to TF32.
    """
    dtype = DTYPES[problem.dtype]
    accumulator = DTYPES[problem.accumulator]
    terms = problem.flops // (2 * max(1, int(np.prod(problem.shapes[2]))))
    factors = 2 * TF32_LIMITS.half_ulp if tf32 else 0.0
    return max(
        factors,
        FLOAT_LIMITS[dtype].half_ulp,
        FLOAT_LIMITS[accumulator].half_ulp * max(1, terms),
    )


def geomean(ratios: Sequence[float]) -> float | None:
    """The geometric mean, None of nothing."""
    return float(np.exp(np.mean(np.log(np.asarray(ratios))))) if ratios else None


def speedups(rows: Sequence[Row], peer: str) -> list[float]:
    """Per line: the best time of `peer` over ours under the same conditions, where both ran."""
    ratios: list[float] = []
    for line in dict.fromkeys(row.line for row in rows):
        on_line = [row for row in rows if row.line == line]
        theirs = [over_ours(row, on_line) for row in on_line if row.backend == peer]
        ratios += sorted(ratio for ratio in theirs if ratio is not None)[:1]
    return ratios


def over_ours(row: Row, rows: Sequence[Row]) -> float | None:
    """The time of `row` over our best in `rows` that is given the weights in the same way."""
    ours = [
        r.us.median
        for r in rows
        if r.backend == OURS and r.weights == row.weights and r.us is not None and r.failure is None
    ]
    return row.us.median / min(ours) if row.us is not None and ours else None


def _key(candidate: Candidate) -> str:
    return f"{candidate.backend} {candidate.layout} {candidate.weights}"


def _ours(
    task: Task,
    backend: str,
    device: BenchDevice,
    inputs: Sequence[Any],
    weights: Weights = "argument",
) -> Candidate | Failed:
    constant, arguments = None, inputs
    if weights == "constant":
        *arguments, constant = inputs
    try:
        executable = task.compile(backend, task.problem, constant)
        candidate = device.ours(backend, executable, arguments)
    except Exception as error:
        return Failed(backend, "as given", why(error), weights)
    return replace(candidate, weights=weights)


def _rearranged(
    task: Task, problem: ConvProblem, device: BenchDevice, inputs: Sequence[Any]
) -> Candidate | Failed:
    """Our program on operands that lie in the layouts of `problem` before the clock starts."""
    layout, given = problem.geometry.output_layout, task.problem
    *read, written = problem.direction.roles
    try:
        arranged = [
            device.arranged(operand, given.transposition(role, problem))
            for role, operand in zip(read, inputs, strict=True)
        ]
        candidate = device.ours(OURS, task.compile(OURS, problem, None), arranged)
    except Exception as error:
        return Failed(OURS, layout, why(error))
    back = problem.transposition(written, given)
    return replace(
        candidate, layout=layout, result=lambda: device.arranged(candidate.result(), back)
    )


def why(error: Exception) -> str:
    """An error as the reason of a failure, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _row(
    task: Task, checked: Checked | Failed, timings: dict[str, Timing], ceilings: Ceilings
) -> Row:
    if isinstance(checked, Failed):
        return _failed(task, checked, ceilings)
    return _measured(task, checked, timings, ceilings)


def _failed(task: Task, failed: Failed, ceilings: Ceilings) -> Row:
    problem = task.problem
    floor = ceilings.floor_us(problem.flops, problem.bytes)
    return Row(
        suite=task.suite,
        line=task.line,
        backend=failed.backend,
        layout=failed.layout,
        config="",
        weights=failed.weights,
        us=None,
        flops=problem.flops,
        nbytes=problem.bytes,
        floor_us=floor,
        failure=failed.reason,
    )


def _measured(task: Task, checked: Checked, timings: dict[str, Timing], ceilings: Ceilings) -> Row:
    problem, candidate, worst = task.problem, checked.candidate, checked.worst
    return Row(
        suite=task.suite,
        line=task.line,
        backend=candidate.backend,
        layout=candidate.layout,
        config=candidate.config,
        weights=candidate.weights,
        us=timings[_key(candidate)],
        flops=problem.flops,
        nbytes=problem.bytes,
        floor_us=ceilings.floor_us(problem.flops, problem.bytes),
        error=worst.error,
        tolerance=worst.allowed,
        failure=checked.failure,
    )


def gpu_or_exit(clock: Literal["events", "graph"] = "events") -> CudaBench:
    """The first GPU, for a script that needs one.

    Raises:
        SystemExit: it cannot be used, and why; or PyTorch, which checks results, is missing.
    """
    from convir.runtime.cuda.toolkit import NoGpuError  # noqa: PLC0415  (as below)

    try:
        from convir.runtime.bench.cuda import CudaBench  # noqa: PLC0415  (imports PyTorch and CuPy)

        return CudaBench(0, clock)
    except (NoGpuError, ImportError) as error:
        raise SystemExit(f"error: {error}") from error
