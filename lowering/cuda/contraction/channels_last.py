"""Operands of contractions copied so that their channels are neighbours, where that pays.

    A[position, channel], positions neighbours --> workspace[position, channel], channels neighbours

Tensor cores take 16-byte vectors along the reduction; rows that are shifted by a filter's taps are
aligned along channels only. The copy is a launch of its own in front of the contraction's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.contraction.spec import STORAGE_BYTES, Channels, Weights
from convir.lowering.cuda.contraction.epilogue import CPP_TYPES
from convir.lowering.cuda.kernel_plan import CudaKernel, Pointer

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Axis, Contraction, StorageType

TILE_POSITIONS, TILE_CHANNELS, THREADS = 64, 32, 256
"""What a block of `channels_last.cuh` copies."""
MAX_TILES_OF_CHANNELS = 65535
"""The height of a grid."""


@dataclass(frozen=True)
class Copy:
    """One operand on its way to channels that are neighbours."""

    operand: str
    """`a` or `b`."""
    type: StorageType
    positions: tuple[tuple[int, int], ...]
    """Size and stride of every dimension but the channels, in the order of the copy."""
    channels: int
    stride: int
    """Elements between two channels."""

    @property
    def nbytes(self) -> int:
        """Bytes of the copy."""
        sizes = prod(size for size, _ in self.positions)
        return sizes * self.channels * STORAGE_BYTES[self.type]

    def kernel(self, workspace: int) -> CudaKernel:
        """The launch that writes the copy to a workspace."""
        rows = prod(size for size, _ in self.positions)
        return CudaKernel(
            self._source(rows),
            "to_channels_last",
            (-(-rows // TILE_POSITIONS), -(-self.channels // TILE_CHANNELS), 1),
            (THREADS, 1, 1),
            0,
            (Pointer("a" if self.operand == "a" else "b"), Pointer("workspace", workspace)),
        )

    def _source(self, rows: int) -> str:
        sizes = ", ".join(str(size) for size, _ in self.positions)
        strides = ", ".join(str(stride) for _, stride in self.positions)
        return (
            '#include "channels_last.cuh"\n\n'
            "struct Problem {\n"
            f"  using Element = {CPP_TYPES[self.type]};\n"
            f"  static constexpr int kAxes = {len(self.positions)};\n"
            f"  static constexpr long long kPositions = {rows};\n"
            f"  static constexpr int kChannels = {self.channels};\n"
            f"  static constexpr long long kChannelStride = {self.stride};\n"
            f"  static constexpr long long kSize[] = {{{sizes}}};\n"
            f"  static constexpr long long kStride[] = {{{strides}}};\n"
            "};\n\n"
            f'extern "C" __global__ void __launch_bounds__({THREADS})\n'
            "to_channels_last(const Problem::Element* from, Problem::Element* to) {\n"
            "  convir::copy_channels_last<Problem>(from, to);\n}\n"
        )


def copied(spec: Contraction, operands: str) -> tuple[Contraction, tuple[Copy, ...]]:
    """`spec` on copies of `operands` (letters of `ab`), and the copies.

    Raises:
        ValueError: an operand cannot be copied.
    """
    copies: list[Copy] = []
    for operand in operands:
        if operand not in copyable(spec):
            raise ValueError(f"operand '{operand}' is not copied to channels that are neighbours")
        spec, copy = _copied_rows(spec) if operand == "a" else _copied_weights(spec)
        copies.append(copy)
    return spec, tuple(copies)


def copyable(spec: Contraction) -> str:
    """The operands that can be copied, as letters: those whose channels are not neighbours."""
    rows = spec.a.stride != 1 and spec.depth > 1
    dense = spec.groups == 1 or spec.a.group_stride == spec.depth * spec.a.stride
    return ("a" if rows and dense and _fits(spec.groups * spec.depth) else "") + (
        "b" if _weights_are_copyable(spec) else ""
    )


def _fits(channels: int) -> bool:
    return -(-channels // TILE_CHANNELS) <= MAX_TILES_OF_CHANNELS


def _weights_are_copyable(spec: Contraction) -> bool:
    """Whether B is taps, for every column and depth, none of them outside of its dense block."""
    if spec.result != "C" or spec.b.depth_stride == 1 or not _fits(spec.depth):
        return False
    first = min(sum(min(_weight_places(axis)) for axis in p.axes) for p in spec.phases)
    last = max(sum(max(_weight_places(axis)) for axis in p.axes) for p in spec.phases)
    return first >= 0 and last < _taps_of(spec)


def _weight_places(axis: Axis) -> tuple[int, ...]:
    return axis.tap_weights or (0,)


def _taps_of(spec: Contraction) -> int:
    """Elements of B between two neighbours of its faster channels: room for so many taps."""
    strides = [spec.b.depth_stride]
    strides += [spec.b.column_stride] if spec.columns > 1 else []
    return min(strides)


def _copied_rows(spec: Contraction) -> tuple[Contraction, Copy]:
    channels = spec.groups * spec.depth
    active = next(phase for phase in spec.phases if phase.taps)
    order = sorted(range(len(active.axes)), key=lambda i: -active.axes[i].row_stride)
    positions = tuple((active.axes[i].extent, active.axes[i].row_stride) for i in order)
    stride, strides = channels, dict.fromkeys(order, 0)
    for i in reversed(order):
        strides[i] = stride
        stride *= active.axes[i].extent
    phases = tuple(
        replace(
            phase,
            axes=tuple(
                replace(axis, row_stride=strides[i] if phase.taps else 0)
                for i, axis in enumerate(phase.axes)
            ),
        )
        for phase in spec.phases
    )
    copy = Copy("a", spec.a.type, positions, channels, spec.a.stride)
    return replace(spec, phases=phases, a=Channels(spec.a.type, 1, spec.depth)), copy


def _copied_weights(spec: Contraction) -> tuple[Contraction, Copy]:
    taps, depth = _taps_of(spec), spec.depth
    phases = tuple(
        replace(
            phase,
            axes=tuple(
                replace(axis, tap_weights=tuple(depth * weight for weight in axis.tap_weights))
                for axis in phase.axes
            ),
        )
        for phase in spec.phases
    )
    b = spec.b
    positions = ((spec.groups, b.group_stride), (spec.columns, b.column_stride), (taps, 1))
    copy = Copy("b", b.type, positions, depth, b.depth_stride)
    weights = Weights(b.type, 1, taps * depth, spec.columns * taps * depth)
    return replace(spec, phases=phases, b=weights), copy
