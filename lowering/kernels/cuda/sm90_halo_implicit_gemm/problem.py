"""A contraction as one phase whose taps are shifts of a box of A."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.epilogue_operands import linear_operands
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    ALIGNMENT,
    MAX_SPATIAL,
    padded,
    taps_of,
    unsupported,
    weight_numbers,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand

MOST_STEPS = 512
"""Instructions along the reduction: all are unrolled."""
STEP_CHANNELS = 16
"""Input channels of an instruction."""


@dataclass(frozen=True)
class HaloProblem:
    """What the generated `Problem` struct says; axes innermost first, three and the batch."""

    sizes: tuple[int, ...]
    """Output pixels."""
    strides: tuple[int, ...]
    """Elements of C between two output pixels."""
    offset: int
    """Elements of C before the first one."""
    extents: tuple[int, ...]
    row_strides: tuple[int, ...]
    """Pixels of A, and the elements between them."""
    corner: tuple[int, ...]
    """The pixel of A that the first tap of output pixel 0 reads, without the batch."""
    taps: tuple[tuple[tuple[int, ...], int], ...]
    """Per tap the distances from the corner, and the number of its matrix of B."""
    tap_stride: int
    matrices: int
    in_channels: int
    out_channels: int
    filter_by_in_channel: bool
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
    def steps(self) -> int:
        """Instructions of a tile's rows along the reduction."""
        return len(self.taps) * -(-self.in_channels // STEP_CHANNELS)

    @property
    def pixels(self) -> int:
        """Output pixels of the batch."""
        return prod(self.sizes)


def problem_of(contraction: Contraction) -> HaloProblem | Refusal:
    """Plan a contraction, or say why the kernel family cannot compute it."""
    refusal = unsupported(contraction)
    if refusal is not None:
        return refusal
    if len(contraction.phases) != 1 or contraction.phases[0].taps < 2:
        return Refusal("it is not one phase of several taps")
    (phase,) = contraction.phases
    batch, *spatial = phase.axes
    is_batch = batch.tap_rows == (0,) and batch.step == 1 and batch.size == batch.extent
    if not 1 <= len(spatial) <= MAX_SPATIAL or not is_batch:
        return Refusal("its first axis is not a batch before 1 to 3 spatial axes")
    if any(axis.step != 1 for axis in spatial if axis.size > 1):
        return Refusal("neighbouring output pixels do not read neighbouring pixels")
    weights = weight_numbers(contraction.phases)
    if isinstance(weights, Refusal):
        return weights
    inner: list[Axis] = spatial[::-1]
    corner = tuple(min(axis.tap_rows) for axis in inner)
    problem = HaloProblem(
        sizes=padded([axis.size for axis in phase.axes], 1),
        strides=padded([axis.out_stride for axis in phase.axes], 0),
        offset=phase.out_offset,
        extents=padded([axis.extent for axis in phase.axes], 1),
        row_strides=padded([axis.row_stride for axis in phase.axes], ALIGNMENT),
        corner=(*corner, *(0,) * (MAX_SPATIAL - len(corner))),
        taps=taps_of(phase, corner, weights[0]),
        tap_stride=weights[0],
        matrices=weights[1],
        in_channels=contraction.in_channels,
        out_channels=contraction.out_channels,
        filter_by_in_channel=contraction.b.out_channel_stride != 1,
    )
    if problem.steps > MOST_STEPS:
        return Refusal(f"{problem.steps} products of a row are too many to unroll")
    return problem


@lru_cache(maxsize=256)
def halo_problem(spec: Contraction, epilogue: Epilogue) -> HaloProblem | Refusal:
    """What the family sees of a contraction and its epilogue, or why it does not take them."""
    operands = linear_operands(spec, epilogue)
    if isinstance(operands, Refusal):
        return operands
    problem = problem_of(spec)
    return problem if isinstance(problem, Refusal) else replace(problem, operands=operands)
