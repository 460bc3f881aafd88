"""A contraction as phases that share rows of A: shifts, and the matrices that meet them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import BLOCK_K
from convir.lowering.kernels.cuda.sm90_implicit_gemm.pieces import in_pieces
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    RowMap,
    padded,
    shared_size,
    sliding_maps,
    taps_of,
    unsupported,
    weight_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Contraction, Phase
    from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand
    from convir.lowering.kernels.protocol import Size

MAX_COLUMNS = 256
"""Of all phases together: what a warpgroup keeps accumulators of."""
ROW_BYTES = 2 * BLOCK_K
"""Of a row of A, or of a column of B, in a stage."""
COLUMN_STEP = 32
"""Columns of a phase are a multiple of it, as instructions are."""


@dataclass(frozen=True)
class FusedDgradProblem:
    """What the generated `Problem` struct says; axes innermost first, the batch last."""

    rows: RowMap
    """The output pixels of all phases together."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements of C between two output pixels."""
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
    out_channels: int
    """Of one phase."""
    in_channels: int
    filter_by_in_channel: bool
    operands: tuple[LinearOperand, ...] = ()
    """What the epilogue reads besides."""

    @property
    def images(self) -> Size:
        """Output pixels along the last axis, where all phases have as many."""
        return shared_size([self.sizes, *(sizes for sizes, _ in self.phases)])

    @property
    def pixels(self) -> int:
        """Rows of the product."""
        return prod(self.sizes)

    @property
    def taps(self) -> int:
        """Of all phases together."""
        return sum(matrix >= 0 for row in self.matrices for matrix in row)

    @property
    def weight_bytes(self) -> int:
        """Of all matrices in shared memory."""
        return self.taps * -(-self.in_channels // BLOCK_K) * self.out_channels * ROW_BYTES


def problem_of(contraction: Contraction) -> FusedDgradProblem | Refusal:
    """Plan a contraction, or say why the kernel family cannot compute it."""
    refusal = unsupported(contraction)
    if refusal is not None:
        return refusal
    phases = sorted(contraction.phases, key=lambda phase: phase.out_offset)
    out_channels, count = contraction.out_channels, len(phases)
    if count == 1 or not all(phase.taps for phase in phases):
        return Refusal("it has a single phase, or zero-filled outputs")
    if out_channels % COLUMN_STEP or out_channels * count > MAX_COLUMNS:
        return Refusal(
            f"{count} phases of {out_channels} output channels are no "
            f"{MAX_COLUMNS} accumulators of a row"
        )
    if len(in_pieces(contraction)[1]) > 1:
        return Refusal("its phases differ in their weights alone, and are one product as they are")
    joint = joint_phases(phases)
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
    return FusedDgradProblem(
        rows=rows,
        sizes=padded([axis.size for axis in joint[0].axes], 1),
        strides=padded([axis.out_stride for axis in joint[0].axes], 0),
        phases=tuple(
            (padded([axis.size for axis in phase.axes], 1), phase.out_offset) for phase in phases
        ),
        run=run_of(phases, out_channels),
        shifts=shifts,
        matrices=matrices,
        tap_stride=numbers[0],
        matrix_count=numbers[1],
        out_channels=out_channels,
        in_channels=contraction.in_channels,
        filter_by_in_channel=contraction.b.out_channel_stride != 1,
    )


def joint_phases(phases: Sequence[Phase]) -> list[Phase] | Refusal:
    """The phases, all with the output pixels that any of them has."""
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


def run_of(phases: Sequence[Phase], out_channels: int) -> int:
    """How many phases follow each other in C, everywhere; they divide all of them."""
    offsets = [phase.out_offset for phase in phases]
    for run in range(len(phases), 1, -1):
        starts = range(0, len(phases), run)
        expected = [offsets[start] + i * out_channels for start in starts for i in range(run)]
        if len(phases) % run == 0 and offsets == expected:
            return run
    return 1
