"""A contraction as phases that share rows of A: shifts, and the matrices that meet them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import BLOCK_K
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    RowMap,
    in_pieces,
    padded,
    sliding_maps,
    taps_of,
    unsupported,
    weight_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.contraction.spec import Contraction, Phase
    from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand

MAX_COLUMNS = 256
"""Of all phases together: what a warpgroup keeps sums of."""
ROW_BYTES = 2 * BLOCK_K
"""Of a row of A, or of a column of B, in a stage."""
COLUMN_STEP = 32
"""Columns of a phase are a multiple of it, as instructions are."""


@dataclass(frozen=True)
class JoinedProblem:
    """What the generated `Problem` struct says; axes innermost first, the batch last."""

    rows: RowMap
    """The positions of all phases together."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements of C between two positions."""
    phases: tuple[tuple[tuple[int, ...], int], ...]
    """Per phase, by its place in C: sizes, and that place in elements."""
    run: int
    """Phases whose columns follow each other in C."""
    shifts: tuple[tuple[int, ...], ...]
    """Distances between rows of A and the corner, innermost first."""
    matrices: tuple[tuple[int, ...], ...]
    """Per shift and phase the number of the matrix of B, -1 where there is no such tap."""
    tap_stride: int
    matrix_count: int
    columns: int
    """Of one phase."""
    depth: int
    weights_by_depth: bool
    operands: tuple[LinearOperand, ...] = ()
    """What the epilogue reads besides."""

    @property
    def positions(self) -> int:
        """Rows of the product."""
        return prod(self.sizes)

    @property
    def taps(self) -> int:
        """Of all phases together."""
        return sum(matrix >= 0 for row in self.matrices for matrix in row)

    @property
    def weight_bytes(self) -> int:
        """Of all matrices in shared memory."""
        return self.taps * -(-self.depth // BLOCK_K) * self.columns * ROW_BYTES


def problem_of(contraction: Contraction) -> JoinedProblem | Refusal:
    """Plan a contraction, or say why the template cannot compute it."""
    refusal = unsupported(contraction)
    if refusal is not None:
        return refusal
    phases = sorted(contraction.phases, key=lambda phase: phase.out_offset)
    columns, count = contraction.columns, len(phases)
    if count == 1 or not all(phase.taps for phase in phases):
        return Refusal("it has a single phase, or holes")
    if columns % COLUMN_STEP or columns * count > MAX_COLUMNS:
        return Refusal(f"{count} phases of {columns} columns are no {MAX_COLUMNS} sums of a row")
    if len(in_pieces(contraction)[1]) > 1:
        return Refusal("its phases differ in their weights alone, and are one product as they are")
    joint = _joint(phases)
    if isinstance(joint, Refusal):
        return joint
    mapped = sliding_maps(joint)
    if isinstance(mapped, Refusal):
        return mapped
    numbers = weight_numbers(phases)
    if isinstance(numbers, Refusal):
        return numbers
    (rows, *_), corners = mapped
    taps = [dict(taps_of(phase, corners, numbers[0])) for phase in joint]
    shifts = tuple(sorted({shift for of_phase in taps for shift in of_phase}))
    matrices = tuple(tuple(of_phase.get(shift, -1) for of_phase in taps) for shift in shifts)
    if len(shifts) == sum(map(len, taps)):
        return Refusal("no two phases share rows of A")
    return JoinedProblem(
        rows=rows,
        sizes=padded([axis.size for axis in joint[0].axes], 1),
        strides=padded([axis.out_stride for axis in joint[0].axes], 0),
        phases=tuple(
            (padded([axis.size for axis in phase.axes], 1), phase.out_offset) for phase in phases
        ),
        run=_run(phases, columns),
        shifts=shifts,
        matrices=matrices,
        tap_stride=numbers[0],
        matrix_count=numbers[1],
        columns=columns,
        depth=contraction.depth,
        weights_by_depth=contraction.b.column_stride != 1,
    )


def _joint(phases: Sequence[Phase]) -> list[Phase] | Refusal:
    """The phases, all with the positions that any of them has."""
    axes = list(zip(*(phase.axes for phase in phases), strict=True))
    walks = [{(a.extent, a.step, a.row_stride, a.out_stride) for a in axis} for axis in axes]
    if any(len(walk) != 1 for walk in walks):
        return Refusal("its phases step differently through their operands")
    sizes = [max(a.size for a in axis) for axis in axes]
    return [
        replace(
            phase,
            axes=tuple(
                replace(axis, size=size) for axis, size in zip(phase.axes, sizes, strict=True)
            ),
        )
        for phase in phases
    ]


def _run(phases: Sequence[Phase], columns: int) -> int:
    """How many phases follow each other in C, everywhere; they divide all of them."""
    offsets = [phase.out_offset for phase in phases]
    for run in range(len(phases), 1, -1):
        starts = range(0, len(phases), run)
        expected = [offsets[start] + i * columns for start in starts for i in range(run)]
        if len(phases) % run == 0 and offsets == expected:
            return run
    return 1
