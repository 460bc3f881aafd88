"""What is enqueued on a stream, as a CUDA graph."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def captured(cuda: Any, stream: Any, enqueue: Callable[[], None]) -> Any:
    """What `enqueue` enqueues on the current stream, as a graph that is ready on the GPU.

    Args:
        cuda: CuPy's module `cuda`.
        stream: the current stream, which captures and waits.
        enqueue: enqueues what the graph will do; nothing runs.
    """
    # Relaxed: whatever the garbage collector frees meanwhile does not end the capture.
    stream.begin_capture(cuda.runtime.streamCaptureModeRelaxed)
    try:
        enqueue()
    except BaseException:
        with suppress(Exception):  # What is being raised says more.
            stream.end_capture()
        raise
    graph = stream.end_capture()
    graph.upload(stream)
    stream.synchronize()
    return graph
