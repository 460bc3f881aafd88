"""When each step of a call ran on a GPU: events around each launch, on the call's stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from convir.runtime.cuda.plan import PlannedLaunch
from convir.runtime.trace.slices import STEP, Slice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.runtime.cuda.device import CudaProgram, RawStep
    from convir.runtime.cuda.plan import Step
    from convir.runtime.program import Array

_NS_OF_MS = 1_000_000


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
