"""Programs on streams, in graphs and from several threads."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip
from gpu_programs import PRODUCT, RUNNING_SUM, SIZE, matrices, on_gpu, product

from convir.reference.dtypes import BFLOAT16
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = pytest.mark.gpu

NEGATION = """
func.func @main(%x: tensor<64xELT>) -> tensor<64xELT> {
  %0 = arith.negf %x : tensor<64xELT>
  func.return %0 : tensor<64xELT>
}"""


@pytest.fixture(autouse=True)
def cupy() -> Any:
    return cupy_or_skip()


def test_every_way_to_name_a_stream(cupy: Any) -> None:
    executable = on_gpu(PRODUCT)
    a, b = matrices(0)
    stream = cupy.cuda.Stream(non_blocking=True)
    for named in (stream, stream.ptr, cupy.cuda.Stream.null, 0, 1):
        y = executable(a, b, stream=named)
        cupy.cuda.Device().synchronize()
        assert np.array_equal(cupy.asnumpy(y), product(a, b))
    with pytest.raises(TypeError, match="a stream's address, is expected"):
        executable(a, b, stream="fast")
    with pytest.raises(TypeError, match="a stream's address, is expected"):
        executable(a, b, stream=True)


def test_pytorch_streams_and_tensors(cupy: Any) -> None:
    torch = pytest.importorskip("torch")
    executable = on_gpu(PRODUCT)
    a, b = (torch.from_numpy(x) for x in matrices(1))
    expected = product(a.numpy(), b.numpy())
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        on_device = [x.cuda(non_blocking=True) for x in (a, b)]
        y = executable(*on_device, stream=stream)
        assert (type(y), y.device) == (torch.Tensor, on_device[0].device)
        assert np.array_equal(y.cpu().numpy(), expected)
    out = torch.full((3, SIZE, SIZE), float("nan"), device="cuda")
    torch.cuda.synchronize()
    executable(*on_device, out=out)
    cupy.cuda.Device().synchronize()
    assert np.array_equal(out.cpu().numpy(), expected)
    assert np.array_equal(executable(a, b).cpu().numpy(), expected), "tensors of the host"
    with pytest.raises(TypeError, match="out 0 lies on the host, the program on cuda:0"):
        executable(a, b, out=torch.zeros(3, SIZE, SIZE))


def test_arrays_that_vectors_cannot_be_read_from_are_copied(cupy: Any) -> None:
    executable = on_gpu(NEGATION.replace("ELT", "f32"))
    x = cupy.arange(65, dtype=np.float32)
    for offset in (0, 1):
        part = x[offset : offset + 64]
        assert (executable(part) == -part).all()
    with pytest.raises(ValueError, match="out 0 must be dense, aligned and writable"):
        executable(x[:64], out=cupy.zeros(65, np.float32)[1:])


def test_bfloat16_tensors_of_pytorch(cupy: Any) -> None:
    torch = pytest.importorskip("torch")
    executable = on_gpu(NEGATION.replace("ELT", "bf16"))
    x = torch.arange(64, dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    expected = -np.arange(64)
    for argument in (x, x.view(torch.int16)):
        y = executable(argument)
        assert y.dtype == torch.bfloat16
        assert np.array_equal(y.float().cpu().numpy(), expected)
    y = executable(np.arange(64).astype(BFLOAT16))
    assert y.dtype == BFLOAT16
    assert np.array_equal(cupy.asnumpy(y).astype(np.float32), expected)
    out = torch.zeros_like(x)
    executable(x, out=out)
    cupy.cuda.Device().synchronize()
    assert np.array_equal(out.float().cpu().numpy(), expected)


def spin(cupy: Any, stream: Any, milliseconds: int) -> None:
    """Keep the GPU busy on a stream."""
    kernel = cupy.RawKernel(
        'extern "C" __global__ void spin(long long ns) { long long t, s;'
        ' asm volatile("mov.u64 %0, %globaltimer;" : "=l"(s));'
        ' do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); } while (t - s < ns); }',
        "spin",
    )
    with stream:
        kernel((1,), (1,), (np.int64(milliseconds * 1_000_000),))


def test_a_call_only_enqueues(cupy: Any) -> None:
    executable = on_gpu(PRODUCT)
    a, b = (cupy.asarray(x) for x in matrices(2))
    graph = executable.graph()
    stream = cupy.cuda.Stream(non_blocking=True)
    spin(cupy, stream, 1)
    executable(a, b, stream=stream)
    stream.synchronize()
    for call in (lambda: executable(a, b, stream=stream), lambda: graph(a, b, stream=stream)):
        spin(cupy, stream, 200)
        y = call()
        assert not stream.done, "the call has waited for the GPU"
        stream.synchronize()
        assert np.array_equal(cupy.asnumpy(y), product(a.get(), b.get()))


def test_imports_wait_for_what_computes_them(cupy: Any) -> None:
    executable = on_gpu(NEGATION.replace("ELT", "f32"))
    torch = pytest.importorskip("torch")
    mine = cupy.cuda.Stream(non_blocking=True)
    theirs = torch.cuda.Stream()
    with torch.cuda.stream(theirs):
        x = torch.zeros(64, device="cuda")
        spin(cupy, cupy.cuda.Stream.from_external(theirs), 50)
        x += 1
        y = executable(x, stream=mine)
    mine.synchronize()
    assert np.array_equal(y.cpu().numpy(), np.full(64, -1, np.float32))


def test_graphs_on_their_own_buffers(cupy: Any) -> None:
    graph = on_gpu(PRODUCT).graph()
    for seed in (3, 4):
        a, b = matrices(seed)
        y = graph(a, b)
        assert y is graph.outputs[0]
        assert np.array_equal(cupy.asnumpy(y), product(a, b))
    graph.inputs[1].fill(0)
    graph.outputs[0].fill(cupy.nan)
    graph.replay()
    assert not graph.outputs[0].any()
    with pytest.raises(ValueError, match="takes 2 arrays, not 1"):
        graph(a)
    with pytest.raises(ValueError, match="argument 1 has shape"):
        graph(a, a)


def test_graphs_of_several_calls(cupy: Any) -> None:
    executable = on_gpu(RUNNING_SUM)
    graph = executable.graph(calls=3)
    x = cupy.ones(64, np.float32)
    assert (graph(x) == 3).all()
    assert (graph(x) == 6).all()
    with pytest.raises(ValueError, match="at least once, not 0 times"):
        executable.graph(calls=0)


def test_graphs_on_several_streams_take_turns(cupy: Any) -> None:
    graph = on_gpu(PRODUCT).graph()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    cases = [tuple(cupy.asarray(x) for x in matrices(seed)) for seed in (5, 6)]
    cupy.cuda.Device().synchronize()
    results: list[Any] = []
    for stream, (a, b) in zip(streams, cases, strict=True):
        spin(cupy, stream, 20)
        with stream:
            results.append(graph(a, b).copy())
            graph.outputs[0].fill(cupy.nan)
            graph.replay()
    cupy.cuda.Device().synchronize()
    assert np.array_equal(cupy.asnumpy(graph.outputs[0]), product(*(x.get() for x in cases[1])))


def test_state_belongs_to_a_stream_and_starts_as_zeros(cupy: Any) -> None:
    executable = on_gpu(RUNNING_SUM)
    x = cupy.ones(64, np.float32)
    one, two = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    cupy.cuda.Device().synchronize()
    graph = executable.graph()
    for count in (1.0, 2.0, 3.0):
        first = executable(x, stream=one)
        captured = graph(x).copy()
        cupy.cuda.Device().synchronize()
        assert (first == count).all()
        assert (captured == count).all()
    second = executable(x, stream=two)
    cupy.cuda.Device().synchronize()
    assert (second == 1).all()


def test_state_is_dropped_when_a_call_fails(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = on_gpu(RUNNING_SUM)
    x = cupy.ones(64, np.float32)
    assert (executable(x) == 1).all()
    compiled = executable._compiled

    def fails(memories: Any, stream: int) -> None:
        raise RuntimeError("a launch failed")

    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_steps", [*compiled._steps, fails])
        with pytest.raises(RuntimeError, match="a launch failed"):
            executable(x)
    assert (executable(x) == 1).all()


def test_many_threads_on_many_streams(cupy: Any) -> None:
    executable = on_gpu(PRODUCT)
    cases = [matrices(seed) for seed in range(6)]
    wrong: list[int] = []

    def work(number: int) -> None:
        a, b = (cupy.asarray(x) for x in cases[number])
        expected = product(*cases[number])
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Stream.null.synchronize()
        for _ in range(20):
            y = executable(a, b, stream=stream)
            stream.synchronize()
            if not np.array_equal(cupy.asnumpy(y), expected):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


UPLOAD = """
func.func @main(%y: memref<4194304xf32>) attributes {rt.program} {
  %c = rt.constant dense<2.0> : tensor<4194304xf32> : memref<4194304xf32>
  rt.copy %c to %y : memref<4194304xf32> to memref<4194304xf32>
  func.return
}"""


@contextmanager
def no_memory(cupy: Any) -> Generator[None]:
    """A context in which CuPy gives out a MiB."""
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=1 << 20)
    with cupy.cuda.using_allocator(pool.malloc):
        yield


def test_out_of_memory_names_what_helps(cupy: Any) -> None:
    message = "cuda:0 is out of memory.*use smaller batches"
    executable = on_gpu(UPLOAD)
    with no_memory(cupy), pytest.raises(toolkit.GpuMemoryError, match=message):
        executable()
    with no_memory(cupy), pytest.raises(toolkit.GpuMemoryError, match=message):
        executable.graph()
    with no_memory(cupy), pytest.raises(toolkit.GpuMemoryError, match=message):
        on_gpu(UPLOAD)
    assert (executable() == 2).all()


LARGER_THAN_ANY_GPU = """
func.func @main() -> tensor<8796093022208xf32> {
  %0 = arith.constant dense<1.0> : tensor<8796093022208xf32>
  func.return %0 : tensor<8796093022208xf32>
}"""


def test_results_larger_than_the_gpu(cupy: Any) -> None:
    executable = on_gpu(LARGER_THAN_ANY_GPU)
    message = r"cuda:0 is out of memory, \d+ of its \d+ MiB are free: free arrays"
    for use in (executable, executable.graph):
        with pytest.raises(toolkit.GpuMemoryError, match=message):
            use()
    # The GPU goes on.
    assert (on_gpu(UPLOAD)() == 2).all()


def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(toolkit.NoGpuError, match="there is no GPU number 99"):
        on_gpu(PRODUCT, "cuda:99")
