"""Results whose channels are planes (channels first), as kernels of wgmma store them: runs of rows.

Rows of a tile are output pixels. Where they are neighbours in C, one access stores several of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Phase

MOST_ELEMENTS = 8
"""Of an access: 16 bytes of 16-bit types."""
PLANES_WITH_OPERANDS = Refusal(
    "its epilogue reads operands beside planes of C: no such kernel was run on a GPU yet"
)
BOX_ROWS = 16
"""Rows of a tile of a warp, which stores boxes of them."""


@dataclass(frozen=True)
class ResultPlanes:
    """How C is stored, as `epilogue/plane_store.cuh` reads it."""

    channel_stride: int = 1
    """Elements between two channels; 1 if channels are neighbours."""
    width: int = 1
    """Rows of an access."""
    pairs: bool = False
    """Whether the pixels of two phases alternate, whose columns are stored together."""
    line: int = 1
    """Rows that follow each other in C at one distance, the fewest of any phase."""
    lines: int = 0
    """Lines of pixels of 16 rows, which are boxes that TMA stores; 0 if lanes store runs."""

    @property
    def exist(self) -> bool:
        """Whether channels are planes."""
        return self.channel_stride != 1

    @property
    def source(self) -> str:
        """Its constants, as members of a struct."""
        return (
            f"  static constexpr long long kChannelStride = {self.channel_stride};\n"
            f"  static constexpr int kPlaneWidth = {self.width};\n"
            f"  static constexpr bool kPlanePairs = {str(self.pairs).lower()};\n"
            f"  static constexpr int kPlaneLines = {self.lines};\n"
        )


NO_PLANES = ResultPlanes()


def planes_of(
    phases: Sequence[Phase], channel_stride: int, pieces: Sequence[int] = (0,)
) -> ResultPlanes:
    """How the rows of `phases` are stored, numbered along their axes, the innermost fastest.

    Args:
        phases: their first axis is the batch, which is never part of a run: its size is none of the
            code's.
        channel_stride: elements between two channels of C.
        pieces: elements of C from a row's position to where its parts begin.
    """
    if channel_stride == 1:
        return NO_PLANES
    width = gcd(MOST_ELEMENTS, channel_stride, *pieces)
    line = min(map(_line_of, phases))
    is_whole = len(phases) == len(pieces) == 1
    for phase in phases:
        run = 1
        outer: list[int] = []
        for axis in reversed(phase.axes[1:]):
            if axis.size == 1:
                continue
            if not outer and axis.out_stride == run:
                run *= axis.size
            else:
                outer.append(axis.out_stride)
        batch = phase.axes[0]
        outer += [batch.out_stride] if batch.size > 1 else []
        width = gcd(width, run, phase.out_offset, *outer)
        is_whole = is_whole and run * batch.size == phase.pixels and run % BOX_ROWS == 0
    boxes = is_whole and width == MOST_ELEMENTS
    return ResultPlanes(channel_stride, width, line=line, lines=1 if boxes else 0)


def _line_of(phase: Phase) -> int:
    """Rows that follow each other in C at one distance."""
    size, distance = 1, 0
    for axis in reversed(phase.axes[1:]):
        if axis.size > 1 and size > 1 and axis.out_stride != distance * size:
            break
        if axis.size > 1 and size == 1:
            distance = axis.out_stride
        size *= axis.size
    return size
