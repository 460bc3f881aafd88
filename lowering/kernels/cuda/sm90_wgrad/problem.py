"""The gradient of weights as the wgmma kernel family sees it: output pixels, taps and tensor
maps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    ALIGNMENT,
    MAX_AXES,
    RowMap,
    row_maps,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase
    from convir.lowering.kernels.cuda.epilogue import Epilogue

BLOCK_K = 64
"""Output pixels of a stage."""
CHUNK = 64
"""Channels of a copy: a row of the 128-byte swizzle."""


@dataclass(frozen=True)
class TapAxis:
    """The taps along one axis that A's map slides over."""

    taps: int
    first_offset: int
    """Pixels of A that the first one is behind the corner."""
    step: int
    """Output pixels between two."""
    weight_step: int
    """Elements of B between two."""


@dataclass(frozen=True)
class WgradProblem:
    """What the generated `Problem` struct says."""

    rows: RowMap
    """The tensor map of A."""
    pixels: Scalar
    tap_axes: tuple[TapAxis, ...]
    """Innermost first."""
    first_weight: int
    """Elements of B before the first tap."""
    in_channels: int
    out_channels: int
    out_channel_stride: int
    """Elements of B between two columns."""
    row_stride: int
    """Elements of C between two output pixels."""
    row_offset: int
    """Elements of C before the first position."""

    @property
    def chunks_m(self) -> int:
        """Copies of C's channels at one position."""
        return -(-self.out_channels // CHUNK)

    @property
    def chunks_n(self) -> int:
        """Copies of A's channels for all taps of one position."""
        return -(-self.in_channels // CHUNK) * self.taps

    @property
    def taps(self) -> int:
        """Matrices of B."""
        return prod(axis.taps for axis in self.tap_axes)

    @property
    def steps(self) -> int:
        """Stages that the reduction over output pixels takes."""
        return -(-self.pixels.value // BLOCK_K)


def problem_of(spec: Contraction) -> WgradProblem | Refusal:
    """Plan a contraction that computes B, or say why the kernel family cannot compute it."""
    refusal = _unsupported(spec)
    if refusal is not None:
        return refusal
    (phase,) = spec.phases
    if not phase.taps:
        return Refusal("nothing is multiplied")
    row_stride = _matrix_stride(phase)
    if row_stride is None:
        return Refusal("output pixels of C are not the rows of one matrix")
    maps = row_maps([phase])
    if isinstance(maps, Refusal):
        return maps
    (rows,), corners = maps
    inner = list(reversed(phase.axes))[: len(rows.slides)]
    tap_axes = [_tap_axis(axis, corner) for axis, corner in zip(inner, corners, strict=False)]
    regular = [axis for axis in tap_axes if axis is not None]
    if len(regular) < len(tap_axes):
        return Refusal("taps are not at regular distances")
    return WgradProblem(
        rows=rows,
        pixels=Scalar(phase.pixels),
        tap_axes=tuple(regular),
        first_weight=sum(axis.tap_weights[0] for axis in phase.axes),
        in_channels=spec.in_channels,
        out_channels=spec.out_channels,
        out_channel_stride=spec.b.out_channel_stride,
        row_stride=row_stride,
        row_offset=phase.out_offset,
    )


def _unsupported(spec: Contraction) -> Refusal | None:
    if spec.result != "B":
        return Refusal("it does not compute the gradient of the weights")
    if spec.groups != 1:
        return Refusal("it has groups")
    if spec.element != "f32" or spec.a.type != spec.c.type or spec.a.type not in ("f16", "bf16"):
        return Refusal("A and C are not both f16 or both bf16")
    if spec.b.type not in ("f16", "bf16"):
        return Refusal("B is not of 16 bits")
    if spec.a.stride != 1 or spec.c.stride != 1 or spec.b.in_channel_stride != 1:
        return Refusal("channels of A, B or C are not innermost")
    (phase,) = spec.phases
    if len(phase.axes) > MAX_AXES:
        return Refusal(f"it has more than {MAX_AXES} axes")
    strides = [axis.row_stride for axis in phase.axes if axis.extent > 1]
    strides += [axis.out_stride for axis in phase.axes if axis.size > 1]
    strides += [weight for axis in phase.axes for weight in axis.tap_weights]
    strides += [spec.b.out_channel_stride] if spec.out_channels > 1 else []
    if any(stride % ALIGNMENT for stride in (*strides, phase.out_offset, spec.in_channels)):
        return Refusal(f"rows of A, B or C do not start at multiples of {ALIGNMENT} elements")
    if phase.pixels >= 1 << 31:
        return Refusal("it has more than 2^31 output pixels")
    return None


def _matrix_stride(phase: Phase) -> int | None:
    """The stride between output pixels of C in their order, None if it is not the same
    everywhere."""
    axes = [axis for axis in phase.axes if axis.size > 1]
    if any(outer.out_stride != inner.out_stride * inner.size for outer, inner in pairwise(axes)):
        return None
    return axes[-1].out_stride if axes else ALIGNMENT


def _tap_axis(axis: Axis, corner: int) -> TapAxis | None:
    steps = {after - before for before, after in pairwise(axis.tap_rows)} or {0}
    weights = {after - before for before, after in pairwise(axis.tap_weights)} or {0}
    if len(steps) > 1 or len(weights) > 1:
        return None
    return TapAxis(len(axis.tap_rows), axis.tap_rows[0] - corner, *steps, *weights)


@lru_cache(maxsize=256)
def wgrad_problem(spec: Contraction, epilogue: Epilogue) -> WgradProblem | Refusal:
    """What the family sees of a contraction and its epilogue, or why it does not take them."""
    return epilogue.operands_refusal or problem_of(spec)
