"""Operands of contractions copied so that their channels are contiguous, where that pays.

    A[position, channel], output pixels neighbours --> workspace[position, channel], channels
    neighbours

Tensor cores take 16-byte vectors along the reduction; rows that are shifted by a filter's taps are
aligned along channels only. The copy is a launch of its own in front of the contraction's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING, Literal

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES, Channels, Weights
from convir.lowering.kernels.cuda.launch import CudaKernel, Pointer, Scalar
from convir.lowering.kernels.cuda.prediction.traffic import KEPT_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Axis, Contraction, StorageType
    from convir.lowering.kernels.cuda.launch import Argument

THREADS, WARP = 128, 32
"""Of a block, and of a warp."""
LINE_BYTES, SECTOR_BYTES = 128, 32
"""What a warp writes of a pixel at most, and reads of a channel at least."""
VECTOR_BYTES = 16
"""The widest access."""
PATCH_BYTES = 384
"""Of the registers of a thread for elements on their way."""
FEW_CHANNELS_BYTES = 64
"""Of a pixel, of which a thread moves all."""
MOST_BESIDE = 1.5
"""Pixels of runs that are cut over those that exist."""
MOST_IDLE = 1.25
"""Lanes over those that have channels to move, of a warp that could be narrower."""
SMALL = 1 << 31
"""Output pixels that 32 bits count."""


@dataclass(frozen=True)
class Copy:
    """One operand on its way to channels that are contiguous, or a result on its way back."""

    operand: Literal["a", "b", "c"]
    type: StorageType
    pixels: tuple[tuple[int, int], ...]
    """Size and stride of every dimension but the channels, in the order of the copy."""
    channels: int
    stride: int
    """Elements between two channels."""
    back: bool = False
    """Whether the copy is what is read, and the operand what is written."""
    gap: int = 1
    """Neighbours of the innermost dimension that may be read for each of its pixels."""

    @property
    def nbytes(self) -> int:
        """Bytes of the copy."""
        return self.rows * self.channels * STORAGE_BYTES[self.type]

    @property
    def rows(self) -> int:
        """Output pixels of the copy."""
        return prod(size for size, _ in self.pixels)

    @property
    def _dense(self) -> tuple[tuple[int, int], ...]:
        """The output pixels with neighbours that are one run as one dimension."""
        merged: list[tuple[int, int]] = []
        for size, stride in self.pixels:
            if merged and merged[-1][1] == size * stride:
                merged[-1] = (merged[-1][0] * size, stride)
            else:
                merged.append((size, stride))
        return tuple(merged)

    @property
    def plane_width(self) -> int:
        """Elements of an access along output pixels."""
        return self._vector if self.cuts_runs else self._aligned_width

    @property
    def cuts_runs(self) -> bool:
        """Whether runs of pixels are shifted out of aligned vectors, as runs.cuh does: two reads
        are fewer than those that begin at multiples of their width."""
        size, stride = self._dense[-1]
        return (
            stride == 1
            and 2 * self._aligned_width < self._vector
            and self.channels % self._vector == 0
            and -(-size // self._vector) * self._vector <= MOST_BESIDE * size
        )

    @property
    def _vector(self) -> int:
        """Elements of the widest access."""
        return VECTOR_BYTES // STORAGE_BYTES[self.type]

    @property
    def _aligned_width(self) -> int:
        """Elements of an access along output pixels: all of them begin at its multiples."""
        *outer, (size, stride) = self._dense
        if stride not in (1, self.gap):
            return 1
        steps = [step for extent, step in outer if extent > 1]
        channel = self.stride if self.channels > 1 else 0
        together = gcd(self._vector, channel, *steps)
        return gcd(together // stride, size) if together % stride == 0 else 1

    @property
    def plane_step(self) -> int:
        """Elements of an access along output pixels for each of them."""
        return self._dense[-1][1] if self.plane_width > 1 else 1

    @property
    def channel_width(self) -> int:
        """Elements of an access along channels; of the next pixels' too if a patch has them all."""
        run = self.channels * (self.plane_width if self._whole_pixels else 1)
        return gcd(self._vector, run)

    @property
    def _whole_pixels(self) -> bool:
        """Whether a thread moves all channels of its pixels: few, that vectors do not divide."""
        pixel = self.channels * STORAGE_BYTES[self.type]
        return (
            pixel % VECTOR_BYTES != 0
            and pixel <= FEW_CHANNELS_BYTES
            and pixel * self.plane_width <= PATCH_BYTES
        )

    @property
    def patch_channels(self) -> int:
        """Channels that a thread moves, of `plane_width` output pixels."""
        return self.channels if self._whole_pixels else self.channel_width

    @property
    def lanes(self) -> int:
        """Lanes of a warp along channels: whole lines of a pixel, and whole sectors of a plane."""
        nbytes, patches = STORAGE_BYTES[self.type], -(-self.channels // self.patch_channels)
        sector = max(1, SECTOR_BYTES // (self.plane_width * self.plane_step * nbytes))
        line = max(1, LINE_BYTES // (self.patch_channels * nbytes))
        lanes = 1
        while lanes < patches and 2 * lanes <= min(line, WARP // sector):
            lanes *= 2
        while lanes > 2 and -(-patches // lanes) * lanes > MOST_IDLE * patches:
            lanes //= 2
        return lanes

    @property
    def patches(self) -> int:
        """Patches along output pixels. Those of a result begin anywhere in a run: one more."""
        if not self.cuts_runs:
            return -(-self.rows // self.plane_width)
        size, _ = self._dense[-1]
        return self.rows // size * (-(-size // self.plane_width) + self.back)

    @property
    def blocks(self) -> int:
        """Of the launch: each has the channels that a warp moves, of all warps' pixels."""
        tiles = -(-self.channels // (self.lanes * self.patch_channels))
        return -(-self.patches // (THREADS // self.lanes)) * tiles

    @property
    def function(self) -> str:
        """What copies it, by name."""
        return (
            f"copy_{'runs_' if self.cuts_runs else ''}channels_{'first' if self.back else 'last'}"
        )

    def problem(self, name: str) -> str:
        """The struct of its constants, as kernel.cuh reads them."""
        # The first size is known by the number of pixels, which is an argument.
        sizes = ", ".join(str(size) for size, _ in self._dense[1:]) or "1"
        strides = ", ".join(str(stride) for _, stride in self._dense)
        index = "unsigned" if self.rows < SMALL else "unsigned long long"
        return (
            f"struct {name} {{\n"
            f"  using Index = {index};\n"
            f"  static constexpr int kBytes = {STORAGE_BYTES[self.type]};\n"
            f"  static constexpr int kAxes = {len(self._dense)};\n"
            f"  static constexpr int kChannels = {self.channels};\n"
            f"  static constexpr long long kChannelStride = {self.stride};\n"
            f"  static constexpr Index kSize[] = {{{sizes}}};\n"
            f"  static constexpr long long kStride[] = {{{strides}}};\n"
            f"  static constexpr int kPlaneWidth = {self.plane_width};\n"
            f"  static constexpr int kPlaneStep = {self.plane_step};\n"
            f"  static constexpr int kChannelWidth = {self.channel_width};\n"
            f"  static constexpr int kPatchChannels = {self.patch_channels};\n"
            f"  static constexpr int kLanes = {self.lanes};\n"
            "};\n\n"
        )


def copy_launches(
    copies: Sequence[tuple[Copy, Pointer]], *, back: bool = False
) -> tuple[CudaKernel, ...]:
    """The launch of copies to their places in a workspace, or back from there; none for none.

    One launch has them all: its first blocks those of the smallest copy, which end early.
    """
    chosen = sorted((each for each in copies if each[0].back == back), key=lambda c: c[0].blocks)
    if not chosen:
        return ()
    symbol = "to_channels_first" if back else "to_channels_last"
    parameters: list[str] = []
    calls: list[str] = []
    structs: list[str] = []
    arguments: list[Argument] = []
    for i, (copy, place) in enumerate(chosen):
        structs.append(copy.problem(f"Problem{i}"))
        element = f"convir::Copied<Problem{i}>"
        parameters.append(
            f"const {element}* from{i}, {element}* to{i}, long long pixels{i}, long long end{i}"
        )
        calls.append(
            f"  if (blockIdx.x < end{i}) {{\n"
            f"    return convir::{copy.function}<Problem{i}>(\n"
            f"        blockIdx.x - {f'end{i - 1}' if i else '0'}, from{i}, to{i}, pixels{i});\n"
            "  }\n"
        )
        ends = sum(each.blocks for each, _ in chosen[: i + 1])
        operands = (place, Pointer(copy.operand)) if back else (Pointer(copy.operand), place)
        arguments += [*operands, Scalar(copy.rows), Scalar(ends)]
    source = (
        f'#include "layout_conversion/runs.cuh"\n\n{"".join(structs)}'
        f'extern "C" __global__ void __launch_bounds__({THREADS})\n'
        f"{symbol}({', '.join(parameters)}) {{\n{''.join(calls)}}}\n"
    )
    blocks = sum(copy.blocks for copy, _ in chosen)
    grid, block = (blocks, 1, 1), (THREADS, 1, 1)
    return (CudaKernel(source, symbol, grid, block, 0, tuple(arguments)),)


@lru_cache(maxsize=KEPT_PROBLEMS)
def copied(spec: Contraction, operands: str) -> tuple[Contraction, tuple[Copy, ...]]:
    """`spec` on copies of `operands` (letters of `abc`), and the copies.

    Raises:
        ValueError: an operand cannot be copied.
    """
    copies: list[Copy] = []
    for operand in operands:
        if operand not in copyable(spec):
            raise ValueError(f"operand '{operand}' is not copied to contiguous channels")
        spec, copy = _COPIES[operand](spec)
        copies.append(copy)
    return spec, tuple(copies)


def copyable(spec: Contraction) -> str:
    """The operands that can be copied, as letters: those whose channels are not neighbours."""
    rows = spec.a.stride != 1 and spec.in_channels > 1
    dense = spec.groups == 1 or spec.a.group_stride == spec.in_channels * spec.a.stride
    return (
        ("a" if rows and dense else "")
        + ("b" if _weights_are_copyable(spec) else "")
        + ("c" if _pixels_are_planes(spec) else "")
    )


def _weights_are_copyable(spec: Contraction) -> bool:
    """Whether B is rows of taps, for every column and depth, none of them outside of its block.

    Of a result they are all taps: their copy is all that there is of it.
    """
    if spec.b.in_channel_stride == 1:
        return False
    rows = _rows_of_taps(spec)
    if spec.result == "B" and spec.phases[0].taps != rows.taps:
        return False
    return all(
        0 <= place < rows.taps * rows.stride and place % rows.stride == 0
        for phase in spec.phases
        for place in map(sum, product(*map(_weight_places, phase.axes)))
    )


@dataclass(frozen=True)
class _TapRows:
    """How the taps of B lie: side by side for each column, or each a row of columns."""

    taps: int
    stride: int
    """Elements from a tap to the next."""
    holds_columns: bool


def _rows_of_taps(spec: Contraction) -> _TapRows:
    """How the taps of B lie."""
    b, columns = spec.b, spec.out_channels
    strides = [b.in_channel_stride, *([b.out_channel_stride] if columns > 1 else [])]
    places = (_weight_places(axis) for phase in spec.phases for axis in phase.axes)
    row = gcd(b.in_channel_stride, *(place for each in places for place in each))
    if spec.result == "C" and 1 < columns <= row and b.out_channel_stride == 1:
        return _TapRows(b.in_channel_stride // row, row, holds_columns=True)
    return _TapRows(min(strides), 1, holds_columns=False)


def _pixels_are_planes(spec: Contraction) -> bool:
    """Whether C is planes of its channels, every element of which the contraction has."""
    channels, plane = spec.groups * spec.out_channels, spec.c.stride
    dense = spec.groups == 1 or spec.c.group_stride == spec.out_channels * plane
    if plane == 1 or channels == 1 or not dense:
        return False
    block = channels * plane
    for phase in spec.phases:
        inside = [axis for axis in phase.axes if axis.size > 1 and axis.out_stride % block != 0]
        last = sum((axis.size - 1) * axis.out_stride for axis in inside)
        if phase.out_offset % block + last >= plane:
            return False
    return sum(phase.pixels for phase in spec.phases) == _images_of(spec, block) * plane


def _images_of(spec: Contraction, block: int) -> int:
    """Blocks of all channels that C has."""
    steps = (
        phase.out_offset // block
        + sum((axis.size - 1) * (axis.out_stride // block) for axis in phase.axes)
        for phase in spec.phases
    )
    return 1 + max(steps)


def _weight_places(axis: Axis) -> tuple[int, ...]:
    return axis.tap_weights or (0,)


def _copied_rows(spec: Contraction) -> tuple[Contraction, Copy]:
    channels = spec.groups * spec.in_channels
    active = next(phase for phase in spec.phases if phase.taps)
    order = sorted(range(len(active.axes)), key=lambda i: -active.axes[i].row_stride)
    steps = [_step_of_rows(spec, i) for i in range(len(active.axes))]
    sizes = [-(-axis.extent // step) for axis, step in zip(active.axes, steps, strict=True)]
    pixels = tuple((sizes[i], active.axes[i].row_stride * steps[i]) for i in order)
    stride, strides = channels, dict.fromkeys(order, 0)
    for i in reversed(order):
        strides[i] = stride
        stride *= sizes[i]
    phases = tuple(
        replace(
            phase,
            axes=tuple(
                _read_from_copy(axis, steps[i], strides[i])
                if phase.taps
                else replace(axis, row_stride=0)
                for i, axis in enumerate(phase.axes)
            ),
        )
        for phase in spec.phases
    )
    innermost = active.axes[order[-1]]
    is_even = innermost.row_stride == 1 and innermost.extent % steps[order[-1]] == 0
    gap = steps[order[-1]] if is_even else 1
    copy = Copy("a", spec.a.type, pixels, channels, spec.a.stride, gap=gap)
    return replace(spec, phases=phases, a=Channels(spec.a.type, 1, spec.in_channels)), copy


def _step_of_rows(spec: Contraction, axis: int) -> int:
    """Every how many pixels of A along an axis one is read at most, from the first one on."""
    along = (phase.axes[axis] for phase in spec.phases if phase.taps)
    return gcd(*(n for each in along for n in (each.step, *each.tap_rows)))


def _read_from_copy(axis: Axis, step: int, stride: int) -> Axis:
    """An axis of a copy that has one of `step` pixels of the operand."""
    return replace(
        axis,
        extent=-(-axis.extent // step),
        step=axis.step // step,
        tap_rows=tuple(tap // step for tap in axis.tap_rows),
        row_stride=stride,
    )


def _copied_weights(spec: Contraction) -> tuple[Contraction, Copy]:
    rows, b = _rows_of_taps(spec), spec.b
    columns, in_channels = spec.out_channels, spec.in_channels
    apart = in_channels * (columns if rows.holds_columns else 1)
    phases = tuple(
        replace(
            phase,
            axes=tuple(
                replace(
                    axis,
                    tap_weights=tuple(weight // rows.stride * apart for weight in axis.tap_weights),
                )
                for axis in phase.axes
            ),
        )
        for phase in spec.phases
    )
    taps, of_columns = (rows.taps, rows.stride), (columns, b.out_channel_stride)
    order = (taps, of_columns) if rows.holds_columns else (of_columns, taps)
    pixels = ((spec.groups, b.group_stride), *order)
    copy = Copy("b", b.type, pixels, in_channels, b.in_channel_stride, back=spec.result == "B")
    column = in_channels * (1 if rows.holds_columns else rows.taps)
    weights = Weights(b.type, 1, column, columns * rows.taps * in_channels)
    return replace(spec, phases=phases, b=weights), copy


def _copied_pixels(spec: Contraction) -> tuple[Contraction, Copy]:
    channels, plane = spec.groups * spec.out_channels, spec.c.stride
    block = channels * plane

    def moved(offset: int) -> int:
        return offset // block * block + offset % block * channels

    phases = tuple(
        replace(
            phase,
            axes=tuple(replace(axis, out_stride=moved(axis.out_stride)) for axis in phase.axes),
            out_offset=moved(phase.out_offset),
        )
        for phase in spec.phases
    )
    pixels = ((_images_of(spec, block), block), (plane, 1))
    copy = Copy("c", spec.c.type, pixels, channels, plane, back=spec.result == "C")
    return replace(spec, phases=phases, c=Channels(spec.c.type, 1, spec.out_channels)), copy


_COPIES = {"a": _copied_rows, "b": _copied_weights, "c": _copied_pixels}
