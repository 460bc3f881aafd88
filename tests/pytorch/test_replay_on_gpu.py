"""Graphs of `torch.compile(…, backend="convir")` on a GPU: replays agree with what is not one."""

from __future__ import annotations

import gc
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")
make_fx: Any = import_module("torch.fx.experimental.proxy_tensor").make_fx
fake: Any = import_module("torch._subclasses")

from convir.pytorch.graphs import reports  # noqa: E402
from convir.pytorch.graphs.backend import backend  # noqa: E402
from convir.pytorch.graphs.replay import Captured  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

F: Any = torch.nn.functional
nn: Any = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Generator[list[Captured]]:
    """The CUDA graphs that were captured, whose memory is poisoned before each replay."""
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    torch._dynamo.reset()
    made: list[Captured] = []
    build, call = Captured.__init__, Captured.__call__

    def built(graph: Any, *arguments: Any) -> None:
        build(graph, *arguments)
        made.append(graph)

    def poisoned(graph: Any, arguments: Any) -> Any:
        torch.cuda.synchronize()  # Another replay may still be read.
        memory = [buffer._memory for _, buffer in graph._buffers]
        for each in (*memory, *graph._results._results):
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                each.fill_(float("nan"))
        torch.cuda.synchronize()
        return call(graph, arguments)

    monkeypatch.setattr(Captured, "__init__", built)
    monkeypatch.setattr(Captured, "__call__", poisoned)
    with torch.no_grad():
        yield made
    torch._dynamo.reset()


def conv_net(dtype: Any = torch.float16) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 16, 3)
    )
    return net.eval().to("cuda", dtype, memory_format=torch.channels_last)


def image(batch: int = 2, dtype: Any = torch.float16) -> Any:
    x = torch.randn(batch, 16, 12, 12, device="cuda", dtype=dtype)
    return x.to(memory_format=torch.channels_last)


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=backend, fullgraph=True, **options)


def same(got: Any, want: Any) -> None:
    ours, theirs = (torch.utils._pytree.tree_leaves(each) for each in (got, want))
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.shape, mine.dtype, mine.stride()) == (other.shape, other.dtype, other.stride())
        if not other.is_floating_point():
            assert torch.equal(mine, other)
            continue
        scale = max(float(other.abs().max()), 1e-6)
        bound = 16 * torch.finfo(other.dtype).eps
        assert float((mine.float() - other.float()).abs().max()) <= bound * scale


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_replays_agree_and_results_stay(captured: list[Captured], dtype: Any) -> None:
    net = conv_net(dtype)
    f = compiled(net)
    calls = [(x := image(dtype=dtype), f(x)) for _ in range(5)]
    for x, got in calls:
        same(got, net(x))
    assert len(captured) == 1
    assert not reports()[-1].not_replayed


@pytest.mark.gpu
def test_the_option_is_off(captured: list[Captured]) -> None:
    net, x = conv_net(), image()
    f = compiled(net, options={"cuda_graphs": False})
    for _ in range(3):
        same(f(x), net(x))
    assert not captured
    assert "the option cuda_graphs is off" in str(reports()[-1])


