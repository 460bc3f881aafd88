"""Convolutions by the formula in f64, one matrix product per filter tap, on PyTorch tensors.

No convolution of PyTorch's (and so no kernel of cuDNN's) takes part: what rows are checked
against is independent of every backend.
"""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

from convir.dialects.conv.geometry import Direction
from convir.reference.checking.compare import Difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.dialects.conv.problem import ConvProblem

REFERENCE = "f64: matrix products of PyTorch, one for each filter tap, on the device"


def convolve(problem: ConvProblem, operands: Sequence[Any]) -> Any:
    """The result of `problem` in its layout, in f64, on the device of the operands.

    Args:
        problem: what to compute.
        operands: PyTorch tensors in the problem's layouts.
    """
    torch: Any = import_module("torch")
    roles = problem.direction.roles
    wide = {
        role: operand.to(torch.float64).permute(problem.axes(role))
        for role, operand in zip(roles, operands, strict=False)
    }
    compute = {Direction.FPROP: _forward, Direction.DGRAD: _backward_data}.get(
        problem.direction, _backward_weight
    )
    result = compute(torch, _Taps(torch, problem), wide)
    order = problem.axes(roles[2])
    return result.permute([order.index(axis) for axis in range(len(order))])


def largest_difference(expected: Any, actual: Any, relative: float) -> Difference:
    """As `compare.largest_error`, of PyTorch tensors, the expected one finite."""
    torch: Any = import_module("torch")
    if expected.numel() == 0:
        return Difference()
    magnitude = expected.abs()
    error = (actual.to(torch.float64) - expected).abs_()
    error = torch.where(torch.isnan(error), torch.inf, error)
    allowed = magnitude.add_(magnitude.max()).mul_(relative)
    position = int((error - allowed).argmax())
    return Difference(
        position, float(error.flatten()[position]), float(allowed.flatten()[position])
    )


class _Taps:
    """The positions that each filter tap reads, of a padded input with the axes N C spatial."""

    def __init__(self, torch: Any, problem: ConvProblem) -> None:
        geometry = problem.geometry
        self.problem = problem
        self.groups = geometry.groups
        self.positions = list(product(*map(range, problem.taps)))
        self._pads = [
            pad
            for low, high in zip(
                reversed(geometry.pad_low), reversed(geometry.pad_high), strict=True
            )
            for pad in (low, high)
        ]
        self._pad = torch.nn.functional.pad

    def padded(self, x: Any) -> Any:
        """`x` with its padding."""
        return self._pad(x, self._pads)

    def inside(self, padded: Any) -> Any:
        """What the padding is around."""
        spatial = zip(self.problem.geometry.pad_low, self.problem.spatial, strict=True)
        return padded[(..., *(slice(low, low + size) for low, size in spatial))]

    def read(self, padded: Any, tap: Sequence[int]) -> Any:
        """What a tap reads, with the axes N C and the output positions: a view."""
        geometry, outputs = self.problem.geometry, self.problem.output_spatial
        along = zip(tap, geometry.dilations, geometry.strides, outputs, strict=True)
        return padded[(..., *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in along))]

    def columns(self, tensor: Any) -> Any:
        """(N, C, spatial) as (groups, C / groups, N · positions)."""
        n, c = tensor.shape[:2]
        grouped = tensor.reshape(n, self.groups, c // self.groups, -1)
        return grouped.permute(1, 2, 0, 3).reshape(self.groups, c // self.groups, -1)

    def activations(self, columns: Any) -> Any:
        """The inverse of `columns`, at output positions."""
        n, outputs = self.problem.n, self.problem.output_spatial
        apart = columns.reshape(*columns.shape[:2], n, -1).permute(2, 0, 1, 3)
        return apart.reshape(n, -1, *outputs)

    def filter(self, w: Any, tap: Sequence[int]) -> Any:
        """The weights of a tap as (groups, K / groups, C / groups)."""
        weights = w[(..., *tap)]
        return weights.reshape(self.groups, -1, weights.shape[1])


def _forward(torch: Any, taps: _Taps, operands: dict[Any, Any]) -> Any:
    x, w = taps.padded(operands["input"]), operands["filter"]
    total = 0
    for tap in taps.positions:
        total += torch.bmm(taps.filter(w, tap), taps.columns(taps.read(x, tap)))
    return taps.activations(total)


def _backward_data(torch: Any, taps: _Taps, operands: dict[Any, Any]) -> Any:
    problem, dy, w = taps.problem, operands["output"], operands["filter"]
    shape = (problem.n, problem.c, *problem.spatial)
    total = taps.padded(torch.zeros(shape, dtype=dy.dtype, device=dy.device))
    columns = taps.columns(dy)
    for tap in taps.positions:
        gradient = torch.bmm(taps.filter(w, tap).transpose(1, 2), columns)
        taps.read(total, tap).add_(taps.activations(gradient))
    return taps.inside(total)


def _backward_weight(torch: Any, taps: _Taps, operands: dict[Any, Any]) -> Any:
    problem = taps.problem
    x, dy = taps.padded(operands["input"]), taps.columns(operands["output"])
    per_group = problem.c // taps.groups
    result = torch.empty(
        (problem.k, per_group, *problem.taps), dtype=torch.float64, device=x.device
    )
    for tap in taps.positions:
        product_of_tap = torch.bmm(dy, taps.columns(taps.read(x, tap)).transpose(1, 2))
        result[(..., *tap)] = product_of_tap.reshape(problem.k, per_group)
    return result
