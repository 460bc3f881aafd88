"""Convolutions of every kind, and what a check of one compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

import convir.pytorch
from convir.pytorch.layouts import strides_of

FUNCTIONS: dict[str, Any] = {
    "conv1d": F.conv1d,
    "conv2d": F.conv2d,
    "conv3d": F.conv3d,
    "conv_transpose1d": F.conv_transpose1d,
    "conv_transpose2d": F.conv_transpose2d,
    "conv_transpose3d": F.conv_transpose3d,
}

TOLERANCES: dict[Any, float] = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of the largest value of a result: sums of at most some hundreds of products, rounded once."""


@dataclass(frozen=True)
class Case:
    """A convolution."""

    function: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    bias: bool = False
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    dtype: Any = torch.float32
    last: bool = False
    """Whether x and w lie channels last."""

    def __str__(self) -> str:
        words = [self.function, "x".join(map(str, self.w)), str(self.dtype)[6:]]
        words += ["bias"] * self.bias + ["last"] * self.last
        return " ".join([*words, *(f"{name}={value}" for name, value in self.options.items())])


CASES = [
    Case("conv1d", (2, 6, 15), (8, 6, 3), bias=True, options={"padding": 1, "stride": 2}),
    Case("conv1d", (2, 6, 15), (8, 3, 3), options={"dilation": 2, "groups": 2}),
    Case("conv1d", (2, 6, 15), (8, 6, 3), bias=True, dtype=torch.float16),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 3, 3), bias=True, options={"padding": 1}),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 3, 3), bias=True, options={"padding": 1}, last=True),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 1, 1), options={"stride": 2}),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 1, 1), options={"stride": 2}, last=True),
    Case("conv2d", (2, 6, 9, 8), (8, 3, 3, 2), options={"stride": (2, 1), "groups": 2}),
    Case("conv2d", (2, 6, 9, 8), (6, 1, 3, 3), bias=True, options={"padding": 1, "groups": 6}),
    Case("conv2d", (2, 6, 9, 8), (12, 1, 3, 3), options={"groups": 6}, last=True),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 3, 3), options={"dilation": 2, "padding": (2, 0)}),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 3, 3), bias=True, dtype=torch.float16, last=True),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 3, 3), bias=True, dtype=torch.bfloat16),
    Case("conv2d", (2, 6, 9, 8), (8, 6, 3, 3), dtype=torch.bfloat16, last=True),
    Case("conv2d", (2, 1, 9, 8), (4, 1, 3, 3), options={"padding": "same"}),
    Case("conv2d", (2, 4, 9, 8), (4, 4, 2, 2), options={"padding": "same"}),
    Case("conv3d", (1, 4, 6, 5, 7), (6, 4, 3, 3, 3), bias=True, options={"padding": 1}),
    Case("conv3d", (1, 4, 6, 5, 7), (6, 4, 1, 3, 3), options={"stride": (1, 2, 2)}, last=True),
    Case("conv_transpose1d", (2, 6, 7), (6, 4, 4), bias=True, options={"stride": 2, "padding": 1}),
    Case(
        "conv_transpose2d",
        (2, 6, 5, 4),
        (6, 4, 3, 3),
        bias=True,
        options={"stride": 2, "padding": 1, "output_padding": 1},
    ),
    Case("conv_transpose2d", (2, 6, 5, 4), (6, 2, 3, 3), options={"stride": 2, "groups": 2}),
    Case(
        "conv_transpose2d",
        (2, 6, 5, 4),
        (6, 4, 4, 4),
        bias=True,
        options={"stride": 2, "padding": 1},
        dtype=torch.bfloat16,
        last=True,
    ),
    Case("conv_transpose3d", (1, 4, 3, 4, 3), (4, 3, 2, 2, 2), bias=True, options={"stride": 2}),
]


def tensors(case: Case) -> list[Any]:
    """Its operands, f64, whose values the case's dtype holds."""
    generator = torch.Generator().manual_seed(1)
    transposed = "transpose" in case.function
    channels = case.w[1] * case.options.get("groups", 1) if transposed else case.w[0]
    shapes = [case.x, case.w, *([(channels,)] if case.bias else [])]
    made = [torch.randn(shape, generator=generator).to(case.dtype).double() for shape in shapes]
    if case.last:
        made[:2] = [
            torch.empty_strided(t.shape, strides_of(t.shape, "last"), dtype=t.dtype).copy_(t)
            for t in made[:2]
        ]
    return made


def run(case: Case, dtype: Any, device: str = "cpu") -> list[Any]:
    """The result, and the gradients of all operands."""
    given = [t.to(device, dtype).requires_grad_() for t in tensors(case)]
    y = FUNCTIONS[case.function](*given, **case.options)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).to(case.dtype)
    dy = torch.empty_strided(y.shape, y.stride(), dtype=dtype, device=device).copy_(dy)
    return [y.detach(), *torch.autograd.grad(y, given, dy)]


def check(case: Case, device: str = "cpu") -> None:
    """Values beside f64, and sizes, strides and dtypes as PyTorch's."""
    exact, plain = run(case, torch.float64), run(case, case.dtype, device)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        ours = run(case, case.dtype, device)
        rows = convir.pytorch.census()
    assert [row.direction for row in rows] == ["forward", "backward data", "backward weight"]
    assert [(row.runs, row.convir_calls, row.pytorch_calls) for row in rows] == [
        ("convir", 1, 0)
    ] * 3, rows
    for got, want, true in zip(ours, plain, exact, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        assert places(got) == places(want)
        bound = TOLERANCES[case.dtype] * max(1.0, float(true.abs().max()))
        assert float((got.cpu().double() - true).abs().max()) <= bound


def places(tensor: Any) -> list[int]:
    """The strides that say where elements lie."""
    return [s for s, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
