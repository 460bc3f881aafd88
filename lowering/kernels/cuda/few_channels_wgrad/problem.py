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
    is_mirrored: bool
    """Whether the few channels are those of C, and A and C change their places."""

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
    read = reading(spec, epilogue, _copied, "B")
    if isinstance(read, Refusal):
        return read
    problem, copied = read
    return FewChannels(problem, copied, is_mirrored)


def _copied(problem: DirectProblem) -> int | Refusal:
    """Elements of a copy of rows of A, or why the family refuses the problem."""
    spec, rows, cols = problem.contraction, problem.rows, problem.cols
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if spec.groups != 1 or not problem.taps:
        return Refusal("it has groups, or no taps")
    last = cols.origin + (problem.col_count - 1) * cols.step + cols.window
    if cols.a_stride < spec.in_channels and not 0 <= cols.origin <= last <= cols.extent:
        return Refusal("pixels of the few channels overlap, and have padding")
    if problem.taps * spec.in_channels > MOST_COLUMNS:
        return Refusal(f"{problem.taps} taps of {spec.in_channels} channels are too many columns")
    (phase,) = problem.phases
    steps = (problem.c_image, rows.c_stride, cols.c_stride, phase.offset, spec.out_channels)
    if any(step % VECTOR for step in steps):
        return Refusal("pixels of many channels are not aligned to 16 bytes")
    line = (cols.extent - 1) * cols.a_stride + spec.in_channels
    row = rows.a_stride if rows.extent > 1 else 0
    return gcd(VECTOR, line, problem.a_image, row)
