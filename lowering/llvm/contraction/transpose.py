"""Square matrices transposed in registers, by exchanging blocks of doubling size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.llvm.contraction.builder import Function, Value


def transpose(f: Function, rows: Sequence[Value]) -> list[Value]:
    """The columns of the matrix whose rows are vectors; as many rows as lanes, a power of two."""
    lanes = len(rows)
    matrix = list(rows)
    distance = 1
    while distance < lanes:
        near = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        far = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        for row in range(lanes):
            if row & distance:
                continue
            above, below = matrix[row], matrix[row + distance]
            matrix[row] = f.shuffle(above, below, near, "near")
            matrix[row + distance] = f.shuffle(above, below, far, "far")
        distance *= 2
    return matrix
