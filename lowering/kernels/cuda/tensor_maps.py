"""Tensor maps of rows of A that slide over its pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.launch import Im2colMap
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import ALIGNMENT

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import StorageType
    from convir.lowering.kernels.cuda.launch import Pointer
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import RowMap
    from convir.lowering.kernels.target import Target


def im2col_map(
    buffer: Pointer,
    element: StorageType,
    in_channels: int,
    rows: RowMap,
    channels: int,
    pixels: int,
    promotion: Literal[128, 256] = 256,
) -> Im2colMap:
    """The map whose copies gather `channels` of `pixels` consecutive output pixels; a miss
    brings `promotion` bytes to the L2 cache.

    What is f32 arrives rounded to TF32.
    """
    slides = rows.slides
    return Im2colMap(
        buffer,
        element,
        (in_channels, *(slide.extent for slide in slides), rows.rows),
        tuple(stride_bytes(each.row_stride, element) for each in (*slides, rows)),
        tuple(slide.corner for slide in slides),
        tuple(slide.upper for slide in slides),
        tuple(slide.step for slide in slides),
        channels,
        pixels,
        128,
        is_tf32=element == "f32",
        promotion=promotion,
    )


def promotion_of(size: int, target: Target) -> Literal[128, 256]:
    """Bytes that a miss should bring of an operand of `size` bytes, in copies 128 bytes wide: their
    neighbours too, unless the L2 cache has lost these when they are wanted."""
    return 256 if size <= target.l2_bytes else 128


def stride_bytes(elements: int, element: StorageType) -> int:
    """Bytes of a stride; an axis of one position may have any."""
    return max(elements, ALIGNMENT) * STORAGE_BYTES[element]
