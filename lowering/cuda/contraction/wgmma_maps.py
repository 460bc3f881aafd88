"""Tensor maps of rows of A that slide over its pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.cuda.contraction.wgmma_problem import ALIGNMENT
from convir.lowering.cuda.kernel_plan import Im2colMap

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import StorageType
    from convir.lowering.cuda.contraction.wgmma_problem import RowMap
    from convir.lowering.cuda.kernel_plan import Pointer


def im2col_map(
    buffer: Pointer, element: StorageType, depth: int, rows: RowMap, channels: int, pixels: int
) -> Im2colMap:
    """The map whose copies gather `channels` of `pixels` consecutive output positions."""
    slides = rows.slides
    return Im2colMap(
        buffer,
        element,
        (depth, *(slide.extent for slide in slides), rows.rows),
        (*(stride_bytes(slide.row_stride) for slide in slides), stride_bytes(rows.row_stride)),
        tuple(slide.corner for slide in slides),
        tuple(slide.upper for slide in slides),
        tuple(slide.step for slide in slides),
        channels,
        pixels,
        128,
    )


def stride_bytes(elements: int) -> int:
    """Bytes of a stride; an axis of one position may have any."""
    return max(elements, ALIGNMENT) * 2
