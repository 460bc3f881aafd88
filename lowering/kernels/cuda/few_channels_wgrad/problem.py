"""A contraction as `few_channels_wgrad` sees it: which side has few channels, and their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, VECTOR, DirectProblem
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.few_channels_wgrad.config import COLUMNS

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue

MOST_FEW = 16
"""Channels past which a tap fills columns of matrix instructions by itself."""
MOST_COLUMNS = 384
"""Pairs of a tap and a channel whose accumulators eight warps hold."""


@dataclass(frozen=True)
class FewChannels:
    """What the family reads besides: `in_channels` are the few."""

    problem: DirectProblem
    copied: int
    """Elements of a copy of the operand of few channels; 1 if they pass through registers."""
    c_copied: int
    """The same of the other operand."""
    a_planar: bool
    """Whether the few channels are planes of pixels."""
    c_planar: bool
    is_mirrored: bool
    """Whether the few channels are those of C, and A and C change their places."""

    @property
    def pixel(self) -> int:
        """Elements of a line of the few channels for a pixel."""
        return 1 if self.a_planar else self.problem.contraction.in_channels

    @property
    def planes(self) -> int:
        """Lines of the few channels for a row of pixels."""
        return self.problem.contraction.in_channels if self.a_planar else 1

    @property
    def columns(self) -> int:
        """Pairs of a tap and one of the few channels."""
        return self.problem.taps * self.problem.contraction.in_channels

    @property
    def column_tiles(self) -> int:
        """Tiles of 8 columns."""
        return -(-self.columns // COLUMNS)


def mirrored(spec: Contraction) -> Contraction | None:
    """The same gradient with A and C in each other's places, where windows do not step.

    A tap reads A at x + t for output pixel x, so it reads C at y - t for pixel y of A.
    """
    (phase,) = spec.phases
    if phase.out_offset or any(axis.step != 1 for axis in phase.axes):
        return None
    axes = tuple(map(_mirrored, phase.axes))
    return replace(
        spec,
        phases=(replace(phase, axes=axes),),
        in_channels=spec.out_channels,
        out_channels=spec.in_channels,
        a=spec.c,
        c=spec.a,
        b=replace(
            spec.b,
            in_channel_stride=spec.b.out_channel_stride,
            out_channel_stride=spec.b.in_channel_stride,
        ),
    )


def _mirrored(axis: Axis) -> Axis:
    return replace(
        axis,
        size=axis.extent,
        extent=axis.size,
        tap_rows=tuple(-row for row in axis.tap_rows),
        row_stride=axis.out_stride,
        out_stride=axis.row_stride,
    )


def read(contraction: Contraction, epilogue: Epilogue) -> FewChannels | Refusal:
    """What the family sees of a contraction, or why it does not take it."""
    if contraction.result != "B":
        return Refusal("it does not compute the gradient of the weights")
    spec = contraction
    is_mirrored = contraction.in_channels > MOST_FEW
    if is_mirrored:
        if contraction.out_channels > MOST_FEW:
            return Refusal("neither side has few channels")
        turned = mirrored(contraction)
        if turned is None:
            return Refusal("few output channels, and windows that step")
        spec = turned
    read = reading(spec, epilogue, _layouts, "B", anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, layouts = read
    a_planar, c_planar = layouts.a_planar, layouts.c_planar
    return FewChannels(problem, layouts.copied, layouts.c_copied, a_planar, c_planar, is_mirrored)


@dataclass(frozen=True)
class _Layouts:
    copied: int
    c_copied: int
    a_planar: bool
    c_planar: bool


def _layouts(problem: DirectProblem) -> _Layouts | Refusal:
    """How rows of A and C are copied, or why the family refuses the problem."""
    spec, rows, cols = problem.contraction, problem.rows, problem.cols
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if spec.groups != 1 or not problem.taps:
        return Refusal("it has groups, or no taps")
    if problem.slices.size * problem.slices.taps != 1:
        return Refusal("it has slices")
    a_planar = spec.a.stride != 1 and spec.in_channels > 1
    c_planar = spec.c.stride != 1 and spec.out_channels > 1
    if (a_planar and cols.a_stride != 1) or (c_planar and cols.c_stride != 1):
        return Refusal("neither channels nor pixels are innermost")
    last = cols.origin + (problem.col_count - 1) * cols.step + cols.window
    overlaps = not a_planar and cols.a_stride < spec.in_channels
    if overlaps and not 0 <= cols.origin <= last <= cols.extent:
        return Refusal("pixels of the few channels overlap, and have padding")
    if problem.taps * spec.in_channels > MOST_COLUMNS:
        return Refusal(f"{problem.taps} taps of {spec.in_channels} channels are too many columns")
    (phase,) = problem.phases
    row = rows.c_stride if problem.row_count > 1 else 0
    steps = (problem.c_image, row, phase.offset)
    if c_planar:
        c_copied = gcd(VECTOR, problem.col_count, spec.c.stride, *steps)
    else:
        c_copied = gcd(VECTOR, cols.c_stride, *steps)
    if spec.out_channels % VECTOR != 0 or (not c_planar and c_copied != VECTOR):
        return Refusal("pixels of many channels are not aligned to 16 bytes")
    line = cols.extent
    if not a_planar:
        line = (cols.extent - 1) * cols.a_stride + spec.in_channels
    row = rows.a_stride if rows.extent > 1 else 0
    apart = spec.a.stride if a_planar else 0
    copied = gcd(VECTOR, line, problem.a_image, row, apart)
    return _Layouts(copied, c_copied, a_planar, c_planar)
