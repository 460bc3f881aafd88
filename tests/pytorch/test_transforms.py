"""What PyTorch builds on the operator works as before: autograd, compilers, torch.func and more."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

from pytorch_cases import CASES, FUNCTIONS, Case, places, tensors  # noqa: E402

import convir.pytorch  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

F: Any = torch.nn.functional

PREFERRED: dict[str, Any] = {"prefer": "convir", "wait": True}


@pytest.fixture(autouse=True)
def _afresh() -> Generator[None]:
    forget()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def both(compute: Callable[[], Any]) -> tuple[Any, Any, dict[str, int]]:
    """Plain PyTorch's result, ours, and how often we ran each direction."""
    plain = compute()
    with convir.pytorch.enabled(**PREFERRED):
        ours = compute()
        calls = Counter[str]()
        for row in convir.pytorch.census():
            calls[row.direction] += row.convir_calls
    return plain, ours, calls


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=4),
        torch.nn.ConvTranspose2d(8, 4, 2, stride=2),
    )


IMAGE = (2, 3, 10, 10)


def test_double_backward() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 7, 7, requires_grad=True), torch.randn(3, 4, 3, 3, requires_grad=True)

    def compute() -> Any:
        y = F.conv2d(x, w, stride=2, padding=1)
        (gx,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return torch.autograd.grad(gx.square().sum(), (x, w))

    plain, ours, calls = both(compute)
    assert calls["forward"] >= 1
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: Any) -> None:
    net, x = model(), torch.randn(IMAGE)

    def compute() -> Any:
        net.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            y = net(x)
        y.float().square().sum().backward()
        return y, [p.grad.clone() for p in net.parameters()]

    (plain, plain_grads), (ours, grads), calls = both(compute)
    assert ours.dtype == plain.dtype == dtype
    assert calls["forward"] > 0
    torch.testing.assert_close(ours, plain, rtol=5e-2, atol=5e-2)
    for a, b in zip(grads, plain_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=5e-2, atol=0.05 * float(b.abs().max()))


def test_vmap_and_grad() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(3, 2, 4, 7, 7), torch.randn(3, 4, 3, 3)

    def loss(x: Any, w: Any) -> Any:
        return F.conv2d(x, w).square().sum()

    plain, ours, _ = both(lambda: torch.func.vmap(torch.func.grad(loss), (0, None))(x, w))
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-3)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_forward_mode() -> None:
    x, w = torch.randn(2, 4, 7, 7), torch.randn(3, 4, 3, 3)

    def compute() -> Any:
        return torch.func.jvp(partial(F.conv2d, weight=w), (x,), (x,))

    (plain, plain_t), (ours, ours_t), _ = both(compute)
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(ours_t, plain_t)


def test_inference_mode_and_modes() -> None:
    x, w = torch.randn(2, 4, 7, 7), torch.randn(3, 4, 3, 3)
    with torch.inference_mode():
        plain, ours, calls = both(lambda: F.conv2d(x, w))
    assert calls == {"forward": 1}
    torch.testing.assert_close(ours, plain)


def test_checkpointing() -> None:
    net, x = model(), torch.randn(IMAGE)

    def compute() -> Any:
        net.zero_grad()
        y: Any = torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False)
        y.square().sum().backward()
        return [p.grad.clone() for p in net.parameters()]

    plain, ours, calls = both(compute)
    assert calls["forward"] > 4  # Three convolutions, most of them twice.
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def test_torch_compile() -> None:
    """No graph break; the compiler has no C++ toolchain to need."""
    net, x = model(), torch.randn(IMAGE)
    compiled: Any = torch.compile(net, fullgraph=True, backend="aot_eager")

    def compute() -> Any:
        net.zero_grad()
        y = compiled(x)
        y.square().sum().backward()
        return [y.detach(), *[p.grad.clone() for p in net.parameters()]]

    plain, ours, calls = both(compute)
    assert calls["backward weight"] >= 1
    for a, b in zip(ours, plain, strict=True):
        assert places(a) == places(b)
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def test_dynamic_shapes() -> None:
    """One graph for every batch size, a row for each size."""
    net = model()
    compiled: Any = torch.compile(net, fullgraph=True, backend="aot_eager", dynamic=True)
    with convir.pytorch.enabled(**PREFERRED):
        for batch in (2, 3, 5):
            x = torch.randn(batch, *IMAGE[1:])
            ours = compiled(x)
            with torch.no_grad():
                eager = net(x)
            assert places(ours) == places(eager)
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
        rows = convir.pytorch.census()
    assert {row.shapes[0][0] for row in rows} == {2, 3, 5}
    assert {row.runs for row in rows} == {"convir"}


def test_torch_export() -> None:
    net, x = model().eval(), torch.randn(IMAGE)
    with convir.pytorch.enabled(**PREFERRED):
        program = torch.export.export(net, (x,))
        ours = program.module()(x)
        assert any(row.convir_calls for row in convir.pytorch.census())
    assert any(node.target is torch.ops.aten.conv2d.default for node in program.graph.nodes)
    torch.testing.assert_close(ours, net(x), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_compiled_code_expects(case: Case) -> None:
    """Sizes, strides and dtypes of results and gradients are those of fake tensors."""
    given = [t.to(case.dtype).requires_grad_() for t in tensors(case)]

    def compute(operands: list[Any]) -> list[Any]:
        y = FUNCTIONS[case.function](*operands, **case.options)
        return [y, *torch.autograd.grad(y, operands, torch.ones_like(y))]

    with torch._subclasses.FakeTensorMode() as mode:
        fake = compute([mode.from_tensor(t) for t in given])
    with convir.pytorch.enabled(**PREFERRED):
        ours = compute(given)
        assert {row.runs for row in convir.pytorch.census()} == {"convir"}
    for a, b in zip(ours, fake, strict=True):
        assert (a.shape, a.dtype, places(a)) == (b.shape, b.dtype, places(b))


def test_threads() -> None:
    x, w = torch.randn(2, 4, 17, 17), torch.randn(3, 4, 3, 3)
    want = F.conv2d(x, w)
    results: list[Any] = []

    def work() -> None:
        torch.set_num_threads(1)
        results.extend(F.conv2d(x, w) for _ in range(50))

    with convir.pytorch.enabled(**PREFERRED):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (row,) = convir.pytorch.census()
    assert row.runs == "convir"
    assert row.kernel
    assert len(results) == 200
    for got in results:
        torch.testing.assert_close(got, want)