@pytest.mark.gpu
def test_inside_a_capture(captured: list[Captured]) -> None:
    net = conv_net()
    f = compiled(net)
    f(image())
    for count in (0, 1):  # Before it was captured itself, and after.
        x, graph = image(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = f(x)
        assert len(captured) == count
        x.copy_(image())
        graph.replay()
        same(y, net(x))
        same(f(x), net(x))


@pytest.mark.gpu
def test_streams_and_threads(captured: list[Captured]) -> None:
    net = conv_net()
    f = compiled(net)
    for _ in range(2):
        f(image())
    torch.cuda.synchronize()
    found: list[tuple[Any, Any]] = []

    def work() -> None:
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(20):
                x = image()
                found.append((x, f(x)))
            stream.synchronize()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for x, got in found:
        same(got, net(x))
    assert captured


@pytest.mark.gpu
def test_streams_of_one_thread_are_ordered(
    captured: list[Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the waits of the poison: a replay does not overtake one on another stream."""
    net = conv_net()
    f = compiled(net)
    for _ in range(2):
        f(image())
    monkeypatch.undo()
    streams = [torch.cuda.Stream() for _ in range(3)]
    inputs = [image() for _ in range(60)]
    torch.cuda.synchronize()
    results: list[Any] = []
    for i, x in enumerate(inputs):
        with torch.cuda.stream(streams[i % 3]):
            results.append(f(x))
    torch.cuda.synchronize()
    for x, got in zip(inputs, results, strict=True):
        same(got, net(x))
    assert len(captured) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("constants", [True, False])
def test_parameters_change(captured: list[Captured], constants: bool) -> None:
    net, x = conv_net(), image()
    f = compiled(net, options={"constants": constants})

    def check() -> None:
        for _ in range(4):
            same(f(x), net(x))

    check()
    for _ in range(3):
        net[0].weight.mul_(1.5)
        check()
    net.load_state_dict({name: value * 0.5 for name, value in net.state_dict().items()})
    check()
    net[3].weight.data = torch.randn_like(net[3].weight)
    check()
    net[3].weight = nn.Parameter(torch.randn_like(net[3].weight))
    check()
    assert captured


@pytest.mark.gpu
def test_results_that_share_memory_or_have_gaps(captured: list[Captured]) -> None:
    def function(x: Any) -> Any:
        y = F.relu(x @ x.mT)
        return y, y[:, 1], y[..., ::2], y.argmax(-1), y[:, :, :1].expand(-1, -1, 7, -1), y.mT

    f = compiled(function)
    for _ in range(4):
        x = torch.randn(2, 3, 16, 16, device="cuda", dtype=torch.float16)
        got = f(x)
        same(got[:3], function(x)[:3])
        same(got[4:], function(x)[4:])
        assert got[1].data_ptr() == got[0].data_ptr() + got[0].stride(1) * 2
    assert len(captured) == 1


@pytest.mark.gpu
def test_arguments_that_are_written_to_and_returned(captured: list[Captured]) -> None:
    def function(x: Any) -> Any:
        x.mul_(2)
        return x, F.relu(x @ x.mT)

    f = compiled(function)
    for _ in range(4):
        x = torch.randn(3, 16, 16, device="cuda", dtype=torch.float16)
        other = x.clone()
        got, want = f(x), function(other)
        same((x, *got), (other, *want))
        assert got[0] is x


@pytest.mark.gpu
def test_arguments_with_gaps_and_repeats(captured: list[Captured]) -> None:
    def function(x: Any) -> Any:
        return F.relu(x @ x.mT)

    views: list[Callable[[Any], Any]] = [
        lambda x: x[..., ::2],
        lambda x: x[:, :1].expand(-1, 3, -1, -1),
        lambda x: x.permute(0, 1, 3, 2),
    ]
    for view in views:
        torch._dynamo.reset()
        f = compiled(function)
        for _ in range(4):
            x = view(torch.randn(2, 3, 16, 16, device="cuda", dtype=torch.float16))
            same(f(x), function(x))
    assert len(captured) == len(views)


@pytest.mark.gpu
def test_pytorchs_calls_between_pieces(captured: list[Captured]) -> None:
    def function(x: Any) -> Any:
        y = F.scaled_dot_product_attention((x @ x) / 64, x, x)
        return torch.special.i0(y).tanh() @ x

    f = compiled(function)
    for _ in range(4):
        x = torch.randn(2, 4, 32, 32, device="cuda", dtype=torch.float16)
        same(f(x), function(x))
    assert len(captured) == 1, reports()[-1].not_replayed
    assert reports()[-1].left


@pytest.mark.gpu
def test_random_calls_are_pytorchs(captured: list[Captured]) -> None:
    def function(x: Any) -> Any:
        return F.dropout(x @ x.mT, 0.5, training=True) @ x

    f = compiled(function)
    x = torch.randn(32, 32, device="cuda", dtype=torch.float16)
    for seed in range(3):
        torch.manual_seed(seed)
        want = function(x)
        torch.manual_seed(seed)
        same(f(x), want)
    assert not captured
    assert "cannot be captured" in reports()[-1].not_replayed


@pytest.mark.gpu
def test_open_sizes(captured: list[Captured]) -> None:
    net = conv_net()
    f = compiled(net, dynamic=True)
    for batch in (2, 3, 2, 3, 2, 3):
        x = image(batch)
        same(f(x), net(x))
    assert len(captured) == 2


@pytest.mark.gpu
def test_inference_mode(captured: list[Captured]) -> None:
    net = conv_net()
    with torch.inference_mode():
        f = compiled(net)
        for _ in range(3):
            x = image()
            same(f(x), net(x))
    assert len(captured) == 1


@pytest.mark.gpu
def test_another_gpu(captured: list[Captured]) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    net = conv_net().to("cuda:1")
    f = compiled(net)
    for _ in range(4):
        x = image().to("cuda:1")
        same(f(x), net(x))
    assert len(captured) == 1


@pytest.mark.gpu
def test_its_memory_is_given_back(captured: list[Captured]) -> None:
    net, x = conv_net(), image()
    net(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    f = compiled(net)
    for _ in range(3):
        f(x)
    assert captured
    captured.clear()
    del f
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.synchronize()
    # Libraries keep workspaces, of each stream.
    assert torch.cuda.memory_allocated() - before <= 64 << 20
