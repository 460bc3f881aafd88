"""Prepared and traced calls without a GPU: what they enqueue, by a CuPy that writes it down."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from convir.lowering.kernels.cuda.launch import CudaKernel, Pointer
from convir.runtime.cuda import device as device_module
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.device import CudaProgram
from convir.runtime.cuda.plan import CudaPlan, PlannedLaunch
from convir.runtime.program import Buffer, Copy, Fill, Program, Space, StreamSpec, TensorSpec
from convir.runtime.trace import cuda as trace_module
from convir.runtime.trace.cuda import steps_us, traced_on_gpu

F32 = np.dtype(np.float32)
SPEC = TensorSpec((64,), F32)


class Enqueued(list[tuple[Any, ...]]):
    """What was asked of the GPU."""

    context_is_missing = False

    def launchKernel(self, *arguments: Any) -> None:  # noqa: N802
        if self.context_is_missing:
            self.context_is_missing = False
            raise RuntimeError("CUDA_ERROR_INVALID_CONTEXT: invalid device context")
        self.append(("kernel", arguments[8]))


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> Enqueued:
    found = Enqueued()

    def device(index: int) -> Any:
        return SimpleNamespace(
            id=index,
            use=lambda: found.append(("use", index)),
            __enter__=None,
            __exit__=None,
        )

    def asarray(array: Any) -> Any:
        return SimpleNamespace(data=SimpleNamespace(ptr=array.ctypes.data))

    def enqueue(what: str, *arguments: Any) -> None:
        found.append((what, *arguments))

    def loaded(*_: Any) -> Any:
        return SimpleNamespace(ptr=1)

    def code(*_: Any) -> Any:
        return SimpleNamespace(function=loaded)

    def scope(*_: Any) -> Any:
        return nullcontext()

    stream = SimpleNamespace(ptr=5, synchronize=lambda: None)
    runtime = SimpleNamespace(
        memsetAsync=partial(enqueue, "clear"),
        memcpyAsync=partial(enqueue, "copy"),
        memcpyDeviceToDevice=3,
    )
    cuda = SimpleNamespace(Device=device, runtime=runtime, get_current_stream=lambda: stream)
    cupy = SimpleNamespace(cuda=cuda, asarray=asarray, ndarray=None)
    monkeypatch.setattr(toolkit, "cupy", lambda: cupy)
    monkeypatch.setattr(toolkit, "architecture", lambda: "sm_90a")
    monkeypatch.setattr(toolkit, "launches", lambda: found)
    monkeypatch.setattr(device_module, "LoadedCode", code)
    monkeypatch.setattr(CudaProgram, "scope", scope)
    return found


def plan() -> CudaPlan:
    """Clears the arena, copies an input to it, and launches a kernel that has a state."""
    arena = Buffer(Space.ARENA, 0, 256, (64,), F32)
    pointers = (Pointer("input"), Pointer("output"), Pointer("state"))
    kernel = CudaKernel("", "k", (1, 1, 1), (32, 1, 1), 0, pointers)
    places = {pointers[0]: (2, 256), pointers[1]: (1, 0), pointers[2]: (3, 0)}
    return CudaPlan(
        "main",
        (SPEC,),
        (SPEC,),
        512,
        512,
        (),
        (16,),
        (),
        (
            Fill(0.0, arena),
            Copy(Buffer(Space.INPUT, 0, 0, (64,), F32), arena),
            PlannedLaunch((kernel,), places, 2),
        ),
        StreamSpec(),
        ("fill", "copy", "k"),
    )


def no_program() -> Program:
    raise AssertionError("nobody asked for the program")


def test_what_a_call_enqueues(enqueued: Enqueued) -> None:
    call = CudaProgram.of_plan(plan(), no_program, 0).prepare()
    assert call.workspace_bytes == 512 + 256
    assert call.alignment == 16
    call.run([4096, 8192], 65536, 7)
    assert enqueued == [
        ("clear", 65536 + 512, 0, 256, 7),
        ("clear", 65536 + 256, 0, 256, 7),
        ("copy", 65536 + 256, 4096, 256, 3, 7),
        ("kernel", 7),
    ]


def test_a_thread_that_has_no_context(enqueued: Enqueued) -> None:
    call = CudaProgram.of_plan(plan(), no_program, 1).prepare()
    enqueued.context_is_missing = True
    call.run([4096, 8192], 65536, 7)
    assert enqueued.index(("use", 1)) < enqueued.index(("kernel", 7))
    assert enqueued.count(("kernel", 7)) == 1


class Clock:
    """A GPU whose clock ticks a µs with whatever is recorded, and three with a kernel."""

    def __init__(self, enqueued: Enqueued) -> None:
        self.ticks = 0
        self._enqueued = enqueued

    def event(self) -> Any:
        """An event of CuPy's."""
        found = SimpleNamespace(at=None, synchronize=lambda: None)

        def record(stream: Any) -> None:
            assert stream.ptr == 5
            self.ticks += 1
            found.at = self.ticks + 3 * sum(each[0] == "kernel" for each in self._enqueued)

        found.record = record
        return found


