# pyright: reportUnknownMemberType=false
"""The reference against PyTorch, and convolutions against each other by adjointness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch

from convir.dialects.context import parse_module
from convir.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


@dataclass(frozen=True)
class Convolution:
    """An NHWC convolution: y[n,p,q,g,k] += x[n, p*u + r*d, q*u + s*d, g, c] * w[g,k,r,s,c]."""

    n: int = 2
    size: int = 9
    kernel: int = 3
    groups: int = 1
    c: int = 3
    k: int = 4
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0

    @property
    def padded(self) -> int:
        return self.size + self.low + self.high

    @property
    def out(self) -> int:
        return (self.padded - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "x": (self.n, self.padded, self.padded, self.groups, self.c),
            "w": (self.groups, self.k, self.kernel, self.kernel, self.c),
            "y": (self.n, self.out, self.out, self.groups, self.k),
        }

    def maps(self) -> dict[str, str]:
        loops = "(n, p, q, g, k, r, s, c) -> "
        h = f"p * {self.stride} + r * {self.dilation}"
        w = f"q * {self.stride} + s * {self.dilation}"
        return {
            "x": f"{loops}(n, {h}, {w}, g, c)",
            "w": f"{loops}(g, k, r, s, c)",
            "y": f"{loops}(n, p, q, g, k)",
        }

    def function(self, out: str, element: str, accumulator: str) -> str:
        """`@main(lhs, rhs, init)` summing the other two into `out`, one of `x`, `w`, `y`."""
        lhs, rhs = (name for name in ("y", "x", "w") if name != out)
        parallel = {"y": "npqgk", "w": "gkrsc"}[out]
        iterators = ", ".join(
            '"parallel"' if loop in parallel else '"reduction"' for loop in "npqgkrsc"
        )
        types = {
            name: f"tensor<{'x'.join(map(str, shape))}x{accumulator if name == out else element}>"
            for name, shape in self.shapes().items()
        }
        maps = ", ".join(f"affine_map<{self.maps()[name]}>" for name in (lhs, rhs, out))
        extend = element != accumulator
        casts = [
            f"%{name}_wide = arith.extf %{name} : {element} to {accumulator}"
            for name in ("a", "b")
            if extend
        ]
        a, b = ("%a_wide", "%b_wide") if extend else ("%a", "%b")
        body = "\n".join(casts)
        return f"""
        func.func @main(%lhs: {types[lhs]}, %rhs: {types[rhs]}, %init: {types[out]})
            -> {types[out]} {{
          %sum = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
              ins(%lhs, %rhs : {types[lhs]}, {types[rhs]}) outs(%init : {types[out]}) {{
          ^bb0(%a: {element}, %b: {element}, %out: {accumulator}):
            {body}
            %product = arith.mulf {a}, {b} : {accumulator}
            %total = arith.addf %out, %product : {accumulator}
            linalg.yield %total : {accumulator}
          }} -> {types[out]}
          func.return %sum : {types[out]}
        }}"""


CONVOLUTIONS = (
    Convolution(),
    Convolution(stride=2, low=1, high=1),
    Convolution(groups=3, c=2, k=5, low=1, high=0),
    Convolution(dilation=2, stride=3, low=2, high=1),
    Convolution(kernel=1, stride=2),
    Convolution(groups=6, c=1, k=1),
)


def integers(shape: Sequence[int], dtype: np.dtype[Any], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def run(conv: Convolution, out: str, lhs: Array, rhs: Array, element: str, acc: str) -> Array:
    init = np.zeros(conv.shapes()[out], DTYPES[acc])
    return evaluate(parse_module(conv.function(out, element, acc)), "main", [lhs, rhs, init])[0]


def inputs_of(conv: Convolution, element: str) -> tuple[Array, Array, Array]:
    x, w, y = (
        integers(shape, DTYPES[element], seed) for seed, shape in enumerate(conv.shapes().values())
    )
    x[:, : conv.low] = x[:, :, : conv.low] = 0
    x[:, conv.size + conv.low :] = x[:, :, conv.size + conv.low :] = 0
    return x, w, y


def channels_first(x: Array) -> torch.Tensor:
    n, h, w, g, c = x.shape
    return torch.from_numpy(x.astype(np.float64).reshape(n, h, w, g * c)).permute(0, 3, 1, 2)


@pytest.mark.parametrize(("element", "acc"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f32")])
@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_forward_and_weight_gradient_equal_pytorch(
    conv: Convolution, element: str, acc: str
) -> None:
    x, w, dy = inputs_of(conv, element)
    g, k, r, s, c = w.shape
    filters = torch.from_numpy(w.astype(np.float64).reshape(g * k, r, s, c)).permute(0, 3, 1, 2)
    filters.requires_grad_(True)
    expected = torch.nn.functional.conv2d(
        channels_first(x), filters, stride=conv.stride, dilation=conv.dilation, groups=g
    )
    y = run(conv, "y", x, w, element, acc)
    assert y.dtype == DTYPES[acc]
    np.testing.assert_array_equal(channels_first(y).numpy(), expected.detach().numpy())

    expected.backward(channels_first(dy))
    assert filters.grad is not None
    dw = run(conv, "w", dy, x, element, acc)
    gradient = filters.grad.permute(0, 2, 3, 1).reshape(w.shape)
    np.testing.assert_array_equal(dw.astype(np.float64), gradient.numpy())


@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_adjoints(conv: Convolution) -> None:
    x, w, dy = inputs_of(conv, "f64")
    forward = np.vdot(dy, run(conv, "y", x, w, "f64", "f64"))
    assert forward == np.vdot(run(conv, "w", dy, x, "f64", "f64"), w)


def test_init_is_added() -> None:
    conv = Convolution()
    x, w, _ = inputs_of(conv, "f32")
    init = integers(conv.shapes()["y"], DTYPES["f32"], 7)
    module = parse_module(conv.function("y", "f32", "f32"))
    without = run(conv, "y", x, w, "f32", "f32")
    np.testing.assert_array_equal(evaluate(module, "main", [x, w, init])[0], without + init)


@pytest.mark.parametrize("workspace_bytes", [1, 1000, 30000])
@pytest.mark.parametrize("out", ["y", "w"])
def test_workspace_does_not_change_the_result(out: str, workspace_bytes: int) -> None:
    conv = Convolution(groups=2, stride=2, low=1)
    x, w, dy = inputs_of(conv, "f16")
    operands = [x, w] if out == "y" else [dy, x]
    init = np.zeros(conv.shapes()[out], np.float32)
    module = parse_module(conv.function(out, "f16", "f32"))
    whole = evaluate(module, "main", [*operands, init])
    cut = evaluate(module, "main", [*operands, init], workspace_bytes=workspace_bytes)
    np.testing.assert_array_equal(whole[0], cut[0])
