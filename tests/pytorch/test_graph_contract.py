"""What PyTorch asks of a backend of `torch.compile`, case by case beside eager mode, on the CPU.

A case is called several times, with arguments that are made anew. Results, arguments, and who
shares memory with whom must be as in eager mode, and results of earlier calls stay as they were.
"""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

torch: Any = pytest.importorskip("torch")

import convir.pytorch  # noqa: E402
from convir.pytorch.graphs import reports  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    Case = tuple[Callable[[Any], Any] | Callable[[Any, Any], Any], Callable[[], Sequence[Any]]]

F: Any = torch.nn.functional
nn: Any = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")

CALLS = 3


class Pair(NamedTuple):
    """Results by place and by name."""

    first: Any
    second: Any


@dataclass
class Found:
    """Results by name."""

    product: Any
    nothing: Any
    count: int


@pytest.fixture(autouse=True)
def _afresh() -> Generator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)
    convir.pytorch.disable()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="convir", **options)


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, Found):
        tree = (tree.product, tree.nothing, tree.count)
    return torch.utils._pytree.tree_leaves(tree)


def same(got: Any, want: Any, *, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    assert type(got) is type(want)
    ours, theirs = leaves(got), leaves(want)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if not isinstance(other, torch.Tensor):
            assert mine == other
            continue
        facts: list[Any] = [
            (x.shape, x.dtype, x.stride(), x.requires_grad, x.is_inference(), type(x))
            for x in (mine, other)
        ]
        assert facts[0] == facts[1]
        torch.testing.assert_close(mine, other, rtol=rtol, atol=atol, equal_nan=True)


def sharing(tensors: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Pairs that lie in one piece of memory, and how far from each other."""
    found = [x for x in tensors if isinstance(x, torch.Tensor) and x.numel()]
    places = [x.untyped_storage().data_ptr() for x in found]
    return [
        (i, j, found[i].storage_offset() - found[j].storage_offset())
        for i in range(len(found))
        for j in range(i)
        if places[i] == places[j]
    ]


def check(function: Any, arguments: Callable[[], Sequence[Any]], **options: Any) -> None:
    f = compiled(function, **options)
    earlier: list[tuple[Any, Any]] = []
    for seed in range(CALLS):
        torch.manual_seed(seed)
        theirs = arguments()
        want = function(*theirs)
        torch.manual_seed(seed)
        ours = arguments()
        got = f(*ours)
        same(got, want)
        same(ours, theirs)
        assert sharing([*leaves(got), *leaves(ours)]) == sharing([*leaves(want), *leaves(theirs)])
        earlier.append((got, want))
    for got, want in earlier:
        same(got, want)


def square() -> tuple[Any]:
    return (torch.randn(4, 4),)


def squares() -> tuple[Any, Any]:
    return torch.randn(4, 4), torch.randn(4, 4)


def overlapping() -> tuple[Any, Any]:
    base = torch.randn(6, 4)
    return base[:4], base[2:]


def twice() -> tuple[Any, Any]:
    x = torch.randn(4, 4)
    return x, x


def rows_and_columns() -> tuple[Any, Any]:
    x = torch.randn(4, 4)
    return x, x.t()


def _added(x: Any, y: Any) -> Any:
    x.add_(1)
    return (x @ y).relu(), y.mul_(2)


def _out(x: Any, y: Any) -> Any:
    torch.mm(x, x, out=y)
    return y @ x


def _in_a_list(x: Any, found: list[Any]) -> Any:
    found.append(x @ x)
    found[0] = found[0] @ x
    return found


def _counted(x: Any, counts: dict[str, int]) -> Any:
    counts["calls"] = counts.get("calls", 0) + 1
    return x @ x


def _total(x: Any) -> Any:
    return (x @ x).sum()


def _until(x: Any) -> Any:
    y = x @ x
    return y + 1 if y.sum() > 1e9 else y @ x


def _set(x: Any) -> Any:
    y = x @ x
    y[1:3, ::2] = x[:2, :2]
    y[0].zero_()
    y.diagonal().fill_(3)
    return y


ALIASES: dict[str, Case] = {
    "one argument twice": (_added, twice),
    "arguments that overlap": (_added, overlapping),
    "an argument and its transpose": (_added, rows_and_columns),
    "arguments that share nothing": (_added, squares),
    "an argument is a result": (lambda x: (x, x @ x), square),
    "a view of an argument is a result": (lambda x: (x[1:], x.t(), x.view(2, 8), x @ x), square),
    "a written argument is a result": (lambda x: (x.relu_(), x @ x), square),
    "a view of a written argument": (lambda x: (x.mul_(2)[:, 1], x @ x), square),
    "a view of an argument is written to": (lambda x: (x[1].zero_(), x @ x), square),
    "a result twice": (lambda x: [x @ x] * 2, square),
    "views of a result": (lambda x: [y := x @ x, y[1:], y.t(), y.view(-1), y], square),
    "views of what is no result": (lambda x: [(y := x @ x)[1:], y.t()], square),
    "parts of a result": (lambda x: (x @ x).split(2), square),
    "a result is written to": (_set, square),
    "a detached one": (lambda x: (x.detach(), (x @ x).detach()), square),
    "out": (_out, squares),
    "expanded": (lambda x: (x @ x)[:, :1].expand(4, 7), square),
    "an argument without elements": (lambda x: (x[:0], x[:0] @ x), square),
    "a scalar": (lambda x: (x.sum(), (x @ x).sum().view(1), x.sum().item() < 99), square),
}
RESULTS: dict[str, Case] = {
    "none": (lambda x: (None, x @ x, None), square),
    "a dict": (lambda x: {"a": x @ x, "b": [x.relu() @ x, {"c": 3}]}, square),
    "a dataclass": (lambda x: Found(x @ x, None, 3), square),
    "a named tuple": (lambda x: Pair(x @ x, x), square),
    "a list that is an argument": (_in_a_list, lambda: (torch.randn(4, 4), [])),
    "a dict that is written to": (_counted, lambda: (torch.randn(4, 4), {})),
    "nothing": (lambda x: x.add_(x @ x) and None, lambda: (torch.ones(1, 1),)),
    "a branch on a value": (_until, square),
    "numbers": (lambda x, n: (x @ x) * n, lambda: (torch.randn(4, 4), 3)),
    "words": (lambda x, s: (x @ x) * len(s), lambda: (torch.randn(4, 4), "ab")),
    "integers": (lambda x: (x @ x).argmax(1) + 1, square),
    "booleans": (lambda x: (x @ x) > 0, square),
    "doubles": (lambda x: (x @ x).double() @ x.double(), square),
    "complex": (lambda x: torch.complex(x @ x, x).conj() @ torch.complex(x, x @ x), square),
    "conjugated": (lambda x: (x @ x.conj().mT).real.mT @ x.imag, lambda: (torch.randn(4, 4) * 1j,)),
    "random": (lambda x: (torch.rand_like(x) @ x, F.dropout(x @ x, 0.5, True)), square),
    "a random one alone": (lambda x: x @ torch.randn(4, 4) @ x, square),
    "sorted": (lambda x: torch.sort(x @ x, dim=1), square),
    "of many sizes": (lambda x: torch.nonzero((x @ x) > 0).float() @ x[:2], square),
    "mapped": (lambda x: torch.func.vmap(torch.mv, in_dims=(None, 0))(x, x), square),
    "differentiated": (torch.func.grad(_total), square),
    "a new tensor": (lambda x: x @ torch.arange(16.0).view(4, 4) + torch.tensor([1.0]), square),
    "strided": (lambda x: (x @ x).as_strided((3, 2), (4, 2), 1), square),
}


@pytest.mark.parametrize("name", ALIASES)
def test_memory(name: str) -> None:
    check(*ALIASES[name])


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    check(*RESULTS[name])


INPUTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3),
    "every other": lambda x: x[..., ::2, 1:],
    "expanded": lambda x: x[:1, :, :1].expand(2, -1, 8, -1),
    "misaligned": lambda x: x.flatten()[1:193].view(1, 3, 8, 8),
    "wants a gradient": lambda x: x.requires_grad_(),
    "a parameter": lambda x: nn.Parameter(x),
    "one image": lambda x: x[0],
    "no image": lambda x: x[:0],
    "f64": lambda x: x.double(),
    "bf16": lambda x: x.bfloat16(),
}


def conv_net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2)
    ).eval()


@pytest.mark.parametrize("name", INPUTS)
def test_an_input(name: str) -> None:
    x = INPUTS[name](torch.randn(2, 3, 8, 8))
    net = conv_net().to(x.dtype)
    if x.dim() == 3:
        net = nn.Sequential(*(each for each in net if not isinstance(each, nn.BatchNorm2d)))
    coarse = x.dtype == torch.bfloat16
    f = compiled(net)
    for _ in range(CALLS):
        same(f(x), net(x), rtol=0.05 if coarse else 1e-4, atol=0.02 if coarse else 1e-5)


def test_one_function_for_all_inputs() -> None:
    net = conv_net()
    f = compiled(net)
    kinds = ("dense", "channels last", "transposed", "every other", "expanded", "misaligned")
    x = torch.randn(2, 3, 8, 8)
    for name in (*kinds, *kinds):
        same(f(INPUTS[name](x)), net(INPUTS[name](x)))


@pytest.mark.parametrize("marks", [("mark_dynamic", 0), ("mark_dynamic", 2), ("mark_static", 0)])
def test_marked_sizes(marks: tuple[str, int]) -> None:
    mark, axis = marks
    net = nn.Sequential(conv_net(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).eval()
    graphs = 0

    def counting(graph: Any, given: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return torch._dynamo.lookup_backend("convir")(graph, given)

    f = torch.compile(net, backend=counting)
    for size in (8, 9, 12, 8):
        shape = [size if i == axis else each for i, each in enumerate((2, 3, 10, 10))]
        x = torch.randn(shape)
        getattr(torch._dynamo, mark)(x, axis)
        same(f(x), net(x))
    assert graphs == (1 if mark == "mark_dynamic" else 3)


def test_batch_normalisation_in_training_counts() -> None:
    ours, theirs = conv_net().train(), conv_net().train()
    f = compiled(ours)
    for _ in range(CALLS):
        x = torch.randn(2, 3, 8, 8)
        same(f(x), theirs(x))
        same(dict(ours.state_dict()), dict(theirs.state_dict()))
    assert int(ours[1].num_batches_tracked) == CALLS
    for each in (ours, theirs):
        each.eval()
    x = torch.randn(2, 3, 8, 8)
    same(f(x), theirs(x))


@pytest.mark.parametrize("inside", [True, False])
def test_autocast(inside: bool) -> None:
    net, x = conv_net(), torch.randn(2, 3, 8, 8)

    def function(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            return net(x), x.sum()

    f = compiled(function)
    for enabled in (True, False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            same(f(x), function(x), rtol=0.05, atol=0.02)


class Counting(nn.Module):
    """Has a number, a buffer that is written to, a list, and a parameter twice."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.same = self.weight
        self.register_buffer("total", torch.zeros(4, 4))
        self.total: Any
        self.scale, self.calls = 2.0, 0
        self.kept: list[Any] = []

    def forward(self, x: Any, *, bias: Any = None) -> Any:
        self.calls += 1
        self.total += x @ self.weight
        self.kept.append(self.total @ self.same)
        return self.kept[-1] * self.scale + (0 if bias is None else bias)


def test_a_module_that_changes_itself() -> None:
    ours = Counting()
    theirs = deepcopy(ours)
    f = compiled(ours)
    for i in range(4):
        x = torch.randn(4, 4)
        if i == 2:
            ours.scale = theirs.scale = 0.5
        bias = torch.randn(4) if i % 2 else None
        same(f(x, bias=bias), theirs(x, bias=bias))
    assert ours.calls == theirs.calls == 4
    same(ours.kept, theirs.kept)
    same(ours.total, theirs.total)


def test_a_compiled_module_is_copied_and_saved() -> None:
    net, x = conv_net(), torch.randn(2, 3, 8, 8)
    f = compiled(net)
    same(f(x), net(x))
    copy = deepcopy(f)
    for parameter in copy.parameters():
        parameter.mul_(0.5)
    changed = deepcopy(net)
    for parameter in changed.parameters():
        parameter.mul_(0.5)
    same(copy(x), changed(x))
    same(f(x), net(x))
    f.load_state_dict(copy.state_dict())
    same(f(x), changed(x))
    f.load_state_dict({name: x * 2 for name, x in copy.state_dict().items()}, assign=True)
    same(f(x), net(x))
    changed = deepcopy(net).half().float()
    net.half().float()
    same(f(x), changed(x))


def test_parameters_of_the_caller() -> None:
    net, x = conv_net(), torch.randn(2, 3, 8, 8)

    def function(parameters: Any, x: Any) -> Any:
        return torch.func.functional_call(net, parameters, (x,))

    f = compiled(function)
    for factor in (1, 2, 3):
        parameters = {name: each * factor for name, each in net.named_parameters()}
        same(f(parameters, x), function(parameters, x))


def _doubled(_module: Any, _given: Any, result: Any) -> Any:
    return result * 2


def test_parametrisations_and_hooks() -> None:
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.Linear(5, 3))
    net[1].register_forward_hook(_doubled)
    x = torch.randn(2, 4)
    f = compiled(net.eval())
    same(f(x), net(x))
    net[0].parametrizations.weight.original0.mul_(3)
    same(f(x), net(x))


def test_several_threads() -> None:
    net = conv_net()
    inputs = [torch.randn(2 + i % 2, 3, 8, 8) for i in range(8)]
    wanted = [net(x) for x in inputs]
    f = compiled(net)
    for x in inputs:  # Dynamo itself is not for several threads.
        f(x)
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def calls(first: int) -> None:
        try:
            start.wait()
            with torch.no_grad():
                for i in range(first, 8 * 5, 4):
                    same(f(inputs[i % 8]), wanted[i % 8])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=calls, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def test_gradients_are_switched_on_and_off() -> None:
    net, x = conv_net(), torch.randn(2, 3, 8, 8)
    f = compiled(net)
    for wanted in (False, True, False, True):
        with torch.set_grad_enabled(wanted):
            got, want = f(x), net(x)
            same(got, want)
            if wanted:
                got.sum().backward()
                want.sum().backward()
    with torch.inference_mode():
        same(f(x), net(x))
    same(f(x), net(x))


def test_threads_of_pytorch_change() -> None:
    net, x = conv_net(), torch.randn(2, 3, 8, 8)
    f = compiled(net)
    for count in (1, 2, 1):
        torch.set_num_threads(count)
        same(f(x), net(x))


def test_it_breaks_off_and_goes_on() -> None:
    net = conv_net()

    def function(x: Any) -> Any:
        y = net(x)
        torch._dynamo.graph_break()
        return y.relu() @ y.mT

    before = len(reports())
    check(function, lambda: (torch.randn(2, 3, 8, 8),))
    assert len(reports()) - before == 2


def test_an_lstm_in_a_loop() -> None:
    cell = nn.LSTM(4, 8, 2, batch_first=True).eval()

    def function(x: Any) -> Any:
        result, (h, c) = cell(x)
        return result, h @ h.mT, c

    check(function, lambda: (torch.randn(2, 5, 4),))