def elapsed_ms(begin: Any, end: Any) -> float:
    return (end.at - begin.at) / 1e3


def memory(*_: object) -> Any:
    return SimpleNamespace(ptr=1 << 12, data=SimpleNamespace(ptr=1 << 12))


def output() -> Any:
    return SimpleNamespace(data=SimpleNamespace(ptr=1 << 14))


def timed_program(enqueued: Enqueued) -> tuple[CudaProgram, Clock]:
    program = CudaProgram.of_plan(replace(plan(), calls=((1,), (0,), (2, 3))), no_program, 0)
    clock, arrays = Clock(enqueued), program.arrays
    arrays.zeros = arrays.empty = memory
    arrays.cuda.Event, arrays.cuda.get_elapsed_time = clock.event, elapsed_ms
    arrays.cuda.alloc = memory
    return program, clock


def test_a_traced_call_has_events_around_each_step(enqueued: Enqueued) -> None:
    program, clock = timed_program(enqueued)
    found = traced_on_gpu(program, [memory()], [output()])
    assert [each.calls for each in found] == [(1,), (0,), (2, 3)]
    assert {each.track for each in found} == {"CUDA stream 0x5"}
    assert [each.end - each.begin for each in found] == [1000, 1000, 4000]
    assert [each.begin - found[0].begin for each in found] == [0, 2000, 4000]
    assert found[2].args == {"kernels": ["k: grid 1x1x1, block 32x1x1, 0 bytes of shared memory"]}
    assert [each[0] for each in enqueued] == ["clear", "copy", "kernel"]
    # The program itself runs without events.
    before = clock.ticks
    program.run([memory()], [output()])
    assert clock.ticks == before


def test_a_measured_step_runs_alone_in_a_graph(
    enqueued: Enqueued, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, _ = timed_program(enqueued)
    current = program.arrays.cuda.get_current_stream()

    def new_stream(*, non_blocking: bool) -> Any:
        assert non_blocking
        return nullcontext(current)

    program.arrays.cuda.Stream = new_stream
    graphs: list[set[str]] = []

    def captured(cuda: Any, stream: Any, enqueue: Any) -> Any:
        del cuda, stream
        begin = len(enqueued)
        enqueue()
        held = enqueued[begin:]
        del enqueued[begin:]
        graphs.append({each[0] for each in held})

        def launch(stream: Any) -> None:
            assert stream is current
            enqueued.extend(held)

        return SimpleNamespace(launch=launch)

    monkeypatch.setattr(trace_module, "captured", captured)
    found = steps_us(program, [memory()], [output()])
    assert graphs == [{"clear"}, {"copy"}, {"kernel"}]
    # A µs of events, over so many repeats; a kernel takes three more.
    (clear, copy, kernel) = found.values()
    assert [*found] == [(1,), (0,), (2, 3)]
    assert clear == copy
    assert kernel == pytest.approx(3 + clear)
