"""One problem, all backends: data, turns, errors, rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from convir.runtime.bench.device import Candidate, Failed
from convir.runtime.bench.row import OURS, Ceilings, Row
from convir.runtime.bench.timing import Timing, measure
from convir.runtime.compare import largest_error
from convir.runtime.reference.dtypes import BFLOAT16, FLOAT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.problem import ConvProblem
    from convir.runtime.bench.device import BenchDevice
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array, DType

_DTYPES: dict[str, DType] = {
    "f16": np.dtype(np.float16),
    "bf16": BFLOAT16,
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


@dataclass(frozen=True)
class Task:
    """One line of a suite that is to be measured."""

    suite: str
    line: str
    problem: ConvProblem
    compile: Callable[[], Executable]
    """Compiles our program for it."""
    expected: Callable[[Sequence[Array]], Array]
    """The result by the formula, in f64."""


def run_task(
    task: Task, device: BenchDevice, peers: Sequence[str], *, seed: int, budget_s: float
) -> list[Row]:
    """Measure our program and every peer on one problem; the first row is ours."""
    problem = task.problem
    rng = np.random.default_rng(seed)
    dtype = _DTYPES[problem.dtype]
    inputs = [
        rng.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in problem.shapes[:2]
    ]
    candidates: list[Candidate | Failed] = [_ours(task, device, inputs)]
    for peer in peers:
        candidates += device.peer(peer, problem, inputs)
    ready = [c for c in candidates if isinstance(c, Candidate)]
    ceilings = device.ceilings(problem.dtype)
    keys = {f"{c.backend} {c.layout}": c for c in ready}
    timings = measure({k: c.call for k, c in keys.items()}, device.clock, budget_s)
    relative = tolerance_of(problem)
    expected = task.expected(inputs)
    rows: list[Row] = []
    for candidate in candidates:
        if isinstance(candidate, Failed):
            rows.append(_failed(task, candidate, ceilings))
            continue
        timing = timings[f"{candidate.backend} {candidate.layout}"]
        rows.append(_measured(task, candidate, timing, ceilings, expected, relative))
    return rows


def tolerance_of(problem: ConvProblem) -> float:
    """CK's relative tolerance: the largest of the roundings of the result and of the sum."""
    dtype = _DTYPES[problem.dtype]
    accumulator = _DTYPES[problem.accumulator]
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
        ours = [row.us.median for row in times if row.backend == OURS and row.us is not None]
        theirs = [row.us.median for row in times if row.backend == peer and row.us is not None]
        if ours and theirs:
            ratios.append(min(theirs) / min(ours))
    return ratios


def _ours(task: Task, device: BenchDevice, inputs: Sequence[Array]) -> Candidate | Failed:
    try:
        return device.ours(task.compile(), inputs)
    except Exception as error:
        return Failed(OURS, "as given", f"{type(error).__name__}: {error}")


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


def _measured(
    task: Task,
    candidate: Candidate,
    timing: Timing,
    ceilings: Ceilings,
    expected: Array,
    relative: float,
) -> Row:
    problem = task.problem
    worst = largest_error(expected, candidate.result(), relative)
    wrong = worst.error > worst.allowed
    return Row(
        suite=task.suite,
        line=task.line,
        backend=candidate.backend,
        layout=candidate.layout,
        config=candidate.config,
        us=timing,
        flops=problem.flops,
        nbytes=problem.bytes,
        floor_us=ceilings.floor_us(problem.flops, problem.bytes),
        error=worst.error,
        tolerance=worst.allowed,
        failure=f"wrong: error {worst.error:.3g}, allowed {worst.allowed:.3g}" if wrong else None,
    )
