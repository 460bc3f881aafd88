"""Contractions whose pixels are contiguous, as the wgmma family for gradients of weights copies
them: lines of pixels, and the axes around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES, Axis
from convir.lowering.kernels.cuda.launch import TensorMap

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from convir.lowering.bodies.contraction.spec import Contraction, Phase, StorageType
    from convir.lowering.kernels.cuda.launch import Pointer

LINE_BYTES = 128
"""Pixels of a copy: a row of the 128-byte swizzle."""
TMA_BYTES = 16
"""What TMA's addresses and strides are multiples of."""
MOST_OUTER = 2
"""Axes of a tensor map beside the line, channels and images."""


@dataclass(frozen=True)
class PlaneMap:
    """A tiled tensor map of an operand whose pixels are contiguous, innermost axis first: the line,
    channels, the axes around the line, images."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements, but along the line."""
    offset: int
    """Elements before the first."""

    def tensor_map(
        self,
        buffer: Pointer,
        element: StorageType,
        channels: int,
        promotion: Literal[128, 256],
        *,
        is_tf32: bool,
    ) -> TensorMap:
        """Copies of a line's 128 bytes of `channels` channels; with `is_tf32` rounded to TF32."""
        nbytes = STORAGE_BYTES[element]
        outer = (1,) * (len(self.sizes) - 2)
        return TensorMap(
            buffer,
            element,
            self.sizes,
            tuple(-(-stride * nbytes // TMA_BYTES) * TMA_BYTES for stride in self.strides),
            (LINE_BYTES // nbytes, channels, *outer),
            128,
            self.offset * nbytes,
            is_tf32=is_tf32,
            promotion=promotion,
        )


@dataclass(frozen=True)
class Planes:
    """Output pixels whose neighbours are contiguous in C, and in A or in C alone."""

    axes: tuple[Axis, ...]
    """The line, and those around it, innermost first."""
    images: Axis
    a: PlaneMap | None
    """None if A's channels are innermost."""
    c: PlaneMap
    block_k: int
    """Output pixels of a step."""

    @property
    def line_steps(self) -> int:
        """Steps of a line."""
        return -(-self.axes[0].size // self.block_k)

    @property
    def outer(self) -> tuple[int, ...]:
        """Output pixels along the axes around lines, innermost first."""
        return tuple(axis.size for axis in self.axes[1:])

    @property
    def straddles(self) -> bool:
        """Whether copies of lines begin inside of cache lines."""
        nbytes = LINE_BYTES // self.block_k
        maps = [each for each in (self.a, self.c) if each is not None]
        return any(stride * nbytes % LINE_BYTES for each in maps for stride in each.strides)

    @property
    def steps(self) -> int:
        """Of all output pixels."""
        return self.line_steps * prod(self.outer) * self.images.size


def planes_of(spec: Contraction, phase: Phase) -> Planes | Refusal:
    """The lines of a contraction whose C has contiguous pixels."""
    images, *spatial = phase.axes
    if images.tap_rows != (0,) or images.step != 1 or images.size != images.extent:
        return Refusal("its first axis is not a batch")
    inner = [axis for axis in reversed(spatial) if not _is_point(axis)] or spatial[-1:]
    if not inner:
        return Refusal("it has no pixels beside a batch")
    has_planes = spec.a.stride != 1
    if not has_planes:
        inner = [_in_c(axis) for axis in inner]
    line, *outer = inner
    if line.out_stride != 1 or (has_planes and (line.row_stride, line.step) != (1, 1)):
        return Refusal("neither channels nor pixels of A or C are contiguous, or it has strides")
    while outer and _continues(line, outer[0]):
        line, *outer = (_merged(line, outer[0]), *outer[1:])
    if len(outer) > (MOST_OUTER if has_planes else 0):
        return Refusal("its axes are not one line of pixels and two around it")
    axes = (line, *outer)
    block_k = LINE_BYTES // STORAGE_BYTES[spec.c.type]
    a = _map_of_a(spec, axes, images) if has_planes else None
    c = _map_of_c(spec, axes, images, phase.out_offset)
    for each in (a, c):
        if each is not None and not _is_aligned(each, STORAGE_BYTES[spec.c.type]):
            return Refusal(f"lines of A or C do not start at multiples of {TMA_BYTES} bytes")
    return Planes(axes, images, a, c, block_k)


def _is_point(axis: Axis) -> bool:
    return axis.size == axis.extent == 1 and axis.tap_rows == (0,)


def _in_c(axis: Axis) -> Axis:
    """The axis as C alone has it."""
    return replace(
        axis,
        extent=axis.size,
        step=1,
        tap_rows=(0,),
        tap_weights=(0,),
        row_stride=axis.out_stride,
    )


def _continues(line: Axis, outer: Axis) -> bool:
    """Whether the neighbour of a line's end is the begin of the next one, in both operands."""
    is_whole = line.tap_rows == (0,) and line.step == outer.step == 1 and line.size == line.extent
    return is_whole and outer.row_stride == outer.out_stride == line.size


def _merged(line: Axis, outer: Axis) -> Axis:
    """Lines along `outer` as one."""
    return Axis(
        outer.size * line.size,
        outer.extent * line.size,
        1,
        tuple(row * line.size for row in outer.tap_rows),
        tuple(weight + line.tap_weights[0] for weight in outer.tap_weights),
        1,
        1,
    )


def _map_of_a(spec: Contraction, axes: Sequence[Axis], images: Axis) -> PlaneMap:
    line, *outer = axes
    return PlaneMap(
        (
            line.extent,
            spec.groups * spec.in_channels,
            *(axis.extent for axis in outer),
            images.extent,
        ),
        (spec.a.stride, *(axis.row_stride for axis in outer), images.row_stride),
        0,
    )


def _map_of_c(spec: Contraction, axes: Sequence[Axis], images: Axis, offset: int) -> PlaneMap:
    line, *outer = axes
    return PlaneMap(
        (line.size, spec.groups * spec.out_channels, *(axis.size for axis in outer), images.size),
        (spec.c.stride, *(axis.out_stride for axis in outer), images.out_stride),
        offset,
    )


def _is_aligned(each: PlaneMap, nbytes: int) -> bool:
    """Whether every stride that counts is a multiple of what TMA copies."""
    strides = [s for size, s in zip(each.sizes[1:], each.strides, strict=True) if size > 1]
    return all(stride * nbytes % TMA_BYTES == 0 for stride in (*strides, each.offset))
