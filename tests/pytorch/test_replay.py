"""Which graphs of `torch.compile(…, backend="convir")` are replayed: decided on any machine."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")
make_fx: Any = import_module("torch.fx.experimental.proxy_tensor").make_fx
fake: Any = import_module("torch._subclasses")

from convir.pytorch.graphs import replay  # noqa: E402
from convir.pytorch.graphs.options import Options  # noqa: E402
from convir.pytorch.graphs.partition import partitioned  # noqa: E402
from convir.pytorch.graphs.piece import Piece  # noqa: E402
from convir.pytorch.graphs.replay import (  # noqa: E402
    Captured,
    Replayed,
    read_in_place,
    why_not,
)
from convir.pytorch.graphs.report import GraphReport  # noqa: E402
from convir.runtime.devices import CUDA, Device  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

F: Any = torch.nn.functional
nn: Any = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")


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
    place, read = torch.device("cuda", 0), () if has_constants else static
    return Replayed(lambda *given: float(sum(given)), [piece], static, place, lambda: read)


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
def test_replays_begin_before_parameters_are_compared_whose_memory_they_do_not_read() -> None:
    function, weight = replayed(0), torch.ones(())
    assert [is_replay(function(weight)) for _ in range(3)] == [False, True, True]
    assert Recorded.enqueued == 2
    weight.mul_(2)
    assert function(weight) == 2.0  # Nobody reads the replay.
    assert Recorded.enqueued == 3
    function = replayed(0)
    assert [is_replay(function(weight)) for _ in range(2)] == [False, True]
    weight.data = torch.ones(())
    assert function(weight) == 1.0  # Nor this one.
    assert Recorded.enqueued == 5
    function = replayed(0, has_constants=False)
    assert [is_replay(function(weight)) for _ in range(2)] == [False, True]
    weight.data = torch.ones(())
    assert function(weight) == 1.0
    assert Recorded.enqueued == 6  # The one that was captured, and none since.


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


def test_parameters_that_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        return torch.special.i0(x[1]) @ (x[0] @ x[1] @ x[2])

    whole = in_pieces(function, monkeypatch, "cuda", "cuda", "cuda")
    assert read_in_place(whole, (1, 2)) == (1, 2)
    monkeypatch.setattr(Piece, "holds", lambda *_: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert read_in_place(whole, (0, 1, 2)) == (1,)
