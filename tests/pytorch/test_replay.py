"""Graphs of `torch.compile(…, backend="convir")` on a GPU are replayed, where that is the same."""

from __future__ import annotations

import gc
import threading
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")
make_fx: Any = import_module("torch.fx.experimental.proxy_tensor").make_fx
fake: Any = import_module("torch._subclasses")

from convir.pytorch.graphs import replay, reports  # noqa: E402
from convir.pytorch.graphs.backend import backend  # noqa: E402
from convir.pytorch.graphs.options import Options  # noqa: E402
from convir.pytorch.graphs.partition import partitioned  # noqa: E402
from convir.pytorch.graphs.piece import Piece  # noqa: E402
from convir.pytorch.graphs.replay import Captured, Replayed, why_not  # noqa: E402
from convir.pytorch.graphs.report import GraphReport  # noqa: E402
from convir.runtime.devices import CUDA, Device  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from contextlib import AbstractContextManager

F: Any = torch.nn.functional
nn: Any = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")


# What is decided, on any machine.


class FakePiece:
    """A piece that may hold parameters."""

    def __init__(self, *, has_constants: bool = True) -> None:
        self.has_constants = has_constants


class Recorded:
    """Instead of a CUDA graph: says that it was captured."""

    made = 0
    enqueued = 0

    def __init__(self, run: Any, *_: Any) -> None:
        type(self).made += 1
        self._run = run
        self._given: Sequence[Any] = ()

    def enqueue(self, arguments: Sequence[Any]) -> None:
        type(self).enqueued += 1
        self._given = arguments

    def results(self) -> Any:
        return "replayed", self._run(*self._given)


@pytest.fixture
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorded, "made", 0)
    monkeypatch.setattr(Recorded, "enqueued", 0)
    monkeypatch.setattr(replay, "Captured", Recorded)

    def anywhere(place: object) -> AbstractContextManager[None]:
        del place
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "device", anywhere)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", bool, raising=False)


def replayed(*static: int, has_constants: bool = True) -> Replayed:
    piece: Any = FakePiece(has_constants=has_constants)
    return Replayed(lambda *given: float(sum(given)), [piece], static, torch.device("cuda", 0))


def is_replay(result: Any) -> bool:
    return isinstance(result, tuple)


@pytest.mark.usefixtures("_without_gpu")
def test_the_second_call_is_captured() -> None:
    function, weight = replayed(0), torch.ones(())
    found = [function(weight, torch.tensor(float(i))) for i in range(4)]
    assert found == [1.0, ("replayed", 2.0), ("replayed", 3.0), ("replayed", 4.0)]
    assert Recorded.made == 1


@pytest.mark.usefixtures("_without_gpu")
def test_nothing_is_captured_inside_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    function, x = replayed(), torch.ones(())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not any(is_replay(function(x)) for _ in range(3))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert [is_replay(function(x)) for _ in range(2)] == [False, True]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not is_replay(function(x))


@pytest.mark.usefixtures("_without_gpu")
def test_parameters_that_change_drop_a_graph() -> None:
    function, weight = replayed(0), torch.ones(4)
    assert [is_replay(function(weight[0])) for _ in range(2)] == [False, False]  # New tensors.
    function = replayed(0)
    assert [is_replay(function(weight.sum())) for _ in range(2)] == [False, False]
    function, weight = replayed(0), torch.ones(())
    assert [is_replay(function(weight)) for _ in range(3)] == [False, True, True]
    weight.mul_(2)
    assert [is_replay(function(weight)) for _ in range(4)] == [False, False, True, True]
    weight.data = torch.ones(())
    assert [is_replay(function(weight)) for _ in range(6)] == [*[False] * 4, True, True]
    assert Recorded.made == 3


@pytest.mark.usefixtures("_without_gpu")
def test_replays_begin_before_versions_are_compared_and_where_memory_is_the_same() -> None:
    function, weight = replayed(0), torch.ones(())
    assert [is_replay(function(weight)) for _ in range(3)] == [False, True, True]
    assert Recorded.enqueued == 2
    weight.mul_(2)
    assert function(weight) == 2.0  # Nobody reads the replay.
    assert Recorded.enqueued == 3
    function = replayed(0)
    assert [is_replay(function(weight)) for _ in range(2)] == [False, True]
    weight.data = torch.ones(())
    assert function(weight) == 1.0
    assert Recorded.enqueued == 4  # The one that was captured, and none since.


@pytest.mark.usefixtures("_without_gpu")
def test_parameters_that_no_piece_holds_are_read_where_they_lie() -> None:
    function, weight = replayed(0, has_constants=False), torch.ones(())
    assert [is_replay(function(weight)) for _ in range(2)] == [False, True]
    weight.mul_(2)
    assert function(weight) == ("replayed", 2.0)
    weight.data = torch.ones(())
    assert not is_replay(function(weight))


@pytest.mark.usefixtures("_without_gpu")
def test_parameters_of_inference_mode() -> None:
    with torch.inference_mode():
        weight = torch.ones(())
    function = replayed(0)
    assert not any(is_replay(function(weight)) for _ in range(3))


@pytest.mark.usefixtures("_without_gpu")
def test_what_cannot_be_captured_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("operation not permitted")

    monkeypatch.setattr(replay, "Captured", fails)
    function, x = replayed(), torch.ones(())
    assert [function(x) for _ in range(3)] == [1.0] * 3
    assert caplog.text.count("a graph is not captured: operation not permitted") == 1


