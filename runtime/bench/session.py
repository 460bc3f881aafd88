"""One problem, all backends: data, turns, errors, rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.runtime.bench.device import Candidate, Failed
from convir.runtime.bench.row import OURS, PLAIN, Ceilings, Row
from convir.runtime.bench.timing import Timing, measure
from convir.runtime.inputs import DTYPES
from convir.runtime.reference.dtypes import FLOAT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.problem import ConvProblem
    from convir.runtime.bench.device import BenchDevice
    from convir.runtime.compare import Difference
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array


@dataclass(frozen=True)
class Task:
    """One line of a suite that is to be measured."""

    suite: str
    line: str
    problem: ConvProblem
    formula: Callable[[Sequence[Array]], Array]
    """Computes it from NumPy operands, in f64."""
    compile: Callable[[str], Executable]
    """Compiles a program of ours for it; the argument is a backend: `convir`, or `plain`."""


@dataclass(frozen=True)
class Effort:
    """How long a problem may take."""

    seed: int
    budget_s: float
    """Seconds of calls for each backend."""
    rounds: int | None
    """How many calls of each are timed, whatever they take; None to follow the budget."""


@dataclass(frozen=True)
class _Checked:
    """A backend that computed the problem, and how far off it was."""

    candidate: Candidate
    worst: Difference
    failure: str | None
    """What is wrong with it, if anything is."""


def run_task(task: Task, device: BenchDevice, peers: Sequence[str], effort: Effort) -> list[Row]:
    """Measure our program and every peer on one problem; the first row is ours.

    Every backend first computes into memory full of NaN, and is compared with the formula.
    """
    problem = task.problem
    ceilings = device.ceilings(problem.dtype)
    try:
        inputs = device.inputs(problem, effort.seed)
        expected = device.expected(problem, inputs, task.formula)
    except Exception as error:
        return [_failed(task, Failed(OURS, "as given", f"no reference: {_why(error)}"), ceilings)]
    candidates: list[Candidate | Failed] = [_ours(task, OURS, device, inputs)]
    for peer in peers:
        if peer == PLAIN:
            candidates.append(_ours(task, PLAIN, device, inputs))
        else:
            candidates += device.peer(peer, problem, inputs)
    relative = tolerance_of(problem)
    checked = [
        _check(candidate, device, expected, relative)
        if isinstance(candidate, Candidate)
        else candidate
        for candidate in candidates
    ]
    del expected
    calls = {
        f"{c.candidate.backend} {c.candidate.layout}": c.candidate.call
        for c in checked
        if isinstance(c, _Checked)
    }
    timings = measure(calls, device.clock, effort.budget_s, effort.rounds) if calls else {}
    return [_row(task, c, timings, ceilings) for c in checked]


def _check(
    candidate: Candidate, device: BenchDevice, expected: Any, relative: float
) -> _Checked | Failed:
    try:
        candidate.poison()
        candidate.call()
        worst = device.difference(expected, candidate.result(), relative)
    except Exception as error:
        return Failed(candidate.backend, candidate.layout, _why(error))
    wrong = worst.error > worst.allowed
    failure = f"wrong: error {worst.error:.3g}, allowed {worst.allowed:.3g}" if wrong else None
    return _Checked(candidate, worst, failure)


def tolerance_of(problem: ConvProblem) -> float:
    """CK's relative tolerance: the largest of the roundings of the result and of the sum."""
    dtype = DTYPES[problem.dtype]
    accumulator = DTYPES[problem.accumulator]
    terms = problem.flops // (2 * max(1, int(np.prod(problem.shapes[2]))))
    return max(FLOAT_LIMITS[dtype].half_ulp, FLOAT_LIMITS[accumulator].half_ulp * max(1, terms))


def geomean(ratios: Sequence[float]) -> float | None:
    """The geometric mean, None of nothing."""
    return float(np.exp(np.mean(np.log(np.asarray(ratios))))) if ratios else None


def speedups(rows: Sequence[Row], peer: str) -> list[float]:
    """Per line: the best time of `peer` over ours, where both ran."""
    ratios: list[float] = []
    for line in dict.fromkeys(row.line for row in rows):
        times = [row for row in rows if row.line == line and row.us is not None]
        ours = [
            row.us.median
            for row in times
            if row.backend == OURS and row.us is not None and row.failure is None
        ]
        theirs = [row.us.median for row in times if row.backend == peer and row.us is not None]
        if ours and theirs:
            ratios.append(min(theirs) / min(ours))
    return ratios


def _ours(
    task: Task, backend: str, device: BenchDevice, inputs: Sequence[Any]
) -> Candidate | Failed:
    try:
        return device.ours(backend, task.compile(backend), inputs)
    except Exception as error:
        return Failed(backend, "as given", _why(error))


def _why(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _row(
    task: Task, checked: _Checked | Failed, timings: dict[str, Timing], ceilings: Ceilings
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
        us=None,
        flops=problem.flops,
        nbytes=problem.bytes,
        floor_us=floor,
        failure=failed.reason,
    )


def _measured(task: Task, checked: _Checked, timings: dict[str, Timing], ceilings: Ceilings) -> Row:
    problem, candidate, worst = task.problem, checked.candidate, checked.worst
    return Row(
        suite=task.suite,
        line=task.line,
        backend=candidate.backend,
        layout=candidate.layout,
        config=candidate.config,
        us=timings[f"{candidate.backend} {candidate.layout}"],
        flops=problem.flops,
        nbytes=problem.bytes,
        floor_us=ceilings.floor_us(problem.flops, problem.bytes),
        error=worst.error,
        tolerance=worst.allowed,
        failure=checked.failure,
    )
