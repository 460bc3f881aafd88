"""What passes keep of the parts of a row: the structs of `reduce/row_totals.cuh`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.moments import DEVIATIONS
from convir.lowering.bodies.rows.program import SUM

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import RowProgram

VECTOR_BYTES = 16

_TOTALS = {
    SUM: "Sum",
    "arith.mulf": "Product",
    "arith.maximumf": "Maximum",
    "arith.minimumf": "Minimum",
    DEVIATIONS: "Moments",
}
_WORDS = {"Sum": 2, "Product": 1, "Maximum": 1, "Minimum": 1, "Moments": 4}
"""Numbers that a total is kept as."""


@dataclass(frozen=True)
class Total:
    """What one reduction, or two of the same elements, keep of the part of a row."""

    kind: str
    operand: int
    reductions: tuple[int, ...]


def totals_of(program: RowProgram, number: int) -> tuple[Total, ...]:
    """What a pass, counted from 1, keeps of each part of a row."""
    reductions = [(i, program.reduction(i)) for i in program.reductions_of(number)]
    found: list[Total] = []
    moments = {r.operand for _, r in reductions if r.combiner == DEVIATIONS}
    for operand in sorted(moments):
        shared = [
            i for i, r in reductions if r.operand == operand and r.combiner in (DEVIATIONS, SUM)
        ]
        found.append(Total("Moments", operand, tuple(shared)))
    taken = {i for total in found for i in total.reductions}
    rest = [(i, r) for i, r in reductions if i not in taken]
    return (*found, *(Total(_TOTALS[r.combiner], r.operand, (i,)) for i, r in rest))


def total_bytes(program: RowProgram, number: int) -> int:
    """Of what a pass keeps of a part of a row."""
    size = 8 if program.element == "f64" else 4
    return size * sum(_WORDS[total.kind] for total in totals_of(program, number))


def alignment(nbytes: int) -> int:
    """Bytes of the accesses that move so many, where they lie beside others of their kind."""
    return min(nbytes & -nbytes, VECTOR_BYTES) or 1


def largest_bytes(program: RowProgram) -> int:
    """Of what any pass keeps of a part of a row, aligned for each of them."""
    sizes = [total_bytes(program, number) for number in range(1, program.passes + 1)]
    aligned = max(map(alignment, sizes))
    return -(-max(sizes) // aligned) * aligned


def region_bytes(program: RowProgram, number: int) -> int:
    """Of memory for each total that a pass leaves for later ones."""
    return -(-total_bytes(program, number) // VECTOR_BYTES) * VECTOR_BYTES
