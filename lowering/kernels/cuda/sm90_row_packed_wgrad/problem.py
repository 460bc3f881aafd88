"""Which gradients of weights the `sm90_row_packed_wgrad` kernel family computes: rows and
columns of images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES, Axis
from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import (
    PIECES,
    copied_bytes,
    small_gradient_refusal,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue

ALIGNMENT = 16
"""Bytes that strides of a tensor map are multiples of."""


@dataclass(frozen=True)
class RowPackedProblem:
    """A gradient of weights of windows that move by single output pixels."""

    images: Axis
    rows: Axis
    """Its taps read adjacent rows of X, ascending."""
    cols: Axis
    y_piece: int
    """Bytes of dY that threads copy at once."""
    rows_follow: bool
    """Whether rows of dY follow each other in memory."""
    is_dense: bool
    """Whether dY's output pixels do in a row, and dY is a multiple of 16 bytes."""


@lru_cache(maxsize=256)
def row_packed_problem(spec: Contraction, epilogue: Epilogue) -> RowPackedProblem | Refusal:
    """What the kernel family sees of a contraction and its epilogue, or why it refuses them."""
    return epilogue.operands_refusal or problem_of(spec)


def problem_of(spec: Contraction) -> RowPackedProblem | Refusal:
    """The rows and columns of `spec`, or why the kernel family does not compute it."""
    reason = small_gradient_refusal(spec)
    if reason is not None:
        return Refusal(reason)
    axes = spec.phases[0].axes
    images, *windows = axes if _is_batch(axes[0]) else (_unit(axes[0]), *axes)
    if not windows or len(windows) > len(("rows", "out_channels")):
        return Refusal(f"it has {len(windows)} spatial axes")
    rows, cols = windows if len(windows) > 1 else (_unit(windows[0]), *windows)
    if any(axis.step != 1 and axis.size > 1 for axis in (rows, cols)):
        return Refusal("windows move by several pixels")
    first = rows.tap_rows[0]
    if rows.tap_rows != tuple(range(first, first + len(rows.tap_rows))):
        return Refusal("taps do not read adjacent rows")
    strides = [axis.row_stride for axis in (images, rows, cols) if axis.extent > 1]
    groups = [spec.a.group_stride] if spec.groups > 1 else []
    width = STORAGE_BYTES[spec.a.type]
    if any(stride * width % ALIGNMENT for stride in (*strides, *groups)):
        return Refusal("TMA does not take rows that are no multiples of 16 bytes")
    if groups and groups[0] != spec.in_channels:
        return Refusal("groups of channels do not follow each other")
    piece = copied_bytes(
        spec.c, spec.out_channels, [axis.out_stride for axis in axes if axis.size > 1]
    )
    if piece < min(PIECES):
        return Refusal("its rows of single elements are not copied without registers in between")
    width = STORAGE_BYTES[spec.c.type]
    bytes_of_y = images.out_stride * images.size * width
    is_dense = (
        spec.groups == 1 and cols.out_stride == spec.out_channels and bytes_of_y % ALIGNMENT == 0
    )
    rows_follow = rows.out_stride == cols.size * cols.out_stride
    return RowPackedProblem(images, rows, cols, piece, rows_follow, is_dense)


def _is_batch(axis: Axis) -> bool:
    return axis.tap_rows == (0,) and axis.step == 1


def _unit(inner: Axis) -> Axis:
    """An axis of one position around another."""
    return Axis.batch(1, inner.row_stride * inner.extent, inner.out_stride * inner.size)
