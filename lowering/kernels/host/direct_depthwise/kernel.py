"""Depthwise convolutions on planes: every channel is an image of its own, pixels are contiguous.

for item:                      a block of rows of one result plane
  for line of the block:       copy the row of A, or zeros, to scratch memory between zeros
  for some rows:
    for some vectors:          ask for what comes next, if it is far
                               sum up over all taps, in registers, and store

Vectors hold adjacent pixels; one that several rows read is loaded once for all of them. Scratch
memory stays in the first-level cache and holds the padding, so that no load is masked; at step 2 it
holds even and odd columns apart, so that every tap reads neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    PTR,
    Function,
    Module,
    Value,
    zero,
)
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.code.entry import CONTRACT, KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.fused_store import FusedStore
from convir.lowering.kernels.host.direct_depthwise.predict import TAP_CYCLES
from convir.lowering.kernels.host.traffic import operand_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

MAX_TAPS = 64
"""Taps are written out, one load and one multiply-add each."""

MAX_COLUMNS = 64
"""Result planes of one image, as far as was measured: each copies its rows again."""

MAX_STEP = 2
"""Columns of a wider step would have to be picked one by one."""

VECTORS = 4
"""Vectors of accumulators at a time: as many independent chains as hide a multiply-add's
latency."""

MAX_ROWS = 4
"""Rows of accumulators at a time: with more of them code grows, and loads hardly get fewer."""

TEMPORARIES = 2
"""Vector registers for weights, beside accumulators and the pixels of one row."""

SCRATCH_PART = 2
"""Of the first-level cache, for the lines of a block: results and what is copied need the rest."""

SCRATCH_BYTES = 32 * 1024
"""Lines of a block whose rows would otherwise be few for those that it copies again."""

FEW_AGAIN = 4
"""Times as many lines of a block are new as are copied again: blocks of wide lines have more rows
than fit a part of the cache then."""

MAX_SCRATCH_BYTES = 128 * 1024
"""Lines of one row that is spread over so many rows of A that they leave the cache."""

FAR = 2
"""Times what a core finds in the last cache: of less, most is found there, and comes in time."""

MIN_ITEMS = 16
"""With fewer items than this, threads would wait for each other."""


@dataclass(frozen=True)
class PlaneCuts:
    """How one plane is cut, and where its columns lie in scratch memory."""

    first_column: int
    """The column of A that the first tap of output column 0 reads; may be negative."""
    out_channels: range
    """Of A, those that are copied."""
    part_elements: int
    """Elements of a line that hold the columns of one residue of the step."""
    first_line: int
    """The row of A that the first tap of output row 0 reads; may be negative."""
    span: int
    """Rows of A from the first tap's to the last one's."""
    rows: int
    """Output rows of a block."""
    lines: int
    """Rows of A that a block reads."""
    blocks: int
    """Of a plane."""
    line_bytes: int


def cut_planes(spec: Contraction, lanes: Lanes) -> PlaneCuts | None:
    """The cuts of `spec`; None if it is not a depthwise convolution of floats on planes."""
    if spec.element == "i32":
        return None
    if spec.result != "C" or spec.accumulate or len(spec.phases) != 1 or spec.in_channels != 1:
        return None
    (phase,) = spec.phases
    if len(phase.axes) < 2 or spec.out_channels > MAX_COLUMNS or not 1 <= phase.taps <= MAX_TAPS:
        return None
    *outer, y, x = phase.axes
    if x.row_stride != 1 or x.out_stride != 1 or x.step > MAX_STEP or x.size < lanes.count // 2:
        return None
    if not all(_is_inside(axis) for axis in outer):
        return None
    first = min(x.tap_rows)
    reach = max(x.tap_rows) - first + (x.size - 1) * x.step + 1
    out_channels = range(max(first, 0), min(first + reach, x.extent))
    if not out_channels:
        return None
    vectors = -(-x.size // lanes.count)
    # Behind what is read there is room for a vector that a copy ends with.
    part = ((max(x.tap_rows) - first) // x.step // lanes.count + 1 + vectors + 1) * lanes.count
    line_bytes = part * x.step * lanes.bytes
    span = max(y.tap_rows) - min(y.tap_rows) + 1
    if span * line_bytes > MAX_SCRATCH_BYTES:
        return None
    planes = spec.groups * spec.out_channels * prod(axis.size for axis in outer)

    def most_rows(nbytes: int) -> int:
        return max(1, (nbytes // line_bytes - span) // y.step + 1)

    few_again = -(-FEW_AGAIN * max(span - y.step, 0) // y.step)
    rows = most_rows(lanes.cpu.l1_bytes // SCRATCH_PART)
    rows = max(rows, min(few_again, most_rows(SCRATCH_BYTES)))
    rows = min(rows, y.size, -(-y.size * planes // MIN_ITEMS))
    blocks = -(-y.size // rows)
    rows = -(-y.size // blocks)  # as many of each block
    return PlaneCuts(
        first_column=first,
        out_channels=out_channels,
        part_elements=part,
        first_line=min(y.tap_rows),
        span=span,
        rows=rows,
        lines=(rows - 1) * y.step + span,
        blocks=blocks,
        line_bytes=line_bytes,
    )


def _is_inside(axis: Axis) -> bool:
    """Whether an axis has one tap, which never reads padding."""
    if len(axis.tap_rows) != 1:
        return False
    (first,) = axis.tap_rows
    return first >= 0 and first + (axis.size - 1) * axis.step < axis.extent


@dataclass(frozen=True)
class PlaneKernel:
    """Writes the kernel of one depthwise convolution for one CPU."""

    spec: Contraction
    lanes: Lanes
    cuts: PlaneCuts
    epilogue: FusedEpilogue | None = None

    @cached_property
    def fused(self) -> FusedStore | None:
        """What writes the epilogue, if there is one."""
        if self.epilogue is None:
            return None
        return FusedStore(self.lanes, self.spec, self.epilogue)

    @property
    def items(self) -> int:
        """How many items of work there are."""
        outer = prod(axis.size for axis in self._outer)
        return self.cuts.blocks * self.spec.out_channels * self.spec.groups * outer

    @property
    def _outer(self) -> tuple[Axis, ...]:
        return self.spec.phases[0].axes[:-2]

    @property
    def _y(self) -> Axis:
        return self.spec.phases[0].axes[-2]

    @property
    def _x(self) -> Axis:
        return self.spec.phases[0].axes[-1]

    def write(self, module: Module) -> None:
        """Add the function `contract` to `module`.

        Its arguments are the addresses of A, of B, of C, and of the operands of the epilogue.
        """
        copy, clear = module.add(self._copy()), module.add(self._clear())
        module.add(self._entry(module.add(self._block(copy, clear)), clear))

    def _copy(self) -> Function:
        """One row of A to a line; elements past the last column are zeros."""
        f = Function("copy_line", ((f"{PTR} noalias", "source"), (f"{PTR} noalias", "target")))
        cuts, storage, lanes = self.cuts, Storage(self.lanes, self.spec.a.type), self.lanes
        step, first = self._x.step, cuts.out_channels.start - cuts.first_column
        source = f.offset(f.argument("source"), cuts.out_channels.start * storage.bytes)
        # Column `first` of the line and those a step behind it, then the ones between.
        starts = [
            ((first + n) % step * cuts.part_elements + (first + n) // step) * lanes.bytes
            for n in range(step)
        ]
        whole, rest = divmod(len(cuts.out_channels), step * lanes.count)

        def move(column: Value | int, place: Value | int, count: int) -> None:
            at = f.element(source, column, storage.bytes)
            for start, raw in zip(starts, self._split(f, storage, at, count), strict=True):
                line = f.offset(f.argument("target"), start)
                target = f.element(line, place, lanes.bytes)
                lanes.store(f, storage.widen(f, raw), target, lanes.count)

        with f.loop("vector", 0, whole) as vector:
            first_column = f.mul(vector.index, step * lanes.count)
            move(first_column, f.mul(vector.index, lanes.count), step * lanes.count)
        if rest:
            move(whole * step * lanes.count, whole * lanes.count, rest)
        return f

    def _split(self, f: Function, storage: Storage, at: Value, count: int) -> Sequence[Value]:
        """The first `count` elements at `at`, by residue of the step, as they lie in memory."""
        lanes = self.lanes.count
        raw = [
            storage.load_raw(f, f.offset(at, n * lanes * storage.bytes), min(lanes, left))
            if (left := count - n * lanes) > 0
            else zero(storage.raw_type)
            for n in range(self._x.step)
        ]
        if len(raw) == 1:
            return raw
        return [
            f.shuffle(raw[0], raw[1], range(residue, 2 * lanes, 2), "apart") for residue in (0, 1)
        ]

    def _clear(self) -> Function:
        """Zeros to a line."""
        f = Function("clear_line", ((PTR, "target"),))
        with f.loop("vector", 0, self.cuts.line_bytes, self.lanes.count * self.lanes.bytes) as at:
            place = f.offset(f.argument("target"), at.index)
            self.lanes.store(f, zero(self.lanes.type), place, self.lanes.count)
        return f

    def _block(self, copy: Function, clear: Function) -> Function:
        """Some rows of one plane, from its image at `a`, into the plane at `c`."""
        fused, cuts, y, x = self.fused, self.cuts, self._y, self._x
        f = Function(
            "block",
            (
                (PTR, "a"),
                (PTR, "weights"),
                (f"{PTR} noalias", "c"),
                (f"{PTR} noalias", "scratch"),
                (I64, "first"),
                (I64, "count"),
                *(fused.parameters if fused is not None else ()),
            ),
        )
        size, out_size = STORAGE_BYTES[self.spec.a.type], STORAGE_BYTES[self.spec.c.type]
        scratch, first, count = (f.argument(name) for name in ("scratch", "first", "count"))
        top = f.add(f.mul(first, y.step), cuts.first_line, "top")
        lines = f.add(f.mul(f.sub(count, 1), y.step), cuts.span, "lines")
        with f.loop("line", 0, lines, runs=True) as line:
            target = f.element(scratch, line.index, cuts.line_bytes, "target")
            row = f.add(top, line.index, "row")
            inside = f.compare("ult", row, y.extent)
            with f.when(inside, "inside"):
                f.call(copy, f.element(f.argument("a"), row, y.row_stride * size), target)
            with f.when(f.emit("i1", "outside", f"xor {inside}, true"), "padding"):
                f.call(clear, target)
        taps = self._taps(f)
        step = VECTORS * self.lanes.count
        rest = x.size % step
        # Whether it pays is a number: the code of another batch differs in numbers alone.
        far = operand_bytes(self.spec) > FAR * self.lanes.cpu.l3_bytes
        pays = f.compare("ne", f.emit(I64, "pays", f"add i64 0, {int(far)}"), 0)
        below = f.minimum(f.add(top, lines), y.extent, "below")
        below = f.element(f.argument("a"), below, y.row_stride * size, "below")

        def write(start: Value | int, stop: Value, rows: int) -> None:
            with f.loop("row", start, stop, rows) as row:
                line = f.element(scratch, row.index, y.step * cuts.line_bytes, "line")
                out = f.element(f.argument("c"), f.add(first, row.index), y.out_stride * out_size)
                asked = f.offset(below, f.mul(row.index, x.size * self._asked_bytes), "asked")

                def some(column: Value | int, count: int) -> None:
                    if self._asks:
                        with f.when(pays, "asking"):
                            self._ask(f, (asked, out), column, count, rows)
                    self._sums(f, taps, line, out, column, count, rows)

                with f.loop("out_channels", 0, x.size - rest, step) as column:
                    some(column.index, step)
                if rest:
                    some(x.size - rest, rest)

        together = self._rows_together
        whole = f.sub(count, f.rem(count, together), "whole")
        write(0, whole, together)
        if together > 1 and any(n % together for n in (cuts.rows, y.size % cuts.rows)):
            write(whole, count, 1)
        return f

    @property
    def _rows_together(self) -> int:
        """Rows whose sums are in registers at a time: those with which a block reads the fewest
        lines."""
        vectors = min(VECTORS, -(-self._x.size // self.lanes.count))
        most = (self.lanes.cpu.vector_registers - TEMPORARIES) // vectors - 1
        rows, span, step = self.cuts.rows, self.cuts.span, self._y.step

        def lines(together: int) -> int:
            groups, rest = divmod(rows, together)
            return groups * min(together * span, (together - 1) * step + span) + rest * span

        return min(range(1, max(1, min(most, MAX_ROWS, rows)) + 1), key=lines)

    def _taps(self, f: Function) -> list[tuple[int, Value]]:
        """For each tap where its elements lie in a line, in bytes, and its weight in all lanes."""
        cuts, size = self.cuts, self.lanes.bytes
        storage = Storage(self.lanes, self.spec.b.type)
        before = sum(axis.tap_weights[0] for axis in self._outer)
        found: list[tuple[int, Value]] = []
        pairs = [list(zip(a.tap_rows, a.tap_weights, strict=True)) for a in (self._y, self._x)]
        for (row, row_weight), (column, column_weight) in product(*pairs):
            place, residue = divmod(column - cuts.first_column, self._x.step)
            at = (row - cuts.first_line) * cuts.line_bytes
            at += (residue * cuts.part_elements + place) * size
            offset = (before + row_weight + column_weight) * storage.bytes
            weight = storage.load_scalar(f, f.offset(f.argument("weights"), offset))
            found.append((at, f.splat(weight, self.lanes.count, "weight")))
        return found

    @property
    def _asks(self) -> bool:
        """Whether rows may ask for what comes next: those of a single vector leave time enough."""
        return self._x.size > self.lanes.count

    @property
    def _asked_bytes(self) -> int:
        """Bytes of A that are asked for with each result: as many as the next block reads for it,
        unless memory delivers fewer while it is summed up. What is asked for beyond that waits in
        the way of what is needed."""
        if self.spec.out_channels > 1:
            return 0
        cpu, taps = self.lanes.cpu, self.spec.phases[0].taps
        delivered = taps * TAP_CYCLES / self.lanes.count * cpu.dram_rate / cpu.clock_mhz
        read = self._x.step * self._y.step * STORAGE_BYTES[self.spec.a.type]
        return min(read, round(delivered))

    def _ask(
        self, f: Function, places: tuple[Value, Value], column: Value | int, count: int, rows: int
    ) -> None:
        """Ask for what the next rows of results are stored to, and for a share of the lines that
        the next block copies, from its first line on.

        Args:
            f: the function.
            places: what these rows ask for of A, from the first column, and their first result.
            column: the first one.
            count: of columns.
            rows: how many rows are summed up together.
        """
        asked, out = places
        size = STORAGE_BYTES[self.spec.c.type]
        here = f.element(out, column, size)
        for row in range(rows, 2 * rows):
            for at in range(0, count * size, LINE_BYTES):
                next_row = f.offset(here, row * self._y.out_stride * size + at, "next.row")
                f.prefetch(next_row, writes=True)
        here = f.element(asked, column, rows * self._asked_bytes)
        for at in range(0, rows * count * self._asked_bytes, LINE_BYTES):
            f.prefetch(f.offset(here, at, "next.lines"), level=2)

    def _sums(
        self,
        f: Function,
        taps: Sequence[tuple[int, Value]],
        line: Value,
        out: Value,
        column: Value | int,
        count: int,
        rows: int,
    ) -> None:
        """`count` columns of some rows, at most `VECTORS` vectors of each."""
        lanes, storage = self.lanes, Storage(self.lanes, self.spec.c.type)
        if self.fused is not None:
            storage = self.fused.storage
        parts = [min(lanes.count, count - start) for start in range(0, count, lanes.count)]
        sums = [[zero(lanes.type)] * len(parts) for _ in range(rows)]
        here = f.element(line, column, lanes.bytes, "here")
        readers: dict[int, list[tuple[int, Value]]] = {}
        for row in range(rows):
            for at, weight in taps:
                place = row * self._y.step * self.cuts.line_bytes + at
                readers.setdefault(place, []).append((row, weight))
        for at, found in sorted(readers.items(), key=itemgetter(0)):
            for v in range(len(parts)):
                place = f.offset(here, at + v * lanes.count * lanes.bytes)
                pixels = f.load(lanes.type, place, lanes.bytes, "pixels")
                for row, weight in found:
                    sums[row][v] = lanes.multiply_add(f, pixels, weight, sums[row][v])
        for row, totals in enumerate(sums):
            out_row = f.offset(out, row * self._y.out_stride * storage.bytes)
            place = f.element(out_row, column, storage.bytes, "place")
            for v, (total, active) in enumerate(zip(totals, parts, strict=True)):
                target = f.offset(place, v * lanes.count * storage.bytes)
                if self.fused is not None:
                    total = self.fused.of_positions(f, total, 0, active, target)
                storage.store(f, total, target, active)

    def _entry(self, block: Function, clear: Function) -> Function:
        spec, cuts, fused = self.spec, self.cuts, self.fused
        (phase,) = spec.phases
        f = Function(CONTRACT, KERNEL_PARAMETERS, external=True)
        scratch = f.stack(cuts.lines * cuts.line_bytes, LINE_BYTES, "scratch")
        args = f.argument("args")
        a, b, c = (f.load(PTR, f.offset(args, 8 * i), 8, name) for i, name in enumerate("abc"))
        beside = [] if fused is None else fused.of_launch(f, c)
        # Columns that no copy writes are padding.
        with f.loop("scratch.line", 0, cuts.lines, runs=True) as line:
            f.call(clear, f.element(scratch, line.index, cuts.line_bytes))
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            part = f.rem(item.index, cuts.blocks, "part")
            plane = f.div(item.index, cuts.blocks, "plane")
            column = f.rem(plane, spec.out_channels, "column")
            plane = f.div(plane, spec.out_channels)
            group = f.rem(plane, spec.groups, "group")
            number = f.div(plane, spec.groups, "number")
            reads = f.mul(group, spec.a.group_stride)
            writes = f.add(f.mul(group, spec.c.group_stride), f.mul(column, spec.c.stride))
            writes = f.add(writes, phase.out_offset)
            for place, axis in reversed(tuple(enumerate(self._outer))):
                # What is left is the outermost number, e.g. of an image: no size of it is in code.
                at = f.rem(number, axis.size, "at") if place else number
                number = f.div(number, axis.size) if place else number
                read = f.add(f.mul(at, axis.step), axis.tap_rows[0])
                reads = f.add(reads, f.mul(read, axis.row_stride), "reads")
                writes = f.add(writes, f.mul(at, axis.out_stride), "writes")
            weight = f.add(
                f.mul(group, spec.b.group_stride),
                f.mul(column, spec.b.out_channel_stride),
                "weight",
            )
            channel = f.add(f.mul(group, spec.out_channels), column, "channel")
            first = f.mul(part, cuts.rows, "first")
            count = f.minimum(f.sub(self._y.size, first), cuts.rows, "count")
            f.call(
                block,
                f.element(a, reads, STORAGE_BYTES[spec.a.type]),
                f.element(b, weight, STORAGE_BYTES[spec.b.type]),
                f.element(c, writes, STORAGE_BYTES[spec.c.type]),
                scratch,
                first,
                count,
                *(fused.moved(f, beside, channel) if fused is not None else ()),
            )
        return f
