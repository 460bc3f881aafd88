"""LLVM IR of pools: windows are reduced along columns first, then along rows.

    for each block of rows of results:
      each row:    vectors of the input's rows that its windows hold ─> one row on the stack
      each row:    vectors of that row, a tap apart ─> results

A window of R x S taken so costs R + S steps a vector instead of R · S. The row on the stack has
what changes nothing before and behind it, so that no window is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import (
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
    vector,
)
from convir.lowering.kernels.host.code.combine import combine, identity
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.scalar_steps import write_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.lowering.kernels.host.pooling.problem import Pool
    from convir.lowering.kernels.host.target import CpuTarget

ENTRY = "pool"
"""The kernel's name; its arguments are the addresses of what is read, and of the result."""

BLOCK_ROWS = 8
BLOCK_BYTES = 16384
"""Of rows on the stack: half of a first cache, and enough that stores are done before loads."""
MAX_STACK = 1 << 18
"""Bytes of a row at most."""
VECTORS = 2
"""That are computed side by side."""
_BYTES = 4


def stack_bytes(pool: Pool, lanes: int) -> int:
    """Of one row of the stack."""
    columns = pool.columns
    padded = columns.low + columns.size + columns.high
    return (padded * pool.inner + (columns.stride + 1) * lanes) * _BYTES


