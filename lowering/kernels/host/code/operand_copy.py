"""Operands that a kernel cannot read where they lie, copied to where it can.

Kernels read rows whose channels are contiguous, in the type of the arithmetic. An operand in
another type or layout is copied once to `[position][channel]`, which costs a pass over memory and
no arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Module, Value
from convir.lowering.kernels.host.code.elements.pairs import operand_storage
from convir.lowering.kernels.host.code.elements.storage import Storage, storage_of
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.transpose import Piece, Square, pieces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from convir.lowering.bodies.contraction.spec import Axis, Channels, Phase, StorageType
    from convir.lowering.kernels.host.code.builder import Loop
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

RUN = 64
"""Neighbouring output pixels, and channels, that an item copies; a multiple of every number of
lanes."""


@dataclass(frozen=True)
class Dimension:
    """Positions along one dimension of an operand."""

    size: int
    stride: int
    """Elements between two output pixels."""


def merged(dimensions: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """The same output pixels in the same order, with as few dimensions as possible."""
    result: list[Dimension] = []
    for dimension in dimensions:
        if result and result[-1].stride == dimension.size * dimension.stride:
            result[-1] = Dimension(result[-1].size * dimension.size, dimension.stride)
        elif dimension.size > 1 or not result:
            result.append(dimension)
    return tuple(result)


@dataclass(frozen=True)
class _Window:
    """The output pixels `first`, `first + gap`, … along one axis of A that some tap reads."""

    first: int
    gap: int
    count: int


def _window(axes: Sequence[Axis], *, thinned: bool) -> _Window:
    """What the phases read along one axis of theirs; one position if all is padding.

    Args:
        axes: the axis of each phase.
        thinned: whether output pixels that nobody reads may be left out between others.
    """
    read: list[int] = []
    for axis in axes:
        for row in axis.tap_rows:
            # A negative step walks from the last position to the first.
            low, high = (0, axis.extent - 1) if axis.step > 0 else (axis.extent - 1, 0)
            begin = max(0, -((row - low) // axis.step))
            end = min(axis.size - 1, (high - row) // axis.step)
            if begin <= end:
                read += [row + begin * axis.step, row + end * axis.step]
    if not read:
        return _Window(0, 1, 1)
    gap = 1
    if thinned:
        rows = [row for axis in axes for row in axis.tap_rows]
        steps = [axis.step for axis in axes if axis.tap_rows and axis.size > 1]
        gap = gcd(*steps, *(row - rows[0] for row in rows)) or 1
    return _Window(min(read), gap, (max(read) - min(read)) // gap + 1)


def staged_phases(
    phases: Sequence[Phase], channels: int, layout: Channels
) -> tuple[tuple[Phase, ...], tuple[Dimension, ...], int]:
    """The same phases on a dense copy of the pixels of A that they read.

    Args:
        phases: as they read A.
        channels: elements of a position of the copy.
        layout: how A stores them.

    Returns:
        The phases on the copy, the output pixels that it holds, slowest first, and the first one's
        place in A in elements.
    """
    strides = [axis.row_stride for axis in phases[0].axes]
    # Neighbours are read as vectors, all of them.
    windows = [
        _window(axes, thinned=layout.stride == 1 or stride != 1)
        for axes, stride in zip(zip(*(p.axes for p in phases), strict=True), strides, strict=True)
    ]
    dense = [
        channels * prod(w.count for w in windows[place + 1 :]) for place in range(len(windows))
    ]
    moved = tuple(
        replace(
            phase,
            axes=tuple(
                replace(
                    axis,
                    extent=window.count,
                    step=axis.step // window.gap if axis.size > 1 else 1,
                    tap_rows=tuple((row - window.first) // window.gap for row in axis.tap_rows),
                    row_stride=stride,
                )
                for axis, window, stride in zip(phase.axes, windows, dense, strict=True)
            ),
        )
        for phase in phases
    )
    places = list(zip(windows, strides, strict=True))
    dimensions = tuple(Dimension(window.count, stride * window.gap) for window, stride in places)
    return moved, dimensions, sum(window.first * stride for window, stride in places)


@dataclass(frozen=True)
class StageKernel:
    """Writes the kernel that copies one operand."""

    name: str
    """Of the function; its arguments are the addresses of the operand and of the copy."""
    lanes: Lanes
    pixels: tuple[Dimension, ...]
    """Slowest first."""
    channels: int
    """Of all groups."""
    layout: Channels
    offset: int = 0
    """Elements of the operand before the first position."""
    copied_as: StorageType | None = None
    """The type of the copy; the arithmetic's if None."""
    zeros: tuple[int, int] = (0, 0)
    """Elements that are zero in front of the channels of a position of the copy, and behind them;
    only where channels are contiguous in the operand."""

    @property
    def pitch(self) -> int:
        """Bytes of a position of the copy."""
        return (self.channels + sum(self.zeros)) * self.target.bytes

    @property
    def target(self) -> Storage:
        """How the copy is written."""
        return storage_of(self.lanes, self.copied_as or self.lanes.element)

    @property
    def bytes(self) -> int:
        """Size of the copy."""
        return prod(d.size for d in self.pixels) * self.pitch

    @property
    def items(self) -> int:
        """How many items of work there are."""
        *outer, inner = merged(self.pixels)
        runs = -(-inner.size // RUN) * -(-self.channels // RUN)
        return prod(d.size for d in outer) * runs

    def write(self, module: Module) -> None:
        """Add the kernel to `module`."""
        storage = operand_storage(self.lanes, self.layout.type, self.layout.stride)
        if self.copied_as == self.layout.type:
            storage = self.target
        *outer, inner = merged(self.pixels)
        runs, blocks = -(-inner.size // RUN), -(-self.channels // RUN)
        f = Function(self.name, KERNEL_PARAMETERS, external=True)
        args = f.argument("args")
        operand, copy = f.load(PTR, args, 8, "operand"), f.load(PTR, f.offset(args, 8), 8, "copy")
        do = self._run(module, storage, inner)
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            low = f.mul(f.rem(item.index, blocks, "block"), RUN, "low")
            rest = f.div(item.index, blocks, "rest")
            first = f.mul(f.rem(rest, runs, "run"), RUN, "first")
            number = f.div(rest, runs, "outer")
            target = f.element(copy, number, inner.size * self.pitch, "target")
            source = f.offset(operand, self.offset * storage.bytes)
            for dimension in reversed(outer):
                place = f.rem(number, dimension.size, "place")
                number = f.div(number, dimension.size, "left")
                source = f.element(source, place, dimension.stride * storage.bytes, "source")
            last = f.minimum(f.add(first, RUN), inner.size, "last")
            high = f.minimum(f.add(low, RUN), self.channels, "high")
            f.call(do, source, target, first, last, low, high)
        module.add(f)

    def _run(self, module: Module, storage: Storage, inner: Dimension) -> Function:
        """The function that copies the output pixels [`first`, `last`) of the fastest dimension,
        and of each the channels [`low`, `high`)."""
        numbers = ((I64, name) for name in ("first", "last", "low", "high"))
        f = Function(f"{self.name}_run", ((PTR, "source"), (PTR, "target"), *numbers))
        if self.layout.stride == 1:
            self._copied(f, storage, inner)
        elif inner.stride == 1:
            self._transposed(module, f, storage, inner)
        else:
            self._gathered(f, storage, inner)
        return module.add(f)

    def _copied(self, f: Function, storage: Storage, inner: Dimension) -> None:
        """Channels are contiguous: only their type changes, and zeros surround them."""
        lanes, (before, behind) = self.lanes, self.zeros
        with f.loop("position", f.argument("first"), f.argument("last")) as position:
            row = f.element(f.argument("source"), position.index, inner.stride * storage.bytes)
            out = f.element(f.argument("target"), position.index, self.pitch)
            if before:  # By whoever copies the first channels.
                self._zeros(f, out, f.mul(f.argument("low"), before), before)
            out = f.offset(out, before * self.target.bytes)
            if behind:  # By whoever copies the last ones.
                left = f.sub(self.channels, f.argument("high"))
                end = f.offset(out, self.channels * self.target.bytes)
                self._zeros(f, end, f.mul(left, behind), behind)
            for piece in pieces(self.channels, lanes.count):
                with self._channels(f, piece) as channel:
                    source = f.element(row, channel.index, storage.bytes)
                    target = f.element(out, channel.index, self.target.bytes)
                    loaded = storage.load(f, source, piece.active)
                    self.target.store(f, loaded, target, piece.active)

    def _zeros(self, f: Function, line: Value, begin: Value, end: int) -> None:
        """The elements [`begin`, `end`) of `line`."""
        size = self.target.bytes
        with f.loop("zero", begin, end) as element:
            f.store(Value(f"i{8 * size}", "0"), f.element(line, element.index, size), size)

    def _transposed(self, module: Module, f: Function, storage: Storage, inner: Dimension) -> None:
        """Output pixels are contiguous."""
        lanes, own = self.lanes.count, self.target
        first, last = f.argument("first"), f.argument("last")
        strides = (self.layout.stride * storage.bytes, self.channels * own.bytes)
        for out_channels in pieces(self.channels, lanes):
            for rows in pieces(inner.size, lanes):
                joins = 2 * self.channels <= lanes
                square = Square(storage, own, out_channels.active, rows.active, joins=joins)
                do = square.function(module, self.name)
                begin = f.maximum(first, rows.first * lanes, "begin")
                end = f.minimum(last, rows.end * lanes, "end")
                with (
                    f.loop("row", begin, end, lanes) as row,
                    self._channels(f, out_channels) as column,
                ):
                    source = f.element(f.argument("source"), row.index, storage.bytes)
                    source = f.element(source, column.index, strides[0])
                    target = f.element(f.argument("target"), row.index, strides[1])
                    target = f.element(target, column.index, own.bytes)
                    f.call(do, source, target, *strides)

    def _gathered(self, f: Function, storage: Storage, inner: Dimension) -> None:
        """Nothing is a neighbour of anything."""
        size = self.target.bytes
        with (
            f.loop("position", f.argument("first"), f.argument("last")) as position,
            f.loop("channel", f.argument("low"), f.argument("high")) as channel,
        ):
            source = f.element(f.argument("source"), position.index, inner.stride * storage.bytes)
            source = f.element(source, channel.index, self.layout.stride * storage.bytes)
            target = f.element(f.argument("target"), position.index, self.channels * size)
            loaded: Value = storage.load_scalar(f, source)
            self.target.store_scalar(f, loaded, f.element(target, channel.index, size))

    def _channels(self, f: Function, piece: Piece) -> AbstractContextManager[Loop]:
        """A loop over the vectors of `piece` that begin in [`low`, `high`), by first channel."""
        lanes = self.lanes.count
        low = f.maximum(f.argument("low"), piece.first * lanes, "low.channel")
        high = f.minimum(f.argument("high"), piece.end * lanes, "high.channel")
        return f.loop("channel", low, high, lanes)
