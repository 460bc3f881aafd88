"""What each call of a program takes on its device: medians of a few runs."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from convir.runtime.arrays.border import ArrayBorder
from convir.runtime.cuda.device import CudaProgram
from convir.runtime.trace.call import traced_call
from convir.runtime.trace.cuda import steps_us
from convir.runtime.trace.slices import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.executable import Executable
    from convir.runtime.trace.slices import Slice

MIN_RUNS, MAX_RUNS = 3, 25
BUDGET_S = 1.0
"""Seconds after which there are no more runs than the fewest."""


def measured_us(executable: Executable, arguments: Sequence[Any]) -> list[float | None]:
    """µs of each call of the program: the median of some runs, after one that does not count.

    On the host a call takes from when its first thread begins until its last one ends, in runs of
    the whole program. On a GPU each call is repeated in a graph of its own.

    Args:
        executable: a program of known sizes.
        arguments: as the executable takes them.

    Returns:
        A time for each call; None where a call runs together with others, or does nothing.

    Raises:
        GpuMemoryError: results or temporaries do not fit on the GPU.
    """
    executable(*arguments)
    program = executable.loaded
    if isinstance(program, CudaProgram):
        border = ArrayBorder(program.arrays, program.index)
        given = enumerate(zip(arguments, program.inputs, strict=True))
        with program.scope():
            inputs = [border.argument(value, spec, number) for number, (value, spec) in given]
            found = steps_us(program, inputs, [*map(border.empty, program.outputs)])
    else:
        samples = _runs(executable, arguments)
        found = {calls: median(each[calls] for each in samples) for calls in samples[0]}
    return [found.get((number,)) for number in range(len(executable.program.calls))]


def _runs(executable: Executable, arguments: Sequence[Any]) -> list[dict[tuple[int, ...], float]]:
    start = time.perf_counter()
    samples: list[dict[tuple[int, ...], float]] = []
    while len(samples) < MIN_RUNS or (
        len(samples) < MAX_RUNS and time.perf_counter() - start < BUDGET_S
    ):
        samples.append(_run_us(traced_call(executable, arguments)))
    return samples


def _run_us(slices: Sequence[Slice]) -> dict[tuple[int, ...], float]:
    """What the steps of each call took in one run, on all threads together."""
    steps: dict[tuple[tuple[int, ...], str], list[Slice]] = {}
    for each in slices:
        if each.category == STEP:
            steps.setdefault((each.calls, str(each.args.get("stage"))), []).append(each)
    found: dict[tuple[int, ...], float] = {}
    for (calls, _), threads in steps.items():
        took = max(x.end for x in threads) - min(x.begin for x in threads)
        found[calls] = found.get(calls, 0.0) + took / 1e3
    return found