@dataclass(frozen=True)
class PoolKernel:
    """Writes the kernel of a pool for one CPU."""

    pool: Pool
    cpu: CpuTarget
    entry: str = ENTRY

    is_final = True

    @property
    def items(self) -> int:
        """How many items of work there are: blocks of rows of results."""
        return self.pool.planes * self._blocks

    @property
    def ir(self) -> str:
        """LLVM assembly that defines the entry."""
        module = Module()
        module.add(self._entry())
        return module.text()

    @cached_property
    def _lanes(self) -> Lanes:
        return Lanes("f32", self.cpu)

    @cached_property
    def _row(self) -> int:
        """Elements of a row of the stack."""
        return stack_bytes(self.pool, self._lanes.count) // _BYTES

    @cached_property
    def _rows(self) -> int:
        """Of a block."""
        fitting = max(1, BLOCK_BYTES // (self._row * _BYTES))
        return min(self.pool.rows.outputs, BLOCK_ROWS, fitting)

    @property
    def _blocks(self) -> int:
        return -(-self.pool.rows.outputs // self._rows)

    def _entry(self) -> Function:
        f, pool = Function(self.entry, KERNEL_PARAMETERS, external=True), self.pool
        pointers = [
            f.load(PTR, f.offset(f.argument("args"), POINTER_BYTES * i), POINTER_BYTES, "array")
            for i in range(2 + len(pool.tables))
        ]
        neutral = identity(pool.combiner, self._lanes.type)
        rows = f.stack(self._rows * self._row * _BYTES, LINE_BYTES, "rows")
        self._fill(f, rows, self._rows * self._row, neutral)
        outside = rows
        line = pool.columns.size * pool.inner
        if pool.rows.low or pool.rows.high:
            outside = f.stack((line + self._lanes.count) * _BYTES, LINE_BYTES, "outside")
            self._fill(f, outside, line + self._lanes.count, neutral)
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            plane = f.div(item.index, self._blocks, "plane")
            first = f.mul(f.rem(item.index, self._blocks), self._rows, "first")
            count = f.minimum(self._rows, f.sub(pool.rows.outputs, first), "count")
            with f.loop("down", 0, count, runs=True) as row:
                number = f.add(first, row.index)
                self._down(
                    f,
                    pointers[0],
                    outside,
                    plane,
                    number,
                    f.element(rows, row.index, self._row * _BYTES),
                )
            with f.loop("across", 0, count, runs=True) as row:
                number = f.add(f.mul(plane, pool.rows.outputs), f.add(first, row.index), "number")
                places = [f.element(pointers[-1], number, self._result * _BYTES)]
                for table, pointer in zip(pool.tables, pointers[1:-1], strict=True):
                    where = number if table.plane else f.add(first, row.index)
                    places.append(f.element(pointer, where, self._result * _BYTES))
                self._across(f, f.element(rows, row.index, self._row * _BYTES), places)
        return f

    @property
    def _result(self) -> int:
        """Elements of a row of results."""
        return self.pool.columns.outputs * self.pool.inner

    def _fill(self, f: Function, where: Value, count: int, neutral: Value) -> None:
        """Write what changes nothing to whole vectors of `count` elements."""
        last = count - self._lanes.count
        with f.loop("fill", 0, last, self._lanes.count) as at:
            self._lanes.store(f, neutral, f.element(where, at.index, _BYTES), self._lanes.count)
        self._lanes.store(f, neutral, f.offset(where, last * _BYTES), self._lanes.count)

    def _down(
        self, f: Function, source: Value, outside: Value, plane: Value, number: Value, row: Value
    ) -> None:
        """One row of the stack: those of the input that a row of windows holds, combined."""
        pool, windows = self.pool, self.pool.rows
        line = pool.columns.size * pool.inner
        begin = f.element(source, f.mul(plane, windows.size * line), _BYTES, "begin")
        taps: list[Value] = []
        for tap in range(windows.taps):
            place = f.add(f.mul(number, windows.stride), tap * windows.dilation - windows.low)
            address = f.element(begin, place, line * _BYTES, "line")
            if windows.low or windows.high:
                above, below = f.compare("sge", place, 0), f.compare("slt", place, windows.size)
                inside = f.emit("i1", "inside", f"and {above}, {below.text}")
                address = f.select(inside, address, outside, "line")
            taps.append(address)
        target = f.offset(row, pool.columns.low * pool.inner * _BYTES)

        def write(at: Value | int, active: int) -> None:
            found = [self._lanes.load(f, f.element(tap, at, _BYTES), active) for tap in taps]
            total = self._combined(f, found)
            self._lanes.store(f, total, f.element(target, at, _BYTES), active)

        self._vectors(f, line, write)

    def _across(self, f: Function, row: Value, places: Sequence[Value]) -> None:
        """One row of results: elements of a row of the stack, a tap apart, combined."""
        pool, windows = self.pool, self.pool.columns
        step = windows.dilation * pool.inner

        def finish(at: Value | int, active: int, found: Sequence[Value]) -> None:
            total = self._combined(f, found)
            if pool.steps:
                tables = [
                    self._lanes.load(f, f.element(place, at, _BYTES), active)
                    for place in places[1:]
                ]
                total = write_steps(f, self._lanes, pool.steps, total, tables)[-1]
            self._lanes.store(f, total, f.element(places[0], at, _BYTES), active)

        def taps(begin: Value | int) -> list[Value]:
            """Whole vectors: behind a row there is room for them."""
            if windows.stride > 1 and pool.inner == 1:
                return self._picked(f, row, begin)
            places = [f.add(begin, tap * step) for tap in range(windows.taps)]
            addresses = [f.element(row, place, _BYTES) for place in places]
            return [self._lanes.load(f, address, self._lanes.count) for address in addresses]

        if windows.stride == 1 or pool.inner == 1:
            self._vectors(
                f,
                self._result,
                lambda at, active: finish(at, active, taps(f.mul(at, windows.stride))),
            )
            return
        with f.loop("column", 0, windows.outputs, runs=True) as column:
            skipped = f.mul(column.index, windows.stride * pool.inner, "skipped")
            result = f.mul(column.index, pool.inner, "result")
            self._vectors(
                f,
                pool.inner,
                lambda at, active: finish(f.add(result, at), active, taps(f.add(skipped, at))),
            )

    def _picked(self, f: Function, row: Value, begin: Value | int) -> list[Value]:
        """Of each tap every stride-th element of as many vectors, which taps share."""
        windows, count = self.pool.columns, self._lanes.count
        kind = vector(self._lanes.scalar, windows.stride * count)
        loaded: dict[int, Value] = {}
        found: list[Value] = []
        for tap in range(windows.taps):
            vectors, lane = divmod(tap * windows.dilation, windows.stride)
            if vectors not in loaded:
                place = f.element(row, f.add(begin, vectors * windows.stride), _BYTES)
                loaded[vectors] = f.load(kind, place, _BYTES, "apart")
            picked = range(lane, windows.stride * count, windows.stride)
            found.append(f.shuffle(loaded[vectors], loaded[vectors], picked, "picked"))
        return found

    def _combined(self, f: Function, values: Sequence[Value]) -> Value:
        """All of some values, pairwise."""
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            combined = [combine(f, self.pool.combiner, a, b) for a, b in pairs]
            values = [*combined, *values[len(combined) * 2 :]]
        return values[0]

    def _vectors(self, f: Function, count: int, write: Callable[[Value | int, int], None]) -> None:
        """All vectors of a row of `count` elements; the last one may be a part."""
        lanes = self._lanes.count
        together = VECTORS * lanes
        main = count // together * together
        if main:
            with f.loop("vectors", 0, main, together, runs=True) as at:
                for i in range(VECTORS):
                    write(f.add(at.index, i * lanes), lanes)
        for at in range(main, count, lanes):
            write(at, min(lanes, count - at))
