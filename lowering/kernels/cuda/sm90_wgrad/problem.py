"""The gradient of weights as the wgmma kernel family sees it: output pixels, taps and tensor
maps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd, prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    ALIGNMENT,
    MAX_AXES,
    RowMap,
    Slide,
    row_maps,
)
from convir.lowering.kernels.cuda.sm90_wgrad.planes import LINE_BYTES, Planes, planes_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase
    from convir.lowering.kernels.cuda.epilogue import Epilogue

BLOCK_K = 64
"""Output pixels of a stage, of 16 bits."""
CHUNK = 64
"""Channels of a copy: a row of the 128-byte swizzle."""
MIN_SPLIT_PIXELS = 96
"""The least that is reduced by three products of TF32: from here on the bound of their error is at
most that of multiply-adds one after the other."""
SHIFT_BYTES = 16
"""What taps shift lines of contiguous pixels by multiples of."""


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
    in_channel_stride: int = 1
    """Elements of B between two input channels."""
    vector: int = ALIGNMENT
    """Elements that runs of B's input channels begin and end at multiples of."""
    planes: Planes | None = None
    """Where pixels of C are contiguous, how they are copied."""
    groups: int = 1
    group_stride: int = 0
    """Elements of B between two groups."""
    nbytes: int = 2
    """Of an element of A and C."""
    is_split: bool = False
    """Whether they are f32 in IEEE arithmetic, each product of which is three of TF32."""
    is_tf32: bool = False
    """Whether they are f32 that may be rounded to TF32."""

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
        if self.planes is not None:
            return self.planes.steps
        return -(-self.pixels.value // self.block_k)

    @property
    def block_k(self) -> int:
        """Output pixels of a step."""
        return LINE_BYTES // self.nbytes

    @property
    def reads_planes(self) -> bool:
        """Whether pixels of A are contiguous too."""
        return self.planes is not None and self.planes.a is not None

    @property
    def transposes_a(self) -> bool:
        """Whether A is TF32 whose channels are innermost: warps that load transpose it, as it is
        multiplied K major alone."""
        return self.is_tf32 and not self.reads_planes

    @property
    def converts_a(self) -> bool:
        """Whether warps that load convert A after it has arrived: they split or transpose it."""
        return self.is_split or self.transposes_a

    @property
    def is_matrix(self) -> bool:
        """Whether every output pixel reads the pixel of A at its own place, in order."""
        return self.taps == 1 if self.reads_planes else not self.rows.slides


def problem_of(spec: Contraction) -> WgradProblem | Refusal:
    """Plan a contraction that computes B, or say why the kernel family cannot compute it."""
    has_planes = spec.c.stride != 1 and spec.out_channels > 1
    refusal = _unsupported(spec) or (
        _unsupported_rows_of_a(spec) if has_planes else _unsupported_rows(spec)
    )
    if refusal is not None:
        return refusal
    (phase,) = spec.phases
    if not phase.taps:
        return Refusal("nothing is multiplied")
    planes = planes_of(spec, phase) if has_planes else None
    if isinstance(planes, Refusal):
        return planes
    row_stride = ALIGNMENT if has_planes else _matrix_stride(phase)
    if row_stride is None:
        return Refusal("output pixels of C are not the rows of one matrix")
    slid = _slid(phase) if planes is None or planes.a is None else _slid_lines(planes)
    if isinstance(slid, Refusal):
        return slid
    rows, tap_axes = slid
    regular = [axis for axis in tap_axes if axis is not None]
    if len(regular) < len(tap_axes):
        return Refusal("taps are not at regular distances")
    b = spec.b
    runs = [*(w for axis in phase.axes for w in axis.tap_weights), spec.in_channels]
    runs += [b.out_channel_stride] if spec.out_channels > 1 else []
    runs += [b.group_stride] if spec.groups > 1 else []
    return WgradProblem(
        rows=rows,
        pixels=Scalar(phase.pixels),
        tap_axes=tuple(regular),
        first_weight=sum(axis.tap_weights[0] for axis in phase.axes),
        in_channels=spec.in_channels,
        out_channels=spec.out_channels,
        out_channel_stride=b.out_channel_stride,
        row_stride=row_stride,
        row_offset=phase.out_offset,
        in_channel_stride=b.in_channel_stride,
        vector=gcd(ALIGNMENT, *runs) if b.in_channel_stride == 1 else 1,
        planes=planes,
        groups=spec.groups,
        group_stride=b.group_stride if spec.groups > 1 else 0,
        nbytes=STORAGE_BYTES[spec.a.type],
        is_split=splits_f32(spec),
        is_tf32=spec.a.type == "f32" and spec.tf32,
    )


def splits_f32(spec: Contraction) -> bool:
    """Whether operands are f32 that may not be rounded to TF32."""
    return spec.a.type == spec.c.type == "f32" and not spec.tf32


def _unsupported(spec: Contraction) -> Refusal | None:
    if spec.result != "B":
        return Refusal("it does not compute the gradient of the weights")
    refused = _unsupported_groups(spec)
    if refused is not None:
        return refused
    halves = ("f16", "bf16")
    is_f32 = spec.a.type == spec.b.type == "f32"
    if spec.element != "f32" or spec.a.type != spec.c.type:
        return Refusal("A and C are not both f16, both bf16 or both f32")
    if spec.a.type not in halves and not is_f32:
        return Refusal("A and C are neither of 16 bits, nor f32 as B is")
    if spec.b.type not in halves and not is_f32:
        return Refusal("B is not of 16 bits")
    (phase,) = spec.phases
    if splits_f32(spec) and phase.pixels < MIN_SPLIT_PIXELS:
        return Refusal(
            f"a reduction of {phase.pixels} is shorter than {MIN_SPLIT_PIXELS}:"
            " three products may be less accurate than f32"
        )
    if len(phase.axes) > MAX_AXES:
        return Refusal(f"it has more than {MAX_AXES} axes")
    if phase.pixels >= 1 << 31:
        return Refusal("it has more than 2^31 output pixels")
    return None


def _unsupported_groups(spec: Contraction) -> Refusal | None:
    """Why channels of groups are not copied as those of one; None if they are, or there is one."""
    if spec.groups == 1:
        return None
    if 2 * min(spec.in_channels, spec.out_channels) < CHUNK:
        return Refusal(
            f"groups of {spec.in_channels} and {spec.out_channels} channels fill less than half of"
            f" copies of {CHUNK}"
        )
    for what, channels, count in (
        ("A", spec.a, spec.in_channels),
        ("C", spec.c, spec.out_channels),
    ):
        if channels.group_stride != count * channels.stride:
            return Refusal(f"groups of {what} are not adjacent channels")
    return None


def _unsupported_rows(spec: Contraction) -> Refusal | None:
    """Why operands are not rows of contiguous channels."""
    is_f32 = spec.a.type == "f32"
    has_rows_of_b = spec.b.in_channel_stride == 1 or is_f32
    if spec.a.stride != 1 or spec.c.stride != 1 or not has_rows_of_b:
        return Refusal("channels of A, B or C are not innermost")
    (phase,) = spec.phases
    strides = [axis.row_stride for axis in phase.axes if axis.extent > 1]
    strides += [axis.out_stride for axis in phase.axes if axis.size > 1]
    if not is_f32:
        strides += [weight for axis in phase.axes for weight in axis.tap_weights]
        strides += [spec.b.out_channel_stride] if spec.out_channels > 1 else []
        strides += [spec.b.group_stride] if spec.groups > 1 else []
    strides += [spec.out_channels] if spec.groups > 1 else []
    if any(stride % ALIGNMENT for stride in (*strides, phase.out_offset, spec.in_channels)):
        return Refusal(f"rows of A, B or C do not start at multiples of {ALIGNMENT} elements")
    return None


def _unsupported_rows_of_a(spec: Contraction) -> Refusal | None:
    """Why A, beside planes of C, is no rows of contiguous channels; None if it is, or planes."""
    (phase,) = spec.phases
    strides = [axis.row_stride for axis in phase.axes if axis.extent > 1]
    if spec.a.stride == 1 and any(stride % ALIGNMENT for stride in strides):
        return Refusal(f"rows of A do not start at multiples of {ALIGNMENT} elements")
    return None


def _slid(phase: Phase) -> tuple[RowMap, list[TapAxis | None]] | Refusal:
    """Rows of A, and its taps."""
    maps = row_maps([phase])
    if isinstance(maps, Refusal):
        return maps
    (rows,), corners = maps
    inner = list(reversed(phase.axes))[: len(rows.slides)]
    return rows, [_tap_axis(axis, corner) for axis, corner in zip(inner, corners, strict=False)]


def _slid_lines(planes: Planes) -> tuple[RowMap, list[TapAxis | None]] | Refusal:
    """The same of lines of A."""
    size = LINE_BYTES // planes.block_k
    if any(row * size % SHIFT_BYTES for row in planes.axes[0].tap_rows):
        return Refusal(f"taps shift lines by other than multiples of {SHIFT_BYTES} bytes")
    if _reads_behind_lines(planes):
        return Refusal(
            f"lines of {planes.axes[0].size} pixels are no whole steps of {planes.block_k}:"
            " a tap would multiply pixels of A that it does not read"
        )
    slides = tuple(
        Slide(axis.size, axis.extent, axis.step, axis.tap_rows[0], axis.row_stride)
        for axis in planes.axes
    )
    tap_axes = [_tap_axis(axis, axis.tap_rows[0]) for axis in planes.axes]
    return RowMap(planes.images.extent, planes.images.row_stride, slides), tap_axes


def _reads_behind_lines(planes: Planes) -> bool:
    """Whether the last step of a line has pixels of A that its tap does not read, beside zeros of
    C: those that are infinite or NaN would be in the sum."""
    line = planes.axes[0]
    has_rest = line.size % planes.block_k > 0
    return has_rest and any(line.size + row < line.extent for row in line.tap_rows)


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
