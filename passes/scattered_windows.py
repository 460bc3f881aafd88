"""How a contraction reads its scattered operand: which dimensions split into phases, and which not.

A strided dimension splits where one loop of the result, alone or with the loop of a filter's taps,
indexes it and nothing else. A dimension that has only margins is padded; any other stays scattered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.dialects.phases import ScatteredWindow
from convir.dialects.placement import covers
from convir.dialects.refusal import Refusal
from convir.dialects.slices import size_of

if TYPE_CHECKING:
    from convir.dialects.contraction import ContractionDims, Operand
    from convir.dialects.placement import Digits, Placement
    from convir.dialects.scatter import Scatter


@dataclass(frozen=True)
class Tap:
    """The loop over the taps of a window, and the dimension of the filter that it indexes."""

    loop: int
    dim: int
    first: int
    """The index of the first tap in that dimension."""
    step: int
    """The distance of the next one."""


@dataclass(frozen=True)
class SplitDim:
    """A scattered dimension that is read in phases."""

    dim: int
    output: int
    """The loop of the result."""
    tap: Tap | None
    """None where the output's loop alone reads the dimension."""
    window: ScatteredWindow


@dataclass(frozen=True)
class ScatteredOperand:
    """The scattered operand of a contraction, dimension by dimension."""

    dims: ContractionDims
    position: int
    """0 if it is the lhs, 1 if it is the rhs."""
    scatter: Scatter
    split: tuple[SplitDim, ...]
    padded: dict[int, tuple[int, int]]
    """The zeros before and after each dimension without a stride."""
    kept: dict[int, str]
    """The dimensions that stay scattered, and why."""

    @property
    def operand(self) -> Operand:
        """The operand as the contraction indexes it."""
        return self.dims.inputs[self.position]

    @property
    def other(self) -> Operand:
        """The other input: the filter."""
        return self.dims.inputs[1 - self.position]


def read_scattered(
    dims: ContractionDims, position: int, scatter: Scatter
) -> ScatteredOperand | Refusal:
    """Sort the dimensions of input number `position`, which `scatter` describes.

    Refuses unless some dimension is strided and read through several taps.
    """
    split: list[SplitDim] = []
    padded: dict[int, tuple[int, int]] = {}
    kept: dict[int, str] = {}
    for dim, digits in enumerate(scatter.dims):
        if covers(digits):
            continue
        margins = _margins(digits)
        if margins is not None:
            padded[dim] = margins
            continue
        found = _split(dims, position, dim, digits)
        if isinstance(found, Refusal):
            kept[dim] = found.reason
        else:
            split.append(found)
    if not split:
        return Refusal(next(iter(kept.values()), "no dimension is strided"))
    if all(one.window.taps == 1 for one in split):
        return Refusal(f"dimension {split[0].dim} is read through one tap")
    return ScatteredOperand(dims, position, scatter, tuple(split), padded, kept)


def _margins(digits: Digits) -> tuple[int, int] | None:
    """The zeros before and after a dimension without a stride; None if there is one."""
    if len(digits) != 1 or digits[0].stride != 1:
        return None
    offset, size, extent = digits[0].offset, digits[0].size, digits[0].extent
    if not (isinstance(offset, int) and isinstance(size, int) and isinstance(extent, int)):
        return None
    return offset, extent - offset - size


def _split(dims: ContractionDims, position: int, dim: int, digits: Digits) -> SplitDim | Refusal:
    operand, where = dims.inputs[position], f"dimension {dim}"
    if len(digits) != 1:
        return Refusal(f"{where} is several scattered dimensions in one")
    index = operand.index[dim]
    outputs = [loop for loop in index.loops if dims.role(loop) != "k"]
    taps = [loop for loop in index.loops if dims.role(loop) == "k"]
    if len(outputs) != 1:
        return Refusal(f"{where} is not indexed by a loop of the result")
    (output,) = outputs
    if dims.role(output) == "batch":
        return Refusal(f"loop d{output} indexes {where} and the other input")
    for loop in index.loops:
        if index.coefficient(loop) < 0:
            return Refusal(f"loop d{loop} runs backwards through {where}")
        if any(loop in other.loops for i, other in enumerate(operand.index) if i != dim):
            return Refusal(f"loop d{loop} indexes {where} and another one")
    tap = _tap(dims.inputs[1 - position], taps[0]) if taps else None
    if isinstance(tap, Refusal):
        return tap
    dilation = index.coefficient(taps[0]) if taps else 1
    window = _window(
        digits[0],
        outputs=dims.bounds[output],
        taps=dims.bounds[taps[0]] if taps else 1,
        stride=index.coefficient(output),
        dilation=dilation,
        constant=index.constant,
    )
    if window is None or _result_size(dims, output) != window.outputs:
        return Refusal(f"{where} is read or scattered with dynamic sizes, offsets or strides")
    return SplitDim(dim, output, tap, window)


def _tap(weights: Operand, loop: int) -> Tap | Refusal:
    """Where the filter is indexed by a loop over taps."""
    found = [dim for dim, index in enumerate(weights.index) if loop in index.loops]
    index = weights.index[found[0]]
    if len(found) != 1 or index.loops != (loop,) or index.coefficient(loop) < 1:
        return Refusal(f"loop d{loop} does not index one dimension of the other input alone")
    return Tap(loop, found[0], index.constant, index.coefficient(loop))


def _window(
    placement: Placement,
    *,
    outputs: int | None,
    taps: int | None,
    stride: int,
    dilation: int,
    constant: int,
) -> ScatteredWindow | None:
    """The window, if everything is static and runs at all."""
    offset, spacing, size = placement.offset, placement.stride, placement.size
    if not (isinstance(offset, int) and isinstance(spacing, int) and isinstance(size, int)):
        return None
    if not outputs or not taps:
        return None
    return ScatteredWindow(outputs, taps, stride, dilation, constant, offset, spacing, size)


def _result_size(dims: ContractionDims, loop: int) -> object:
    """The size of the result's dimension that `loop` is."""
    found = next(dim for dim, index in enumerate(dims.out.index) if index.bare == loop)
    return size_of(dims.out.value, found)
