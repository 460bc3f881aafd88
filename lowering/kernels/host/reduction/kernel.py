"""LLVM IR of passes over rows.

Along rows, an item is a row: vectors run along it, several of them with an accumulator each, which
are combined at its end. Across rows, an item is a block of neighbouring rows: each lane of a vector
is a row, and nothing is combined but accumulators of the same lane.

    for each item:
      for each pass:    for each step of the innermost axis:  vectors ─> accumulators, stores
                        accumulators ─> what is one number a row

Sums in f32 are of at most `CHUNK` numbers in a row; what they come to is added up in f64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.program import Load
from convir.lowering.kernels.host.code.builder import (
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
)
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.reduction.row_code import RowCode
from convir.lowering.kernels.host.reduction.slots import Slots

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import RowProgram
    from convir.lowering.kernels.host.target import CpuTarget

ENTRY = "rows"
"""The kernel's name; its arguments are the addresses of what is read, and of the results."""

COLUMN_VECTORS = 8
"""Vectors of neighbouring rows of an item: enough of each memory page and cache line."""


@dataclass(frozen=True)
class RowKernel:
    """Writes the kernel of a program for one CPU."""

    program: RowProgram
    cpu: CpuTarget
    entry: str = ENTRY

    is_final = True

    @property
    def items(self) -> int:
        """How many items of work there are: rows, or blocks of them."""
        return prod(self._counted) * self._blocks

    @property
    def ir(self) -> str:
        """LLVM assembly that defines the entry."""
        module = Module()
        self.write(module)
        return module.text()

    def write(self, module: Module) -> None:
        """Add the entry to `module`."""
        module.add(self._entry())

    @cached_property
    def _lanes(self) -> Lanes:
        return Lanes(self.program.element, self.cpu)

    @cached_property
    def _counted(self) -> tuple[int, ...]:
        """The sizes of the axes that items are counted by."""
        axes = zip(self.program.sizes, self.program.reduced, strict=True)
        counted = [size for size, reduced in axes if not reduced]
        return tuple(counted if self.program.along_rows else counted[:-1])

    @property
    def _block_lanes(self) -> int:
        """Rows of a block across rows."""
        inner, count = self.program.sizes[-1], self._lanes.count
        vectors = -(-inner // count)
        blocks = -(-vectors // COLUMN_VECTORS)
        return -(-vectors // blocks) * count

    @property
    def _blocks(self) -> int:
        return 1 if self.program.along_rows else -(-self.program.sizes[-1] // self._block_lanes)

    def _entry(self) -> Function:
        f = Function(self.entry, KERNEL_PARAMETERS, external=True)
        program = self.program
        sources = sorted({n.source.index for n in program.nodes if isinstance(n, Load)})
        names = [
            *(("load", i) for i in sources),
            *(("store", i) for i in range(len(program.stores))),
        ]
        pointers = {
            name: f.load(
                PTR, f.offset(f.argument("args"), POINTER_BYTES * slot), POINTER_BYTES, "array"
            )
            for slot, name in enumerate(names)
        }
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            number = f.div(item.index, self._blocks, "number")
            block = f.rem(item.index, self._blocks, "block")
            indices = self._indices(f, number)
            if program.along_rows:
                self._write(f, pointers, indices, self._slots(program.sizes[-1]))
            else:
                self._columns(f, pointers, indices, block)
        return f

    def _columns(
        self,
        f: Function,
        pointers: dict[tuple[str, int], Value],
        indices: list[Value],
        block: Value,
    ) -> None:
        """A block of neighbouring rows; the last one may be shorter than the others."""
        first = f.mul(block, self._block_lanes, "first")
        last = self.program.sizes[-1] - (self._blocks - 1) * self._block_lanes
        if self._blocks == 1 or last == self._block_lanes:
            self._write(f, pointers, [*indices, first], self._slots(last))
            return
        is_last = f.compare("eq", block, self._blocks - 1)
        with f.when(is_last, "last"):
            self._write(f, pointers, [*indices, first], self._slots(last))
        with f.when(f.emit("i1", "whole", f"xor {is_last}, true"), "whole"):
            self._write(f, pointers, [*indices, first], self._slots(self._block_lanes))

    def _slots(self, length: int) -> Slots:
        return Slots(self.program, self._lanes.count, length)

    def _indices(self, f: Function, number: Value) -> list[Value]:
        """Along each of the axes that items are counted by."""
        found: list[Value] = []
        for size in reversed(self._counted[1:]):
            found.append(f.rem(number, size, "index"))
            number = f.div(number, size, "rest")
        return [*([number] if self._counted else []), *reversed(found)]

    def _write(
        self,
        f: Function,
        pointers: dict[tuple[str, int], Value],
        indices: list[Value],
        slots: Slots,
    ) -> None:
        RowCode(f, self._lanes, self.program, slots, pointers, indices).write()
