"""Every overload of the operators, checked as `torch.library.opcheck` checks one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

import convir.pytorch  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

F: Any = torch.nn.functional
aten: Any = torch.ops.aten

PREFERRED: dict[str, Any] = {"prefer": "convir", "wait": True}
PLAIN = ([2, 1], [1, 0], [1, 1], False, [0, 0], 2)
TRANSPOSED = ([2, 2], [1, 1], [1, 1], True, [1, 0], 2)


@pytest.fixture(autouse=True)
def _afresh() -> Generator[None]:
    forget()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def operands(options: tuple[Any, ...], *, last: bool) -> tuple[Any, Any, Any]:
    """x, w and a bias for six output channels."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, 6)
    w = torch.randn(4, 3, 3, 3) if options[3] else torch.randn(6, 2, 3, 3)
    if last:
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    return x, w, torch.randn(6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("options", [PLAIN, TRANSPOSED], ids=["plain", "transposed"])
def test_the_operator(options: tuple[Any, ...], last: bool) -> None:
    """Schema, fake tensors, autograd, and what is compiled with fixed and with dynamic shapes."""
    x, w, bias = operands(options, last=last)
    given = [t.requires_grad_() for t in (x, w, bias)]
    with convir.pytorch.enabled(**PREFERRED):
        torch.library.opcheck(aten.convolution.default, (*given, *options))
        assert any(row.convir_calls for row in convir.pytorch.census())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False, True, False]])
@pytest.mark.parametrize("options", [PLAIN, TRANSPOSED], ids=["plain", "transposed"])
def test_its_backward(options: tuple[Any, ...], mask: list[bool]) -> None:
    x, w, bias = operands(options, last=False)
    dy = torch.randn_like(aten.convolution.default(x, w, bias, *options))
    arguments = (dy, x, w, [6], *options, mask)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    with convir.pytorch.enabled(**PREFERRED):
        torch.library.opcheck(aten.convolution_backward.default, arguments, test_utils=checks)
        assert {row.runs for row in convir.pytorch.census()} == {"convir"}


@pytest.mark.parametrize("options", [PLAIN, TRANSPOSED], ids=["plain", "transposed"])
def test_overloads_with_outputs(options: tuple[Any, ...]) -> None:
    """They write into the tensors that are given, and go through the same operator."""
    x, w, bias = operands(options, last=False)
    want = aten.convolution.default(x, w, bias, *options)
    dy = torch.randn_like(want)
    rest = ([6], *options, [True, True, True])
    gradients = aten.convolution_backward.default(dy, x, w, *rest)
    with convir.pytorch.enabled(**PREFERRED):
        out = torch.empty_like(want)
        assert aten.convolution.out(x, w, bias, *options, out=out) is out
        outs = [torch.empty_like(t) for t in gradients]
        names = ("out0", "out1", "out2")
        aten.convolution_backward.out(dy, x, w, *rest, **dict(zip(names, outs, strict=True)))
        assert [row.convir_calls for row in convir.pytorch.census()] == [1, 1, 1]
    for got, expected in zip((out, *outs), (want, *gradients), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "function", ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"]
)
def test_the_functions_and_their_paddings(function: str) -> None:
    """The operators of `torch.nn.functional`, with numbers and with words for the padding."""
    rank = int(function[-2])
    x, w = torch.randn(2, 4, *[7] * rank), torch.randn(4, 4, *[3] * rank)
    paddings: list[Any] = [1] if "transpose" in function else [1, "same", "valid"]
    compute = getattr(F, function)
    want = [compute(x, w, padding=padding) for padding in paddings]
    with convir.pytorch.enabled(**PREFERRED):
        for padding, expected in zip(paddings, want, strict=True):
            torch.testing.assert_close(compute(x, w, padding=padding), expected)
        assert {row.runs for row in convir.pytorch.census()} == {"convir"}


def test_lazy_modules() -> None:
    x = torch.randn(2, 4, 7, 7)
    with convir.pytorch.enabled(**PREFERRED):
        lazy = torch.nn.LazyConv2d(3, 3)
        torch.testing.assert_close(lazy(x), F.conv2d(x, lazy.weight, lazy.bias))
        assert {row.runs for row in convir.pytorch.census()} == {"convir"}


@pytest.mark.filterwarnings("ignore")
def test_quantised_tensors_reach_pytorch() -> None:
    if torch.backends.quantized.engine == "none":
        pytest.skip("PyTorch has no engine for quantised tensors here")
    x = torch.quantize_per_tensor(torch.rand(1, 4, 7, 7), 0.01, 0, torch.quint8)
    w = torch.quantize_per_tensor(torch.randn(3, 4, 3, 3), 0.02, 0, torch.qint8)
    convolve: Any = torch.ao.nn.quantized.functional.conv2d
    want = convolve(x, w, torch.zeros(3), scale=0.05, zero_point=128)
    with convir.pytorch.enabled(**PREFERRED):
        got = convolve(x, w, torch.zeros(3), scale=0.05, zero_point=128)
        assert convir.pytorch.census() == []
    assert torch.equal(got.int_repr(), want.int_repr())


@pytest.mark.filterwarnings("ignore")
def test_opaque_tensors_reach_pytorch() -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no MKL-DNN")
    x, w = torch.randn(1, 4, 7, 7).to_mkldnn(), torch.randn(3, 4, 3, 3)
    want = F.conv2d(x, w).to_dense()
    with convir.pytorch.enabled(**PREFERRED):
        assert torch.equal(F.conv2d(x, w).to_dense(), want)
        assert convir.pytorch.census() == []


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
def test_gradients_of_other_numbers(dtype: str) -> None:
    """Those of f64 and of complex f64 numbers are PyTorch's, to the bit."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    x, w = (
        torch.randn(shape, dtype=kind).requires_grad_() for shape in ((2, 4, 7, 7), (3, 4, 3, 3))
    )

    def compute() -> list[Any]:
        y = F.conv2d(x, w)
        return [y, *torch.autograd.grad(y.abs().sum(), (x, w))]

    want = compute()
    with convir.pytorch.enabled(**PREFERRED):
        got = compute()
        seen = convir.pytorch.census()
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
    assert bool(seen) == (dtype == "complex64")


def test_vmap_over_filters() -> None:
    """PyTorch makes a grouped convolution of it, in the backward pass too."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 7, 7), torch.randn(3, 5, 4, 3, 3)

    def loss(w: Any) -> Any:
        return F.conv2d(x, w).square().sum()

    def compute() -> Any:
        return torch.func.vmap(torch.func.grad_and_value(loss))(w)

    want = compute()
    with convir.pytorch.enabled(**PREFERRED):
        got = compute()
        assert any(row.convir_calls for row in convir.pytorch.census())
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-2)
