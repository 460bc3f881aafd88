"""When each step of a call ran on a GPU: events around each launch, on the call's stream."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from convir.runtime.cuda.capture import captured
from convir.runtime.cuda.plan import PlannedLaunch
from convir.runtime.trace.slices import STEP, Slice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.runtime.cuda.device import CudaProgram, RawStep
    from convir.runtime.cuda.plan import Step
    from convir.runtime.program import Array

_NS_OF_MS, _US_OF_MS = 1_000_000, 1_000
_REPEATS = 20
"""How often a graph runs a step, so that launching the graph itself does not count."""
_RUNS = 5
"""How often a graph is timed."""


def traced_on_gpu(
    program: CudaProgram, inputs: Sequence[Array], outputs: Sequence[Array]
) -> list[Slice]:
    """Run once on dense CuPy arrays of the program's shapes and dtypes, and wait for the end.

    Times are of the GPU's clock, which is set to the host's where the stream is idle. They
    contain the events, and the GPU waits between steps where the host enqueues too slowly.

    Returns:
        A slice for each step.
    """
    cuda = program.arrays.cuda
    stream = cuda.get_current_stream()
    events: list[tuple[int, Any, Any]] = []

    def watched(number: int, step: RawStep) -> RawStep:
        def run(memories: Sequence[int], pointer: int) -> None:
            before, after = cuda.Event(), cuda.Event()
            before.record(stream)
            step(memories, pointer)
            after.record(stream)
            events.append((number, before, after))

        return run

    origin = cuda.Event()
    stream.synchronize()
    origin.record(stream)
    start = time.perf_counter_ns()
    program.watched(watched).run(inputs, outputs)
    stream.synchronize()

    def at(event: Any) -> int:
        return start + round(cuda.get_elapsed_time(origin, event) * _NS_OF_MS)

    track = f"CUDA stream {stream.ptr:#x}"
    slices: list[Slice] = []
    for number, before, after in events:
        calls, args = program.plan.calls[number], _launched(program.plan.steps[number])
        slices.append(Slice("", STEP, track, at(before), at(after), calls, args))
    return slices


def steps_us(
    program: CudaProgram, inputs: Sequence[Array], outputs: Sequence[Array]
) -> dict[tuple[int, ...], float]:
    """µs of the steps of each call, each repeated in a graph of its own, on what a run left.

    Args:
        program: what is measured.
        inputs: dense CuPy arrays of its shapes and dtypes.
        outputs: likewise.
    """
    cuda = program.arrays.cuda
    cuda.get_current_stream().synchronize()
    with cuda.Stream(non_blocking=True) as stream:
        memory = inputs, outputs, program.new_arena(), program.new_states()
        program.run_in(*memory)
        stream.synchronize()
        found: dict[tuple[int, ...], float] = {}
        for number, calls in enumerate(program.plan.calls):
            alone = program.watched(partial(_repeated, number))
            graph = captured(cuda, stream, lambda alone=alone: alone.run_in(*memory))
            times: list[float] = []
            for _ in range(_RUNS):
                begin, end = cuda.Event(), cuda.Event()
                begin.record(stream)
                graph.launch(stream)
                end.record(stream)
                end.synchronize()
                times.append(cuda.get_elapsed_time(begin, end) * _US_OF_MS / _REPEATS)
            found[calls] = found.get(calls, 0.0) + median(times)
    return found


def _repeated(wanted: int, number: int, step: RawStep) -> RawStep:
    """The wanted step several times, and nothing instead of any other."""

    def run(memories: Sequence[int], stream: int) -> None:
        for _ in range(_REPEATS if number == wanted else 0):
            step(memories, stream)

    return run


def _launched(step: Step) -> Mapping[str, Any]:
    """The kernels of a step with the sizes of their launches."""
    if not isinstance(step, PlannedLaunch):
        return {}
    return {
        "kernels": [
            f"{each.symbol}: grid {_sizes(each.grid)}, block {_sizes(each.block)}, "
            f"{each.shared_bytes} bytes of shared memory"
            for each in step.kernels
        ]
    }


def _sizes(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