class Rerun:
    """Instead of a CUDA graph of PyTorch's: a replay runs again what was captured, in place."""

    last: Any = None

    def __init__(self) -> None:
        Rerun.last = self
        self.runs: list[Callable[[], None]] = []

    def replay(self) -> None:
        for run in self.runs:
            run()

    def capturing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            results = function(*given)

            def again() -> None:
                for old, new in zip(results, function(*given), strict=True):
                    if isinstance(old, torch.Tensor):
                        once = tuple(slice(None if stride else 1) for stride in old.stride())
                        old[once].copy_(new[once])

            Rerun.last.runs.append(again)
            return results

        return run


class Nothing:
    """Instead of a stream, or an event."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def record(self, stream: object) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass


@pytest.fixture
def _reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    def context(*_: object, **__: object) -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Rerun, raising=False)
    monkeypatch.setattr(torch.cuda, "graph", context)
    for name in ("Stream", "Event", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, Nothing)


RESULTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: (x * 2, x.argmax(-1)),
    "transposed": lambda x: ((x * 2).mT,),
    "gaps": lambda x: ((x * 2)[..., ::2], (x + 1)[1:]),
    "repeated": lambda x: ((x * 2)[..., :1].expand(-1, -1, 5),),
    "shared": lambda x: (y := (x * 2).contiguous(), y[0], y.view(-1)[3:7], y.mT),
    "others": lambda x: (None, 3, x * 2),
    "empty": lambda x: ((x * 2)[:0], x * 2, (x * 3)[:0]),
}
ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.mT,
    "gaps": lambda x: x[:, ::2],
    "repeated": lambda x: x[:, :1].expand(-1, 6, -1),
}


@pytest.mark.usefixtures("_reruns")
@pytest.mark.parametrize("view", ARGUMENTS)
@pytest.mark.parametrize("name", RESULTS)
def test_arguments_are_copied_in_and_results_out(name: str, view: str) -> None:
    def function(x: Any, weight: Any) -> Any:
        return RESULTS[name](x + weight)

    weight, place = torch.randn(()), torch.device("cuda", 0)
    inputs = [ARGUMENTS[view](torch.randn(3, 4, 4)) for _ in range(3)]
    graph = Captured(
        lambda *given: Rerun.last.capturing(function)(*given), [inputs[0], weight], (1,), place
    )
    found: list[Any] = []
    for x in inputs:
        graph.enqueue((x, weight))
        found.append(graph.results())
    for x, got in zip(inputs, found, strict=True):
        want = function(x, weight)
        assert type(got) is type(want)
        for ours, theirs in zip(got, want, strict=True):
            if not isinstance(theirs, torch.Tensor):
                assert ours == theirs
                continue
            assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
            assert torch.equal(ours, theirs)
        if name == "shared":
            assert len({each.untyped_storage().data_ptr() for each in got}) == 1


@pytest.mark.usefixtures("_reruns")
@pytest.mark.parametrize("which", [0, 1])
def test_results_that_are_arguments_are_not_captured(which: int) -> None:
    given = [torch.randn(3), torch.randn(3)]
    with pytest.raises(RuntimeError, match="shares memory with an argument"):
        Captured(lambda *read: (read[which][1:],), given, (1,), torch.device("cuda", 0))


class Compiled:
    """Instead of a program."""

    def __init__(self, *_: object) -> None:
        pass


def in_pieces(function: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch, *on: str) -> Any:
    """A graph of fake tensors on these devices, partitioned for a GPU."""
    monkeypatch.setattr("convir.pytorch.graphs.piece._Program", Compiled)
    with fake.FakeTensorMode(), torch.no_grad():
        given = [torch.empty(4, 4, device=place) for place in on]
        graph = make_fx(function, tracing_mode="real")(given)
        whole = partitioned(graph, "cuda", 1e6, GraphReport())
    for name, child in whole.named_children():
        calls: Any = child
        whole.set_submodule(name, Piece(calls, {}, Device(CUDA), Options()))
    return whole


def attention(x: Any, *dropout: float) -> Any:
    """Of a product, by one of PyTorch's fused kernels."""
    x = (x @ x).unsqueeze(0).unsqueeze(0)
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x, *dropout)[0]


REFUSED: dict[str, tuple[Callable[[Any], Any], tuple[str, ...], str]] = {
    "whole": (lambda x: torch.relu(x[0] @ x[0]), ("cuda",), ""),
    "views": (lambda x: (x[0] @ x[0]).t(), ("cuda",), ""),
    "pytorchs": (lambda x: torch.special.i0(x[0] @ x[0]) @ x[0], ("cuda",), ""),
    "random": (lambda x: torch.rand_like(x[0]) @ x[0], ("cuda",), "cannot be captured"),
    "attention": (lambda x: attention(x[0]), ("cuda",), ""),
    "attention that drops nothing": (lambda x: attention(x[0], 0.0), ("cuda",), ""),
    "attention that drops": (lambda x: attention(x[0], 0.5), ("cuda",), "cannot be captured"),
    "elsewhere": (lambda x: (x[0] @ x[0]) * x[1].sum(), ("cuda", "cpu"), "lies on cpu"),
    "nothing": (lambda x: torch.special.i0(x[0]), ("cuda",), "it has no piece"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_graphs_that_are_replayed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, on, reason = REFUSED[name]
    found = why_not(in_pieces(function, monkeypatch, *on))
    assert reason in found if found else not reason


# What is replayed, on a GPU.


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
