"""The same on a GPU: results, streams, graphs, threads, memory."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

from pytorch_cases import CASES, Case, check, places  # noqa: E402

import convir.pytorch  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

F: Any = torch.nn.functional

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _afresh() -> Generator[None]:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    forget()
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions_and_their_gradients(case: Case) -> None:
    check(case, "cuda")


def _operands(dtype: Any = torch.float16) -> list[Any]:
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(2, 32, 14, 14, generator=generator, device="cuda").to(dtype)
    w = torch.randn(32, 32, 3, 3, generator=generator, device="cuda").to(dtype)
    return [t.to(memory_format=torch.channels_last) for t in (x, w)]


def _close(got: Any, want: Any) -> None:
    assert places(got) == places(want)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-1)


def test_a_graph_of_a_training_step() -> None:
    x, w = _operands()
    w.requires_grad_()

    def step() -> list[Any]:
        y = F.conv2d(x, w, padding=1)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), (w,))]

    with convir.pytorch.enabled(prefer="convir", wait=True):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        assert {row.runs for row in convir.pytorch.census()} == {"convir"}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    for got, want in zip(captured, step(), strict=True):
        assert places(got) == places(want)
        scale = float(want.float().abs().max())
        torch.testing.assert_close(got / scale, want / scale, rtol=2e-2, atol=2e-2)


def test_nothing_changes_over_during_a_capture() -> None:
    x, w = _operands()
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = F.conv2d(x, w)
        (row,) = convir.pytorch.census()
        assert (row.runs, row.pytorch_calls) == ("pytorch", 1)
        F.conv2d(x, w)
        (row,) = convir.pytorch.census()
        assert (row.runs, row.convir_calls) == ("convir", 1)
    graph.replay()
    _close(got, want)


def test_compilation_in_the_background() -> None:
    x, w = _operands()
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir"):
        row: Any = None
        for _ in range(600):
            _close(F.conv2d(x, w), want)
            (row,) = convir.pytorch.census()
            if row.runs == "convir":
                break
            time.sleep(0.05)
        assert row.runs == "convir", row.reason
        assert row.pytorch_calls > 0


def test_streams_and_threads() -> None:
    x, w = _operands()
    want = F.conv2d(x, w)
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(50):
                results[number] = F.conv2d(x, w)
        stream.synchronize()

    torch.cuda.synchronize()
    with convir.pytorch.enabled(prefer="convir", wait=True):
        F.conv2d(x, w)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (row,) = convir.pytorch.census()
    assert (row.convir_calls, row.pytorch_calls) == (201, 0)
    for got in results.values():
        _close(got, want)


def test_views_that_begin_anywhere() -> None:
    x, w = _operands()
    flat = torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")[1:]
    odd = flat.as_strided(x.shape, x.stride())
    odd.copy_(x)
    assert odd.data_ptr() % 16
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        _close(F.conv2d(odd, w), want)
        (row,) = convir.pytorch.census()
    assert row.runs == "convir"


def test_the_faster_one_is_measured_and_kept() -> None:
    x, w = _operands()
    with convir.pytorch.enabled(wait=True, measure=True):
        F.conv2d(x, w)
        (row,) = convir.pytorch.census()
    assert row.convir_us is not None
    assert row.pytorch_us is not None
    assert (row.runs == "convir") == (row.convir_us < row.pytorch_us) or row.runs == "pytorch"


def test_tf32_as_pytorch_says() -> None:
    x, w = _operands(torch.float32)
    exact = F.conv2d(x.double(), w.double())
    errors: list[float] = []
    for allowed in (False, True):
        torch.backends.cudnn.allow_tf32 = allowed
        with convir.pytorch.enabled(prefer="convir", wait=True):
            errors.append(float((F.conv2d(x, w) - exact).abs().max() / exact.abs().max()))
    assert errors[0] < 1e-5
    assert errors[1] < 2e-3


def test_the_same_bits_every_time() -> None:
    x, w = _operands()
    x.requires_grad_()
    w.requires_grad_()
    with convir.pytorch.enabled(prefer="convir", wait=True):
        dy = torch.randn_like(F.conv2d(x, w))
        first = torch.autograd.grad(F.conv2d(x, w), (x, w), dy)
        for _ in range(100):
            again = torch.autograd.grad(F.conv2d(x, w), (x, w), dy)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_code(mode: str, dynamic: bool) -> None:
    """No graph break, and eager strides, under the compiler's own graphs too."""
    pytest.importorskip("triton")
    net = torch.nn.Sequential(
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1, groups=4),
        torch.nn.ConvTranspose2d(32, 16, 2, stride=2),
    )
    net = net.to("cuda", torch.float16, memory_format=torch.channels_last)
    compiled = torch.compile(net, fullgraph=True, mode=mode, dynamic=dynamic)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        for batch in (2, 3) if dynamic else (2,):
            x = torch.randn(batch, 16, 16, 16, device="cuda", dtype=torch.float16)
            x = x.to(memory_format=torch.channels_last)
            y = ours = x
            for _ in range(4):
                net.zero_grad(set_to_none=True)  # They lie in memory of the last graph.
                torch.compiler.cudagraph_mark_step_begin()
                y = compiled(x)
                y.float().square().mean().backward()
                ours = y.detach().clone()
            assert any(row.convir_calls for row in convir.pytorch.census())
            want = net(x).detach()
            assert places(y) == places(want)
            torch.testing.assert_close(ours, want, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("width", [8191, 8192, 8189])
def test_chunks_of_a_batch_in_little_workspace(width: int) -> None:
    x = torch.randn(8, 64, width, dtype=torch.float16, device="cuda")
    w = torch.randn(64, 64, 3, dtype=torch.float16, device="cuda") / 14
    want = F.conv1d(x, w, stride=2)
    with convir.pytorch.enabled(prefer="convir", wait=True, workspace_bytes=6 << 20):
        got = F.conv1d(x, w, stride=2)
        (row,) = convir.pytorch.census()
    assert row.runs == "convir" or "temporaries" in row.reason
    _close(got, want)


@pytest.mark.parametrize("taps", [1, 3])
def test_more_than_2_to_the_31_elements(taps: int) -> None:
    """Ours or PyTorch's kernel, which the census says; the values at the far end are right."""
    _needs(40 << 30)
    x = torch.randn(33, 64, 1024, 1024, dtype=torch.float16, device="cuda")
    x = x.to(memory_format=torch.channels_last)
    assert x.numel() > 1 << 31
    w = torch.randn(16, 64, taps, taps, dtype=torch.float16, device="cuda") / 16
    w = w.to(memory_format=torch.channels_last).requires_grad_()
    pad = taps // 2
    with convir.pytorch.enabled(prefer="convir", wait=True):
        y = F.conv2d(x, w, padding=pad)
        dy = torch.zeros_like(y)
        dy[-1:] = torch.randn_like(dy[-1:])
        (dw,) = torch.autograd.grad(y, w, dy)
        rows = convir.pytorch.census()
    assert all(row.runs == "convir" or row.reason for row in rows), rows
    last = slice(-1, None)
    want = F.conv2d(x[last], w, padding=pad)
    torch.testing.assert_close(y[last], want, rtol=2e-2, atol=5e-2)
    torch.testing.assert_close(y[:1], F.conv2d(x[:1], w, padding=pad), rtol=2e-2, atol=5e-2)
    (exact,) = torch.autograd.grad(want, w, dy[last])
    scale = float(exact.float().abs().max())
    torch.testing.assert_close(dw.float() / scale, exact.float() / scale, rtol=0, atol=2e-2)


def _needs(size: int) -> None:
    free, _ = torch.cuda.mem_get_info()
    if free < size:
        pytest.skip(f"{free >> 30} GiB are free on the GPU, not {size >> 30}")


def test_a_full_gpu(caplog: pytest.LogCaptureFixture) -> None:
    """PyTorch's own error where not even its kernel has the memory; ours is given up once."""
    x, w = _operands()
    x = x.repeat(64, 1, 8, 8)
    x = x.to(memory_format=torch.channels_last)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        want = F.conv2d(x, w, padding=1)
        (row,) = convir.pytorch.census()
        assert row.runs == "convir"
        size = want.numel() * want.element_size()
        full: list[Any] = []
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        reserved = torch.cuda.memory_reserved()
        # Earlier tests of the process may have left segments that are in use only in part.
        fitting = (reserved - torch.cuda.memory_allocated()) // size
        torch.cuda.set_per_process_memory_fraction((reserved + size // 2) / total)
        try:
            with pytest.raises(torch.OutOfMemoryError):
                full.extend(F.conv2d(x, w, padding=1) for _ in range(fitting + 8))
        finally:
            full.clear()
            torch.cuda.set_per_process_memory_fraction(1.0)
        (row,) = convir.pytorch.census()
        assert row.runs == "pytorch"
        assert row.reason.startswith("it failed: ")
        _close(F.conv2d(x, w, padding=1), want)
    assert caplog.text.count("convir gives a convolution back to PyTorch") == 1
