"""A gradient of weights as halos of A that meet slices of C."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import Axis
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import small_gradient_refusal
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    ALIGNMENT,
    MAX_ROWS,
    MAX_SPATIAL,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue

_NO_AXIS = Axis(1, 1, 1, (0,), (0,), ALIGNMENT, ALIGNMENT)


@dataclass(frozen=True)
class HaloWgradProblem:
    """Axes are innermost first; the third one is that of the shifts, whichever it is of A's."""

    axes: tuple[Axis, Axis, Axis]
    batch: Axis
    in_channels: int
    out_channels: int
    b_in_channel: int
    b_out_channel: int
    """Strides of B."""

    @property
    def images(self) -> Scalar:
        """The batch."""
        return Scalar(self.batch.size)

    @cached_property
    def corner(self) -> tuple[int, int, int]:
        """The pixel of A that the first tap of output pixel 0 reads; along the axis of shifts the
        slice of C that the last tap of slice 0 of A belongs to."""
        x, y, z = (axis.tap_rows for axis in self.axes)
        return min(x), min(y), -max(z)

    @cached_property
    def span(self) -> tuple[int, int, int]:
        """The largest distance of taps along each axis."""
        x, y, z = (max(axis.tap_rows) - min(axis.tap_rows) for axis in self.axes)
        return x, y, z

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        """The elements of B of the taps along the third axis, in the order of C's slices."""
        taps = zip(self.axes[2].tap_rows, self.axes[2].tap_weights, strict=True)
        return tuple(weight for _, weight in sorted(taps, reverse=True))

    @property
    def dilation(self) -> int:
        """Slices between two of those taps."""
        return max(1, self.span[2] // max(1, len(self.shifts) - 1))

    @cached_property
    def taps(self) -> dict[tuple[int, int], int]:
        """The taps along the first two axes: by their distances from the corner their elements of
        B, the lines of the halo one after the other."""
        x, y, _ = self.axes
        return {
            (row - self.corner[0], line - self.corner[1]): of_row + of_line
            for line, of_line in sorted(zip(y.tap_rows, y.tap_weights, strict=True))
            for row, of_row in sorted(zip(x.tap_rows, x.tap_weights, strict=True))
        }


def problem_of(spec: Contraction) -> HaloWgradProblem | Refusal:
    """Plan a gradient, or say why the kernel family cannot compute it."""
    reason = small_gradient_refusal(spec)
    if reason is not None:
        return Refusal(reason)
    if spec.groups != 1:
        return Refusal("it has groups")
    batch, *spatial = spec.phases[0].axes
    is_batch = batch.tap_rows == (0,) and batch.step == 1 and batch.size == batch.extent
    if not 1 <= len(spatial) <= MAX_SPATIAL or not is_batch or batch.tap_weights != (0,):
        return Refusal("its first axis is not a batch before 1 to 3 spatial axes")
    if any(axis.step != 1 for axis in spatial if axis.size > 1):
        return Refusal("neighbouring output pixels do not read neighbouring pixels")
    strides = [axis.row_stride for axis in spec.phases[0].axes if axis.extent > 1]
    strides += [axis.out_stride for axis in spec.phases[0].axes if axis.size > 1]
    if any(stride % ALIGNMENT for stride in strides):
        return Refusal(f"rows of A or C do not start at multiples of {ALIGNMENT} elements")
    if spec.phases[0].pixels >= MAX_ROWS:
        return Refusal(f"it has {MAX_ROWS} output pixels or more")
    inner, *others = reversed(spatial)
    # Slices are taken where taps are the most.
    others.sort(key=lambda axis: len(axis.tap_rows))
    others = [_NO_AXIS] * (MAX_SPATIAL - 1 - len(others)) + others
    shifts = sorted(others[1].tap_rows)
    if len({b - a for a, b in pairwise(shifts)}) > 1:
        return Refusal("its taps are not equally far apart")
    problem = HaloWgradProblem(
        (inner, others[0], others[1]),
        batch,
        spec.in_channels,
        spec.out_channels,
        spec.b.in_channel_stride,
        spec.b.out_channel_stride,
    )
    if len(problem.taps) * len(problem.shifts) < 2:
        return Refusal("it has a single tap")
    return problem


@lru_cache(maxsize=256)
def halo_wgrad_problem(spec: Contraction, epilogue: Epilogue) -> HaloWgradProblem | Refusal:
    """What the family sees of a contraction and its epilogue, or why it does not take them."""
    return epilogue.operands_refusal or problem_of(spec)
