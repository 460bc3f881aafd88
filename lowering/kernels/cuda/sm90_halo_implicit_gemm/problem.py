"""A contraction whose taps are shifts of boxes of A: one phase, or several that share them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.epilogue_operands import linear_operands
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.kernels.cuda.result_planes import PLANES_WITH_OPERANDS
from convir.lowering.kernels.cuda.sm90_fused_dgrad.problem import joint_phases, run_of
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    ALIGNMENT,
    MAX_SPATIAL,
    padded,
    taps_of,
    unsupported,
    weight_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand

MOST_STEPS = 512
"""Instructions along the reduction: all are unrolled."""
STEP_CHANNELS = 16
"""Input channels of an instruction."""
PAIR = 2
"""Phases whose pixels alternate in C."""
COLUMN_STEP = 16
"""What columns of a phase are padded to: no descriptor has fewer."""


@dataclass(frozen=True)
class HaloProblem:
    """What the generated `Problem` struct says; axes innermost first, three and the batch."""

    sizes: tuple[int, ...]
    """Output pixels, the most of any phase."""
    strides: tuple[int, ...]
    """Elements of C between two output pixels of a phase."""
    phases: tuple[tuple[tuple[int, ...], int], ...]
    """Per phase, by its place in C: its output pixels, and that place in elements."""
    run: int
    """Phases that are stored together: their columns follow each other in C, or the pixels of two
    alternate."""
    pitch: tuple[int, ...]
    """Pixels of A from what an output pixel reads to what the next one does."""
    extents: tuple[int, ...]
    row_strides: tuple[int, ...]
    """Pixels of A, and the elements between them."""
    corner: tuple[int, ...]
    """The pixel of A that the first tap of output pixel 0 reads, without the batch."""
    taps: tuple[tuple[tuple[int, ...], tuple[int | None, ...]], ...]
    """Per tap the distances from the corner, and for each phase the number of its matrix of B; None
    where a phase has no such tap."""
    tap_stride: int
    matrices: int
    in_channels: int
    out_channels: int
    """Of one phase."""
    filter_by_in_channel: bool
    channel_stride: int = 1
    """Elements between two channels of C."""
    operands: tuple[LinearOperand, ...] = ()
    """What the epilogue reads besides."""

    @property
    def images(self) -> Scalar:
        """The batch."""
        return Scalar(self.sizes[-1])

    @property
    def span(self) -> tuple[int, ...]:
        """The largest distance of a tap along each axis."""
        return tuple(map(max, zip(*(at for at, _ in self.taps), strict=True)))

    @property
    def is_strided(self) -> bool:
        """Whether neighbouring output pixels read pixels of A that are none."""
        return max(self.pitch) > 1

    @property
    def phase_columns(self) -> int:
        """Columns of the product that a phase has, if there are several."""
        return -(-self.out_channels // COLUMN_STEP) * COLUMN_STEP

    @property
    def steps(self) -> int:
        """Instructions of a tap."""
        return -(-self.in_channels // STEP_CHANNELS)

    @property
    def pixels(self) -> int:
        """Output pixels of the batch and a phase."""
        return prod(self.sizes)


def problem_of(contraction: Contraction) -> HaloProblem | Refusal:
    """Plan a contraction, or say why the kernel family cannot compute it."""
    refusal = unsupported(contraction, takes_planes=True)
    refusal = refusal or _unsupported_phases(contraction.phases)
    if refusal is not None:
        return refusal
    phases = sorted(contraction.phases, key=lambda phase: phase.out_offset)
    joint = joint_phases(phases)
    if isinstance(joint, Refusal):
        return joint
    weights = weight_numbers(phases)
    if isinstance(weights, Refusal):
        return weights
    inner: list[tuple[Axis, ...]] = list(zip(*(p.axes[:0:-1] for p in joint), strict=True))
    corner = tuple(min(row for axis in axes for row in axis.tap_rows) for axes in inner)
    pitch = [axes[0].step if axes[0].size > 1 else 1 for axes in inner]
    taps = [dict(taps_of(phase, corner, weights[0])) for phase in joint]
    places = dict.fromkeys(at for of_phase in taps for at in of_phase)
    first = joint[0]
    problem = HaloProblem(
        sizes=padded([axis.size for axis in first.axes], 1),
        strides=padded([axis.out_stride for axis in first.axes], 0),
        phases=tuple(
            (padded([axis.size for axis in phase.axes], 1), phase.out_offset) for phase in phases
        ),
        run=_run_of(phases, contraction),
        pitch=(*pitch, *(1,) * (MAX_SPATIAL - len(pitch))),
        extents=padded([axis.extent for axis in first.axes], 1),
        row_strides=padded([axis.row_stride for axis in first.axes], ALIGNMENT),
        corner=(*corner, *(0,) * (MAX_SPATIAL - len(corner))),
        taps=tuple((at, tuple(of_phase.get(at) for of_phase in taps)) for at in places),
        tap_stride=weights[0],
        matrices=weights[1],
        in_channels=contraction.in_channels,
        out_channels=contraction.out_channels,
        filter_by_in_channel=contraction.b.out_channel_stride != 1,
        channel_stride=contraction.c.stride,
    )
    refusal = _unsupported_taps(problem)
    return problem if refusal is None else refusal


def _run_of(phases: Sequence[Phase], contraction: Contraction) -> int:
    """How many phases are stored together; of planes two, where each two of their pixels begin at a
    word."""
    if contraction.c.stride == 1:
        return run_of(phases, contraction.out_channels)
    places = [contraction.c.stride]
    for phase in phases:
        *outer, line = phase.axes
        places += [axis.out_stride for axis in outer]
        if line.out_stride != PAIR:
            return 1
    pairs = list(zip(phases[::2], phases[1::2], strict=False))
    alternate = len(phases) % PAIR == 0 and all(
        second.out_offset == first.out_offset + 1 and first.axes[-1].size == second.axes[-1].size
        for first, second in pairs
    )
    places += [first.out_offset for first, _ in pairs]
    return PAIR if alternate and all(place % PAIR == 0 for place in places) else 1


def _unsupported_taps(problem: HaloProblem) -> Refusal | None:
    if len(problem.taps) < 2:
        return Refusal("its taps read a single pixel")
    if len(problem.phases) > 1 and problem.is_strided:
        return Refusal("it has phases, and its output pixels do not read neighbouring pixels")
    products = len(problem.taps) * problem.steps
    if products > MOST_STEPS:
        return Refusal(f"{products} products of a row are too many to unroll")
    return None


def _unsupported_phases(phases: tuple[Phase, ...]) -> Refusal | None:
    """Why the output pixels of phases are none that the family takes."""
    for phase in phases:
        if not phase.taps:
            return Refusal("it has zero-filled outputs")
        batch, *spatial = phase.axes
        is_batch = batch.tap_rows == (0,) and batch.step == 1 and batch.size == batch.extent
        if not 1 <= len(spatial) <= MAX_SPATIAL or not is_batch:
            return Refusal("its first axis is not a batch before 1 to 3 spatial axes")
        if any(axis.step < 1 for axis in spatial):
            return Refusal("it walks backwards")
    return None


@lru_cache(maxsize=256)
def halo_problem(spec: Contraction, epilogue: Epilogue) -> HaloProblem | Refusal:
    """What the family sees of a contraction and its epilogue, or why it does not take them."""
    operands = linear_operands(spec, epilogue)
    if isinstance(operands, Refusal):
        return operands
    if spec.c.stride != 1 and operands:
        return PLANES_WITH_OPERANDS
    problem = problem_of(spec)
    return problem if isinstance(problem, Refusal) else replace(problem, operands=operands)
