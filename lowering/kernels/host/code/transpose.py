"""Square matrices transposed in registers, by exchanging blocks of doubling size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.host.code.builder import Module, Value
    from convir.lowering.kernels.host.code.elements.storage import Storage


def transpose(f: Function, rows: Sequence[Value]) -> list[Value]:
    """The columns of the matrix whose rows are vectors; as many rows as lanes, a power of two."""
    lanes = len(rows)
    matrix = list(rows)
    distance = 1
    while distance < lanes:
        near = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        far = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        for row in range(lanes):
            if row & distance:
                continue
            above, below = matrix[row], matrix[row + distance]
            matrix[row] = f.shuffle(above, below, near, "near")
            matrix[row + distance] = f.shuffle(above, below, far, "far")
        distance *= 2
    return matrix


@dataclass(frozen=True)
class Piece:
    """Vectors of a dimension that have the same number of active lanes."""

    first: int
    """The first vector."""
    end: int
    """The vector after the last."""
    active: int
    """Lanes that hold elements."""


def pieces(count: int, lanes: int) -> list[Piece]:
    """A dimension of `count` elements: its whole vectors, and the one that is left."""
    whole, rest = divmod(count, lanes)
    both = (Piece(0, whole, lanes), Piece(whole, whole + 1, rest))
    return [piece for piece in both if piece.first < piece.end and piece.active]


@dataclass(frozen=True)
class Square:
    """A block of a matrix that is read along one dimension and written along the other."""

    source: Storage
    target: Storage
    lines: int
    """Lines that are read, at most as many as lanes."""
    elements: int
    """Elements of each, at most as many as lanes."""
    fills: bool = False
    """Whether lines are written whole, with zeros for the lines that were not read."""
    joins: bool = False
    """Whether lines are written behind each other, fewer elements each than a vector has."""

    def function(self, module: Module, name: str) -> Function:
        """The function that transposes the block at `source` to `target`, lines `source_stride`
        and `target_stride` bytes apart: one of a module for all strides, `name_LINESxELEMENTS`."""
        name = f"{name}_{self.lines}x{self.elements}{'_joined' if self.joins else ''}"
        return module.function(name) or module.add(self._written(name))

    def _written(self, name: str) -> Function:
        lanes = self.source.lanes
        ends = ((f"{PTR} noalias", "source"), (f"{PTR} noalias", "target"))
        f = Function(name, (*ends, (I64, "source_stride"), (I64, "target_stride")))
        source, target = f.argument("source"), f.argument("target")
        source_stride, target_stride = f.argument("source_stride"), f.argument("target_stride")
        loaded = [
            self.source.load_raw(f, f.offset(source, f.mul(source_stride, line)), self.elements)
            if line < self.lines
            else zero(self.source.raw_type)
            for line in range(lanes.count)
        ]
        if self.joins:
            self._join(f, loaded[: self.lines], target)
            return f
        active = lanes.count if self.fills else self.lines
        for element, line in enumerate(transpose(f, loaded)[: self.elements]):
            place = f.offset(target, f.mul(target_stride, element))
            self._store(f, line, place, active)
        return f

    def _join(self, f: Function, loaded: Sequence[Value], target: Value) -> None:
        """Write the elements of each place of all lines that were read, then those of the next."""
        lanes, count = self.source.lanes.count, self.lines * self.elements
        for begin in range(0, count, lanes):
            places = [divmod(min(begin + lane, count - 1), self.lines) for lane in range(lanes)]
            joined = f.shuffle(loaded[0], loaded[0], [element for element, _ in places], "joined")
            for number, line in enumerate(loaded[1:], 1):
                picked = [
                    lanes + element if own == number else lane
                    for lane, (element, own) in enumerate(places)
                ]
                joined = f.shuffle(joined, line, picked, "joined")
            place = f.offset(target, begin * self.target.bytes)
            self._store(f, joined, place, min(lanes, count - begin))

    def _store(self, f: Function, line: Value, place: Value, active: int) -> None:
        if self.source == self.target:
            self.target.store_raw(f, line, place, active)
        else:
            self.target.store(f, self.source.widen(f, line), place, active)
