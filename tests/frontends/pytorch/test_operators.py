"""Each operator of PyTorch's graphs, compiled for the host, against PyTorch in f64."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import pytest

torch: Any = pytest.importorskip("torch")

import convir  # noqa: E402
from convir.frontends.pytorch.errors import UnsupportedError  # noqa: E402
from convir.frontends.pytorch.exported import exported, read_exported  # noqa: E402
from convir.frontends.pytorch.ops import OPERATORS  # noqa: E402
from convir.runtime.cache import program_cache  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

F: Any = torch.nn.functional
nn: Any = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")

ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "abs": torch.abs,
    "add": lambda x: x + 2 * x.flip(0) + 1.5,
    "add-alpha": lambda x: torch.add(x, x.flip(1), alpha=0.5),
    "ceil": torch.ceil,
    "clamp": lambda x: x.clamp(-0.5, 0.25),
    "clamp-min": lambda x: x.clamp(min=0.1),
    "compare": lambda x: torch.where((x > 0.1) & ~(x >= 1) | (x == 0), x, -1.0),
    "cos": torch.cos,
    "div": lambda x: x / (2 + x.abs()),
    "div-floor": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "elu": lambda x: F.elu(x, 0.7),
    "erf": torch.erf,
    "exp": torch.exp,
    "floor": torch.floor,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardtanh": F.hardtanh,
    "leaky": lambda x: F.leaky_relu(x, 0.2),
    "log": lambda x: torch.log(x.abs() + 0.1),
    "masked-fill": lambda x: x.masked_fill(x > 0, 2.0),
    "maximum": lambda x: torch.maximum(x, x.flip(0)) - torch.minimum(x, x.flip(1)),
    "mish": F.mish,
    "ne": lambda x: (x != x.floor()).to(x.dtype),
    "pow": lambda x: x**2 + x.abs() ** 1.5 + x.abs() ** 0.5,
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25, 0.5, 0.1], dtype=x.dtype)),
    "reciprocal": lambda x: (x.abs() + 1).reciprocal() + (x.abs() + 1).rsqrt(),
    "relu": F.relu,
    "relu6": F.relu6,
    "round": torch.round,
    "rsub": lambda x: 1 - x,
    "sigmoid": torch.sigmoid,
    "sign": torch.sign,
    "silu": F.silu,
    "sin": torch.sin,
    "softplus": F.softplus,
    "sqrt": lambda x: x.abs().sqrt(),
    "tanh": torch.tanh,
}

SHAPES: dict[str, Callable[[Any], Any]] = {
    "cat": lambda x: torch.cat([x, x + 1], 2),
    "chunk": lambda x: torch.cat(x.chunk(2, 3)[::-1], 1),
    "circular": lambda x: F.pad(x, (1, 2, 0, 1), mode="circular"),
    "embedding": lambda x: F.embedding(torch.tensor([[0, 2], [1, 1]]), x.flatten(1).t()),
    "expand": lambda x: x[:, :1].expand(-1, 4, -1, -1) * 2,
    "flatten": lambda x: x.flatten(1),
    "flip": lambda x: x.flip(1, 3),
    "full-like": lambda x: torch.full_like(x, 2) + torch.zeros_like(x) - torch.ones_like(x),
    "gather": lambda x: x.gather(3, torch.zeros(2, 3, 6, 2, dtype=torch.int64)),
    "index": lambda x: x[:, :, torch.tensor([0, -1]), torch.tensor([1, 2])],
    "index-repeated": lambda x: x[:, :, torch.arange(12)[:, None] // 2, torch.arange(18) // 3],
    "index-one": lambda x: x[:, torch.tensor([2, 0])],
    "index-select": lambda x: x.index_select(2, torch.tensor([3, 1])),
    "narrow": lambda x: x[:, 1:, ::2, -3:-1],
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5),
    "pad-negative": lambda x: F.pad(x, (-1, 2)),
    "permute": lambda x: x.permute(0, 2, 3, 1).contiguous(),
    "pixel-shuffle": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
    "pixel-unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "reflect": lambda x: F.pad(x, (2, 1, 1, 3), mode="reflect"),
    "repeat": lambda x: x.repeat(2, 1, 1, 3),
    "replicate": lambda x: F.pad(x, (2, 1, 1, 3), mode="replicate"),
    "roll": lambda x: torch.roll(x, (1, -2), (2, 3)) + torch.roll(x, 5),
    "select": lambda x: x[:, 1] + x[:, -1],
    "select-scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, 2),
    "slice-scatter": lambda x: x.slice_scatter(x[:, :, :2] * 2, 2, 1, 3),
    "slice-scatter-steps": lambda x: x.slice_scatter(x[:, :, :2] * 2, 2, 1, 5, 2),
    "split": lambda x: sum(part.sum(2) for part in x.split([1, 3, 2], 2)),
    "squeeze": lambda x: x[:, :1].squeeze(1).unsqueeze(-1),
    "stack": lambda x: torch.stack([x, x * 2], 1),
    "transpose": lambda x: x.transpose(1, -1),
    "tril": lambda x: torch.tril(x, 1) + torch.triu(x, -1),
    "unbind": lambda x: x.unbind(1)[1],
    "unflatten": lambda x: x.unflatten(2, (2, 3)),
    "view": lambda x: x.view(2, -1).reshape(6, 36),
}

REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: (x > -9).all(1).to(x.dtype),
    "amax": lambda x: x.amax((1, 2)) + x.amin((1, 2)),
    "any": lambda x: (x > 0.5).any().to(x.dtype),
    "argmax": lambda x: x.argmax(1).to(x.dtype) + x.argmin(1).to(x.dtype),
    "batch-norm": lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], x[0, :, 1, 0], True),
    "cumsum": lambda x: x.cumsum(2),
    "group-norm": lambda x: F.group_norm(x, 3, torch.ones(3, dtype=x.dtype) * 2),
    "instance-norm": lambda x: F.instance_norm(x),
    "layer-norm": lambda x: F.layer_norm(x, (6, 6)),
    "log-softmax": lambda x: F.log_softmax(x, 1),
    "max": lambda x: x.max(1)[0] + x.min(1)[0] + x.max() - x.min(),
    "max-place": lambda x: x.max(2, keepdim=True)[1].to(x.dtype),
    "mean": lambda x: x.mean((2, 3)) + x.mean(),
    "norm": lambda x: torch.linalg.vector_norm(x, 2, 1) + torch.linalg.vector_norm(x, 1, 1),
    "rms-norm": lambda x: F.rms_norm(x, (6,), eps=1e-5),
    "softmax": lambda x: F.softmax(x, 1),
    "std": lambda x: x.std(1) + x.std((2, 3), unbiased=False).sum(),
    "sum": lambda x: x.sum((0, 3), keepdim=True) + x.sum(),
    "topk": lambda x: x.topk(2, 3)[0],
    "var": lambda x: x.var(3) + x.var((1, 2), correction=0)[:, None, :],
    "var-mean": lambda x: sum(torch.var_mean(x, (2, 3))),
}

WINDOWS: dict[str, Callable[[Any], Any]] = {
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive-uneven": lambda x: F.adaptive_avg_pool2d(x, (4, 9)) * 2,
    "adaptive-max": lambda x: F.adaptive_max_pool2d(x, 2),
    "avg-pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg-pool-ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
    "avg-pool-1d": lambda x: F.avg_pool1d(x[:, :, 0], 2),
    "bicubic": lambda x: F.interpolate(x, size=(9, 4), mode="bicubic"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear-aligned": lambda x: F.interpolate(
        x, size=(9, 4), mode="bilinear", align_corners=True
    ),
    "conv-1d": lambda x: F.conv1d(x[:, :, 0], x[:1, :, :3, 0].permute(0, 2, 1).permute(0, 2, 1)),
    "conv-groups": lambda x: F.conv2d(x, x[:1, :, :2, :2].permute(1, 0, 2, 3), groups=3, padding=1),
    "conv-no-batch": lambda x: F.conv2d(x[0], x[:, :, :3, :3]),
    "conv-strided": lambda x: F.conv2d(x, x[:, :, :3, :3], stride=(2, 1), dilation=(1, 2)),
    "conv-transpose": lambda x: F.conv_transpose2d(
        x, x[:1, :, :3, :3].permute(1, 0, 2, 3), stride=2, padding=1, output_padding=1
    ),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "max-pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max-pool-ceil": lambda x: F.max_pool2d(x, 2, 4, ceil_mode=True),
    "nearest": lambda x: F.interpolate(x, scale_factor=1.5),
    "nearest-1d": lambda x: F.interpolate(x[0], scale_factor=2),
    "nearest-3d": lambda x: F.interpolate(x[None], scale_factor=(1, 2, 3)),
    "nearest-twice": lambda x: F.interpolate(x, scale_factor=2),
}

MATRICES: dict[str, Callable[[Any], Any]] = {
    "addmm": lambda x: torch.addmm(x[0, 0, 0], x[0, 0], x[1, 1], beta=0.5, alpha=2),
    "attention": lambda x: F.scaled_dot_product_attention(x, x + 0.5, x),
    "attention-causal": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "attention-mask": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=x[:1, :1] > -1),
    "attention-masked": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=x[:1, :1] > torch.tensor([[-9.0], [9], [0], [9], [-9], [0]])
    ),
    "attention-biased": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=x[:, :1].masked_fill(x[:, :1, :, :1] > 0, float("-inf"))
    ),
    "baddbmm": lambda x: torch.baddbmm(x[0], x[0], x[1]),
    "bmm": lambda x: torch.bmm(x[0], x[1]),
    "linear": lambda x: F.linear(x, x[0, 0, :4], x[0, 0, 0, :4]),
    "matmul": lambda x: x @ x[0].transpose(1, 2),
    "mm": lambda x: x[0, 0] @ x[0, 1],
    "vector": lambda x: x @ x[0, 0, 0],
}

CASES = ELEMENTWISE | SHAPES | REDUCTIONS | WINDOWS | MATRICES
HALF = (
    *("add", "gelu", "silu", "cat", "mean", "layer-norm", "softmax", "avg-pool", "conv-strided"),
    *("conv-transpose", "linear", "attention", "max-pool", "bilinear", "group-norm", "batch-norm"),
)


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        nn.Module.__init__(self)
        self._function = function

    def forward(self, *arguments: Any) -> Any:
        """What it gives."""
        return self._function(*arguments)


def _input(dtype: Any) -> Any:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 3, 6, 6, generator=generator, dtype=torch.float64).to(dtype)


def _listed(found: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", found if isinstance(found, tuple | list) else [found])


def _check(function: Callable[[Any], Any], dtype: Any) -> None:
    x = _input(dtype)
    got = _listed(convir.compile(Function(function), example_inputs=(x,), device="host")(x))
    plain, wide = _listed(function(x)), _listed(function(x.double()))
    epsilon = torch.finfo(dtype).eps
    for ours, theirs, exact in zip(got, plain, wide, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        scale = float(exact.abs().max()) or 1.0
        error = float((ours.double() - exact.double()).abs().max())
        assert error <= max(64 * epsilon * scale, 4 * float((theirs - exact).abs().max()))


@pytest.mark.parametrize("name", CASES)
def test_f32(name: str) -> None:
    _check(CASES[name], torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", HALF)
def test_half(name: str, dtype: Any) -> None:
    _check(CASES[name], dtype)


def test_special_values() -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -1.5, 0.6])

    def function(x: Any) -> Any:
        return x.sign(), torch.div(x[3:], 0.3, rounding_mode="floor")

    got = convir.compile(Function(function), example_inputs=(x,), device="host")(x)
    for ours, theirs in zip(got, function(x), strict=True):
        assert torch.equal(ours, theirs)


def test_channels_last_and_volumes() -> None:
    x = torch.randn(1, 4, 5, 6, 7)
    module = torch.nn.Sequential(
        torch.nn.Conv3d(4, 6, 3, padding=1), torch.nn.BatchNorm3d(6), torch.nn.MaxPool3d(2)
    ).eval()
    compiled = convir.compile(module, example_inputs=(x,), device="host")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    x, conv = torch.randn(2, 4, 5, 6), torch.nn.Conv2d(4, 6, 3)
    x, conv = x.to(memory_format=torch.channels_last), conv.to(memory_format=torch.channels_last)
    compiled = convir.compile(conv, example_inputs=(x,), device="host")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), conv(x), rtol=1e-4, atol=1e-5)


def test_an_exported_program_is_a_source() -> None:
    x = torch.randn(2, 4)
    program = torch.export.export(torch.nn.Linear(4, 3), (x,))
    compiled = convir.compile(program, device="host")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), program.module()(x))
    with pytest.raises(TypeError, match="has its example inputs itself"):
        convir.compile(program, example_inputs=(x,))


def test_what_is_compiled_once_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    x, module = torch.randn(2, 4), torch.nn.Linear(4, 3)
    convir.compile(module, example_inputs=(x,), device="host")
    compile_ = import_module("convir.api.compile")
    monkeypatch.setattr(compile_.Job, "_compile", None)
    convir.compile(module, example_inputs=(x,), device="host")
    with torch.no_grad():
        module.weight.zero_()
    with pytest.raises(TypeError):  # Other weights are another program.
        convir.compile(module, example_inputs=(x,), device="host")


def _operators(function: Callable[[Any], Any]) -> list[str]:
    """Of ONNX, that a function of f16 is spelled with, but for what computes constants."""
    program = read_exported(exported(Function(function), (_input(torch.float16),)))
    return [node.op for node in program.model.nodes if node.op != "Identity"]


def test_indices_that_repeat_elements_are_nearest_neighbours() -> None:
    rows, columns = torch.arange(12)[:, None] // 2, torch.arange(12) // 2
    assert _operators(lambda x: x[:, :, rows, columns]) == ["Resize"]
    assert _operators(lambda x: x[:, :, columns]) == ["Resize"]
    assert "Resize" not in _operators(lambda x: x[:, :, rows, columns % 5])  # Out of order.
    assert "Resize" not in _operators(lambda x: x[:, :, columns[:11]])  # The last one once.
    assert "Resize" not in _operators(lambda x: x[:, :, columns, columns[:, None]])  # Turned.


def test_what_is_moved_while_it_is_wider_is_moved_as_it_was() -> None:
    def moved(x: Any) -> Any:
        return x.float().permute(0, 2, 3, 1)[:, 1:].reshape(2, -1).half()

    x = _input(torch.float16)
    program = read_exported(exported(Function(moved), (x,)))
    casts = {name for node in program.model.nodes if node.op == "Cast" for name in node.outputs}
    read = {name for node in program.model.nodes if node.op != "Cast" for name in node.inputs}
    assert not casts & read
    assert torch.equal(
        convir.compile(Function(moved), example_inputs=(x,), device="host")(x), moved(x)
    )


def test_what_a_cast_rounds_is_not_undone() -> None:
    x = torch.tensor([1 / 3, 1e-30, 7e7])

    def rounded(x: Any) -> Any:
        return x.half().reshape(3, 1).float() + x.bfloat16().reshape(3, 1).float()

    got = convir.compile(Function(rounded), example_inputs=(x,), device="host")(x)
    assert torch.equal(got, rounded(x))


REFUSED: dict[str, Callable[[Any], Any]] = {
    "fft": lambda x: torch.fft.fft(x).real,
    "aten.rand_like": torch.rand_like,
    "windows of several sizes": lambda x: F.adaptive_max_pool2d(x, 4),
    "open": lambda x: x[x > 0],
    "a divisor of its own": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals_say_why(reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        read_exported(exported(Function(REFUSED[reason]), (_input(torch.float32),)))


def test_modules_that_train_are_refused() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    with pytest.raises(Exception, match=r"call \.eval\(\)"):
        convir.compile(module, example_inputs=(_input(torch.float32),), device="host")
    with pytest.raises(TypeError, match="needs example_inputs"):
        convir.compile(module, device="host")


def test_operators_are_of_pytorch() -> None:
    for name in OPERATORS:
        packet, _, overload = name.removeprefix("aten.").partition(".")
        found = getattr(torch.ops.aten, packet, None)
        assert found is None or hasattr(found, overload), name
