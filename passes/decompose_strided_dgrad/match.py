"""How a contraction reads its scattered operand: which dimensions split into phases, and which not.

A strided dimension splits where one loop of the result, alone or with the loop of a filter's taps,
indexes it and nothing else. A dimension that has only margins is padded; any other stays scattered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.analysis.scatter.phases import ScatteredWindow
from convir.analysis.scatter.placement import Placement, covers
from convir.analysis.slices import size_of
from convir.passes.manager.quantities import flops_change, flops_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.analysis.contraction import ContractionDims, Operand
    from convir.analysis.scatter.phases import Phase
    from convir.analysis.scatter.placement import Digits
    from convir.analysis.scatter.scattered_tensor import Scatter
    from convir.analysis.slices import Size

MOST_COMBINATIONS = 1 << 14
"""No more phases are looked at one by one, with taps and without."""


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
    """The strided dimensions that stay scattered, and why."""

    @property
    def operand(self) -> Operand:
        """The operand as the contraction indexes it."""
        return self.dims.inputs[self.position]

    @property
    def other(self) -> Operand:
        """The other input: the filter."""
        return self.dims.inputs[1 - self.position]

    @property
    def combinations(self) -> tuple[tuple[Phase, ...], ...]:
        """One phase of each split dimension, in all combinations, those without taps too."""
        return tuple(product(*(split.window.phases for split in self.split)))

    @property
    def margins(self) -> tuple[list[int], list[int]]:
        """The zeros before and after each dimension of the source that some phase reads."""
        margins = [(0, 0)] * len(self.operand.index)
        for dim, margin in self.padded.items():
            margins[dim] = margin
        for split in self.split:
            margins[split.dim] = split.window.margins
        return [before for before, _ in margins], [after for _, after in margins]

    def reads(self, phases: Sequence[Phase], sizes: Sequence[Size]) -> tuple[Digits, ...]:
        """What one combination reads of each dimension of the padded source, of `sizes`."""
        read: list[Digits] = [(Placement.whole(size),) for size in sizes]
        for split, phase in zip(self.split, phases, strict=True):
            span, before = split.window.span(phase), split.window.margins[0]
            extent, count = sizes[split.dim], len(span)
            read[split.dim] = (Placement(span.start + before, 1, count, extent, count),)
        return tuple(read)

    @property
    def counter(self) -> str:
        """The multiplications and additions before and after, and what is left of them in vain."""
        windows = [split.window for split in self.split]
        pairs = prod(window.outputs * window.taps for window in windows)
        left = prod(window.products for window in windows)
        outside = left - prod(window.products_on_elements for window in windows)
        gain = f"{pairs / left:.4g}x fewer" if left else "none left"
        counted, padding = f"{gain} FLOPs", f"{outside / max(1, left):.0%} on padding"
        if (flops := self.dims.flops) is not None:
            counted = f"{flops_change(flops, flops * left // pairs)} ({gain})"
            padding = f"{flops_text(flops * outside // pairs)} on padding"
        kept = (f"but dimension {dim} keeps its holes: {self.kept[dim]}" for dim in self.kept)
        return f"{counted}, {'; '.join(kept) or 'none on a hole'}, {padding}"


def read_scattered(
    dims: ContractionDims, position: int, scatter: Scatter
) -> ScatteredOperand | Refusal:
    """Sort the dimensions of input number `position`, which `scatter` describes.

    Refuses unless some dimension is strided and read through several taps, and where there are more
    phases than MOST_COMBINATIONS.
    """
    split: list[SplitDim] = []
    padded: dict[int, tuple[int, int]] = {}
    kept: dict[int, str] = {}
    for dim, digits in enumerate(scatter.dims):
        if covers(digits):
            continue
        margins = _margins(digits)
        if margins is not None and not _single(digits):
            padded[dim] = margins
            continue
        found = _split(dims, position, dim, digits)
        if margins is not None and (isinstance(found, Refusal) or found.window.taps == 1):
            padded[dim] = margins
            continue
        if isinstance(found, Refusal):
            kept[dim] = found.reason
        else:
            split.append(found)
    if not split:
        return Refusal(next(iter(kept.values()), "no dimension is strided"))
    if all(one.window.taps == 1 for one in split):
        return Refusal(f"dimension {split[0].dim} is read through one tap")
    count = prod(one.window.phase_count for one in split)
    if count > MOST_COMBINATIONS:
        return Refusal(f"it has {count} phases, more than {MOST_COMBINATIONS}")
    return ScatteredOperand(dims, position, scatter, tuple(split), padded, kept)


def _single(digits: Digits) -> bool:
    """Whether a dimension holds one element, which may stand for any distance of elements."""
    return len(digits) == 1 and digits[0].size == 1


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
    if _single(digits) and (window.stride, window.dilation) == (1, 1):
        window = replace(window, spacing=window.taps)
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
