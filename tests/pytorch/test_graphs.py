"""`torch.compile(…, backend="convir")` keeps the contract of a backend, on the CPU."""

from __future__ import annotations

import logging
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import convir.pytorch  # noqa: E402
from convir.api.compile import KERNELS_DONE, Job  # noqa: E402
from convir.frontends.pytorch.exported import decompositions  # noqa: E402
from convir.pytorch.graphs import reports  # noqa: E402
from convir.pytorch.graphs.backend import (  # noqa: E402
    _in_pieces,  # pyright: ignore[reportPrivateUsage]
    backend,
)
from convir.pytorch.graphs.options import Options  # noqa: E402
from convir.pytorch.graphs.piece import Piece  # noqa: E402
from convir.runtime.compile_error import CompileError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

F: Any = torch.nn.functional
nn: Any = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _afresh() -> Generator[None]:
    torch._dynamo.reset()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)
    convir.pytorch.disable()


def conv_net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2)
    ).eval()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=backend, fullgraph=True, **options)


def same(got: Any, want: Any) -> None:
    ours, theirs = (torch.utils._pytree.tree_leaves(each) for each in (got, want))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if not isinstance(other, torch.Tensor):
            assert mine == other
            continue
        assert (mine.shape, mine.dtype, mine.stride()) == (other.shape, other.dtype, other.stride())
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def check(function: Any, *arguments: Any) -> Any:
    """Compare with PyTorch, arguments included: one may have been written to."""
    theirs = [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
    want = function(*theirs)
    count = len(reports())
    got = compiled(function)(*arguments)
    same(got, want)
    same(arguments, tuple(theirs))
    return reports()[count:]


def test_the_backend_has_a_name() -> None:
    assert "convir" in torch._dynamo.list_backends()


@pytest.mark.parametrize("order", ["contiguous_format", "channels_last"])
def test_a_network_is_one_piece(order: str) -> None:
    layout = getattr(torch, order)
    net = conv_net().to(memory_format=layout)
    (report,) = check(net, torch.randn(2, 3, 9, 9).to(memory_format=layout))
    assert (report.pieces, report.share) == (1, 1.0)
    assert not report.left


def test_it_is_called_again() -> None:
    net, x = conv_net(), torch.randn(2, 3, 9, 9)
    f = compiled(net)
    for _ in range(3):
        same(f(x), net(x))
        x = torch.randn(2, 3, 9, 9)
    same(f(x.to(memory_format=torch.channels_last)), net(x.to(memory_format=torch.channels_last)))


def test_parameters_that_are_written_to_are_seen() -> None:
    net, x = conv_net(), torch.randn(2, 3, 9, 9)
    f = compiled(net)
    same(f(x), net(x))
    for _ in range(3):
        net[0].weight.mul_(1.5)
        same(f(x), net(x))
    net.load_state_dict({name: value * 0.5 for name, value in net.state_dict().items()})
    same(f(x), net(x))
    net[3].weight = nn.Parameter(torch.randn_like(net[3].weight))
    same(f(x), net(x))
    net[3].weight.data = torch.randn_like(net[3].weight)
    same(f(x), net(x))


def test_parameters_that_the_graph_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[int] = []
    built = Piece.__init__

    def building(piece: Piece, graph: Any, constants: Any, *others: Any) -> None:
        known.append(len(constants))
        built(piece, graph, constants, *others)

    monkeypatch.setattr(Piece, "__init__", building)
    net = conv_net()
    x = torch.randn(2, 3, 16, 16)
    for freezing in (False, True):
        torch._dynamo.reset()
        with torch._inductor.config.patch(freezing=freezing):
            f = compiled(net)
            same(f(x), net(x))
            net[0].weight.mul_(2)
            same(f(x), net(x))
    assert known[0] > 0
    assert len(set(known)) == 1


def test_a_parameter_whose_memory_is_replaced() -> None:
    """The new memory does not get the old's address, by which a write is noticed."""
    net, x = nn.Linear(64, 64, bias=False).eval(), torch.randn(4, 64)
    f = compiled(net)
    f(x)
    held: list[Any] = []
    for _ in range(50):
        net.weight.data = torch.randn(64, 64)
        same(f(x), net(x))
        held.append(torch.randn(64, 64))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "strided": lambda x: x[..., ::2],
    "cropped": lambda x: x[:, :, 1:7, 3:7],
    "expanded": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    "permuted": lambda x: x.permute(0, 3, 1, 2),
    "joined": lambda x: x.flatten(0, 1)[None],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_inputs_that_are_not_dense(view: Callable[[Any], Any]) -> None:
    def function(x: Any) -> Any:
        return (x.exp() * 2 + x.tanh()).sigmoid() @ x.mT

    base = torch.randn(2, 8, 8, 8)
    f = compiled(function)
    for each in (view(base), view(base).contiguous(), view(base)):
        same(f(each), function(each))


def test_inference_mode() -> None:
    with torch.inference_mode():
        net, x = conv_net(), torch.randn(2, 3, 9, 9)
        f = compiled(net)
        same(f(x), net(x))
        net[0].weight.mul_(1.5)
        same(f(x), net(x))
    net, x = conv_net(), torch.randn(2, 3, 9, 9)
    with torch.inference_mode():
        same(compiled(net)(x), net(x))


def test_parameters_may_be_arguments() -> None:
    net, x = conv_net(), torch.randn(2, 3, 9, 9)
    f = compiled(net, options={"constants": False})
    same(f(x), net(x))
    net[0].weight.data.mul_(1.5)  # Of which PyTorch keeps no count.
    same(f(x), net(x))


def test_arguments_that_are_written_to() -> None:
    weight = torch.randn(4, 3, 3, 3)

    def function(x: Any, y: Any) -> Any:
        x.mul_(2)
        y[:, 0] = 1
        return F.conv2d(x, weight), x.sum()

    check(function, torch.randn(1, 3, 6, 6), torch.randn(2, 3))


def test_views_beside_what_pytorch_computes_are_pytorchs() -> None:
    before, behind = nn.Linear(6, 9), nn.Linear(9, 4)

    def function(x: Any) -> Any:
        heads = before(x).view(2, 3, 3, 3).permute(0, 2, 1, 3)
        return behind(torch.special.bessel_j0(heads).transpose(1, 2).reshape(2, 3, 9))

    x = torch.randn(2, 3, 6)
    want = function(x)
    seen: list[str] = []

    class Seen(Piece):
        def __init__(self, graph: Any, *rest: Any) -> None:
            super().__init__(graph, *rest)
            seen.extend(self.calls)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("convir.pytorch.graphs.backend.Piece", Seen)
        same(compiled(function)(x), want)
    assert seen
    assert not any("permute" in call or "transpose" in call for call in seen)


def test_results_that_are_arguments_or_views() -> None:
    weight = torch.randn(4, 3, 3, 3)

    def function(x: Any) -> Any:
        y = F.conv2d(x, weight)
        return x, y, y.flatten(1), y[:, 1], y.transpose(1, 2), x.view(-1), y

    check(function, torch.randn(1, 3, 6, 6))
    x = torch.randn(1, 3, 6, 6)
    found = compiled(function)(x)
    assert found[0] is x
    assert found[5].data_ptr() == x.data_ptr()
    assert found[2].data_ptr() == found[1].data_ptr()


def test_arguments_that_share_memory() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return torch.relu(y @ y.transpose(0, 1)) + x.sum()

    base = torch.randn(4, 4)
    other = base.clone()
    want = function(other, other)
    same(compiled(function)(base, base), want)
    same(base, other)


def test_constants_scalars_and_none() -> None:
    def function(x: Any, factor: float, flag: bool) -> Any:
        return (x @ x.mT) * factor if flag else None, 3, {"a": x.tanh() @ x.mT}

    check(function, torch.randn(3, 4), 2.0, True)


def test_random_calls_stay_pytorchs() -> None:
    def function(x: Any) -> Any:
        return F.dropout(x @ x.mT, 0.5, training=True) @ x

    x = torch.randn(8, 8)
    torch.manual_seed(1)
    want = function(x)
    torch.manual_seed(1)
    count = len(reports())
    same(compiled(function)(x), want)
    (report,) = reports()[count:]
    assert report.pieces == 2
    assert any("rand" in op or "dropout" in op for op, _ in report.left)


def test_what_has_no_spelling_stays_pytorchs() -> None:
    def function(x: Any) -> Any:
        return torch.linalg.inv(x @ x.mT + torch.eye(4)) @ x

    (report,) = check(function, torch.randn(4, 4))
    assert {"linalg" in op or "inv" in op for op, _ in report.left} >= {True}
    assert "not supported" in str(report)


def test_calls_that_are_for_floats_alone_leave_the_rest() -> None:
    def function(x: Any, n: Any) -> Any:
        return x @ x.mT, n.abs(), (-n).sum(), n.floor(), x.sum().cumsum(0)

    (report,) = check(function, torch.randn(3, 4), torch.tensor([3, -5]))
    assert report.pieces == 1
    left = {op.split(".")[1]: why for op, why in report.left}
    assert left.pop("cumsum") == "a tensor of rank 0 has no axis 0"
    assert set(left) == {"abs", "neg", "sum", "floor"}
    assert set(left.values()) == {"is not supported on elements of type i64"}


def test_a_call_whose_reading_fails_stays_pytorchs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(node: Any) -> None:
        if "relu" in str(node.target):
            raise IndexError("no such place")

    monkeypatch.setattr("convir.pytorch.graphs.partition.refusal", fails)
    (report,) = check(conv_net(), torch.randn(2, 3, 9, 9))
    assert list(report.left) == [("aten.relu.default", "IndexError: no such place")]
    assert "stays PyTorch's: no such place" in caplog.text


def test_a_result_that_has_no_spelling_leaves_its_call() -> None:
    def function(x: Any) -> Any:
        y, places = F.max_pool2d(x, 2, return_indices=True)
        return y @ y.mT, places

    (report,) = check(function, torch.randn(2, 3, 6, 6))
    assert report.pieces == 1
    assert all("result 1 of aten.max_pool2d" in why for _, why in report.left)
    assert report.left


def test_indices_that_may_be_outside_are_pytorchs() -> None:
    """It raises then; constant ones are looked at when the piece is compiled."""

    class Table(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.table = nn.Parameter(torch.randn(5, 4))
            self.register_buffer("places", torch.tensor([4, 0, 2]))

        def forward(self, x: Any, indices: Any) -> Any:
            rows = self.table[self.places] @ x
            return F.embedding(indices, self.table) @ x, rows.index_select(0, indices)

    net, x = Table().eval(), torch.randn(4, 4)
    (report,) = check(net, x, torch.tensor([2, 0]))
    assert {op for op, _ in report.left} == {"aten.embedding.default", "aten.index_select.default"}
    with pytest.raises(IndexError):
        compiled(net)(x, torch.tensor([2, 5]))


def test_pieces_too_small_to_gain_stay_pytorchs() -> None:
    def function(x: Any) -> Any:
        return x + 1

    (report,) = check(function, torch.randn(4))
    assert report.pieces == 0
    assert [why for _, why in report.left] == ["its piece is too small to gain"]


@pytest.mark.parametrize("dynamic", [True, None], ids=["dynamic", "automatic"])
def test_open_sizes(dynamic: bool | None) -> None:
    net = nn.Sequential(conv_net(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).eval()
    f = compiled(net, dynamic=dynamic)
    for batch in (2, 3, 5, 3, 2):
        x = torch.randn(batch, 3, 9, 9)
        same(f(x), net(x))


def test_errors_are_pytorchs() -> None:
    net = conv_net()
    with pytest.raises(RuntimeError, match="channels"):
        compiled(net)(torch.randn(2, 4, 9, 9))
    with pytest.raises(Exception, match="has no option 'nonsense'"):
        compiled(net, options={"nonsense": 1})(torch.randn(2, 3, 9, 9))


def test_a_piece_that_cannot_be_compiled_runs_on_pytorch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no such code")

    monkeypatch.setattr("convir.pytorch.graphs.piece._Program", fails)
    with caplog.at_level(logging.WARNING, "convir.pytorch.graphs"):
        (report,) = check(conv_net(), torch.randn(2, 3, 9, 9))
    assert "runs on PyTorch: no such code" in caplog.text
    assert (report.pieces, report.taken, report.share) == (0, 0, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_guards_are_written_while_kernels_compile(
    fails: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make = Job.compile
    called = Event()

    def compile_slowly(job: Job) -> Any:
        assert callable(job.progress)
        job.progress(f"{KERNELS_DONE}1 of 2")
        assert called.wait(60)
        if fails:
            raise CompileError("NVRTC refuses", source="", options="", log="")
        return make(job)

    finish = Piece._finish  # pyright: ignore[reportPrivateUsage]

    def finishes(piece: Piece, program: Any) -> None:
        called.set()
        finish(piece, program)

    monkeypatch.setattr(Job, "compile", compile_slowly)
    monkeypatch.setattr(Piece, "_finish", finishes)
    net, x = conv_net(), torch.randn(2, 3, 9, 9)
    f = compiled(net)
    with caplog.at_level(logging.WARNING, "convir.pytorch.graphs"):
        same(f(x), net(x))
        same(f(x), net(x))
    assert ("runs on PyTorch: NVRTC refuses" in caplog.text) == fails


def test_autograd_gets_the_convolutions_alone(caplog: pytest.LogCaptureFixture) -> None:
    net, x = conv_net(), torch.randn(2, 3, 9, 9)
    with torch.enable_grad(), caplog.at_level(logging.WARNING, "convir.pytorch.graphs"):
        want = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
        got = torch.autograd.grad(compiled(net)(x).square().sum(), list(net.parameters()))
    same(got, want)
    assert "autograd records this graph" in caplog.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype: Any) -> None:
    net, x = conv_net(), torch.randn(2, 3, 9, 9)
    want = net(x)
    got = compiled(net.to(dtype))(x.to(dtype))
    assert got.dtype == dtype
    error = float((got.float() - want).abs().max() / want.abs().max())
    assert error <= 16 * torch.finfo(dtype).eps


CALLS: dict[str, Callable[[Any], Any]] = {
    "as-strided": lambda x: F.relu((x @ x.mT).as_strided((6, 2, 3, 1, 6), (1, 108, 36, 6, 6))),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "attention-masked": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=x[:1, :1] > torch.tensor([[-9.0], [9], [0], [9], [-9], [0]])
    ),
    "empty": lambda x: (torch.cat([x[:0], x[:0]]), x @ x.mT),
    "expanded": lambda x: (x @ x.mT)[:, :, :1].expand(-1, -1, 6, -1),
    "flags": lambda x: torch.maximum(y := x @ x.mT > 0, x > 0) ^ torch.minimum(y, x > 1),
    "gaps": lambda x: (x @ x.mT)[:, :, ::2],
    "integers": lambda x: (x @ x.mT).argmax(-1),
    "roll": lambda x: torch.roll(x @ x.mT, 2, 3),
    "written": lambda x: (x @ x.mT).clone().fill_diagonal_(0) if x.dim() == 2 else x @ x.mT,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    check(CALLS[name], torch.randn(2, 3, 6, 6))


def test_a_view_whose_size_elements_decide() -> None:
    """Nothing is asked of it while a graph is cut in pieces."""

    def function(x: Any) -> Any:
        found = torch.unique((x @ x).sign(), dim=1)
        return found.unsqueeze(0), x @ x

    x = torch.randn(4, 4)
    graph = make_fx(function, decompositions(), tracing_mode="fake")(x)
    run = _in_pieces(graph, {}, Options())
    torch.testing.assert_close(run(x), function(x))
