"""Depthwise convolutions of channels last: a line of results at a time.

for item:                         a line of results, of some panels of channels
  list the lines of A that its taps along the other axes meet, and which taps these are
  for tile of pixels:
    for panel of channels:        one or two vectors: results in registers
      for listed line:            each pixel of A is loaded, and widened, once for all its taps
      store: epilogue, type

A line outside of A is not listed, so that no zeros are multiplied; a pixel outside of a line is
read from zeros, by code of its own for the tiles at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import (
    I1,
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
    zero,
)
from convir.lowering.kernels.host.code.elements.halves import (
    in_order,
    load_by_parity,
    split_vectors,
)
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.code.entry import CONTRACT, KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.fused_store import FusedStore
from convir.lowering.kernels.host.traffic import operand_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.host.code.builder import Operand
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.code.tiles import Tile
    from convir.lowering.kernels.host.depthwise_channels_last.blocking import ChannelsLastCuts

_ENTRY_BYTES = 2 * POINTER_BYTES
"""Of a listed line: its address, and which of the taps along the other axes reads it."""


@dataclass(frozen=True)
class ChannelsLastKernel:
    """Writes the kernel of one depthwise convolution for one CPU."""

    spec: Contraction
    lanes: Lanes
    cuts: ChannelsLastCuts
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
        return self.cuts.lines * self.cuts.parts

    @property
    def _outer(self) -> tuple[Axis, ...]:
        return self.spec.phases[0].axes[:-1]

    @property
    def _line_axis(self) -> Axis:
        return self.spec.phases[0].axes[-1]

    @property
    def _outer_taps(self) -> int:
        return self.spec.phases[0].taps // len(self._line_axis.tap_rows)

    def write(self, module: Module) -> None:
        """Add the function `contract` to `module`.

        Its arguments are the addresses of A, of the packed weights, of C, and of the operands of
        the epilogue.
        """
        panels, count = self.cuts.panels, self.lanes.count
        zeros = module.zeros("zeros", 2 * count * self.lanes.bytes, LINE_BYTES)
        last = module.add(
            self._tile("tile_last", panels.last_tile, panels.last_out_channels, zeros)
        )
        full = last
        if panels.panels > 1:
            full = module.add(self._tile("tile", panels.tile, panels.panel_out_channels, zeros))
        lister = module.add(self._lister(module))
        module.add(self._entry(lister, full, last))

    def _lister(self, module: Module) -> Function:
        """List the lines of A that meet the line of results at output pixels `at0`, `at1`, …"""
        f = Function(
            "list_lines",
            (
                (PTR, "a"),
                (f"{PTR} noalias", "lines"),
                (f"{PTR} noalias", "count"),
                *((I64, f"at{n}") for n in range(len(self._outer))),
            ),
        )
        size = STORAGE_BYTES[self.spec.a.type]
        tables = [module.table(f"tap_rows{n}", axis.tap_rows) for n, axis in enumerate(self._outer)]
        f.store(0, f.argument("count"), POINTER_BYTES)

        def visit(number: int, line: Value, tap: Operand) -> None:
            if number == len(self._outer):
                count = f.load(I64, f.argument("count"), POINTER_BYTES, "listed")
                entry = f.element(f.argument("lines"), count, _ENTRY_BYTES, "own.line")
                f.store(line, entry, POINTER_BYTES)
                f.store(tap, f.offset(entry, POINTER_BYTES), POINTER_BYTES)
                f.store(f.add(count, 1), f.argument("count"), POINTER_BYTES)
                return
            axis, table = self._outer[number], tables[number]
            with f.loop(f"tap{number}", 0, len(axis.tap_rows), runs=True) as own:
                row = f.load(I64, f.element(table, own.index, 8), 8, "row")
                row = f.add(f.mul(f.argument(f"at{number}"), axis.step), row, "row")
                with f.when(f.compare("ult", row, axis.extent), "inside"):
                    of_row = f.element(line, row, axis.row_stride * size, "line")
                    visit(number + 1, of_row, f.add(f.mul(tap, len(axis.tap_rows)), own.index))

        visit(0, f.argument("a"), 0)
        return f

    def _tile(self, name: str, tile: Tile, channels: int, zeros: Value) -> Function:
        """The results from output pixel `pixel` of a line on, of the `channels` channels of one
        panel."""
        fused, axis, pixels = self.fused, self._line_axis, self.cuts.pixels
        f = Function(
            name,
            (
                (f"{PTR} noalias", "lines"),
                (I64, "count"),
                (f"{PTR} noalias", "weights"),
                (I64, "channel"),
                (I64, "pixel"),
                (PTR, "out"),
                *(fused.parameters if fused is not None else ()),
            ),
        )
        pixel = f.argument("pixel")
        first = f.add(f.mul(pixel, axis.step), min(axis.tap_rows), "first")
        inside = f.compare("sge", first, 0)
        for end, limit in (
            (f.add(first, self.cuts.span), axis.extent),
            (f.add(pixel, pixels), axis.size),
        ):
            reaches = f.compare("sle", end, limit)
            inside = f.emit(I1, "inside", f"and {inside}, {reaches.text}")
        if self._asks:
            # Whether it pays is a number: the code of another batch differs in numbers alone.
            far = operand_bytes(self.spec) > self.lanes.cpu.l2_bytes
            pays = f.emit(I64, "pays", f"add i64 0, {int(far)}")
            with f.when(f.compare("ne", pays, 0), "asking"):
                self._ask(f, channels, first)
        with f.when(inside, "whole"):
            self._sums(f, tile, channels, (pixel, first), None)
        with f.when(f.emit(I1, "outside", f"xor {inside}, true"), "end"):
            self._sums(f, tile, channels, (pixel, first), zeros)
        return f

    @property
    def _asks(self) -> bool:
        """Whether tiles may ask for the pixels of the next one: a panel has a part of a cache line
        of each, and those of a line follow each other."""
        line, spec = self._line_axis, self.spec
        panel_bytes = self.cuts.panels.panel_out_channels * STORAGE_BYTES[spec.c.type]
        dense = line.row_stride == line.out_stride == spec.groups
        return dense and panel_bytes < LINE_BYTES

    def _ask(self, f: Function, channels: int, first: Value) -> None:
        """Ask for a share of what the next tile reads of lines that none read before, and of its
        results.

        Args:
            f: the function.
            channels: of the panel, whose share this is.
            first: the first pixel of A of this tile.
        """
        axis, pixels, channel = self._line_axis, self.cuts.pixels, f.argument("channel")
        size, c_size = STORAGE_BYTES[self.spec.a.type], STORAGE_BYTES[self.spec.c.type]
        share = pixels * axis.step * size
        place = f.mul(f.add(first, self.cuts.span), axis.row_stride * size)
        place = f.add(place, f.mul(channel, share), "next.pixels")
        new = min((min(outer.step, len(outer.tap_rows)) for outer in self._outer[-1:]), default=1)
        for number in range(new):
            newest = f.maximum(f.sub(f.argument("count"), 1 + number), 0, "newest")
            entry = f.element(f.argument("lines"), newest, _ENTRY_BYTES, "newest.line")
            begin = f.load(PTR, entry, POINTER_BYTES, "begin")
            for at in range(0, channels * share, LINE_BYTES):
                f.prefetch(f.offset(begin, f.add(place, at)), level=2)
        place = f.mul(f.add(f.argument("pixel"), pixels), axis.out_stride * c_size)
        place = f.add(place, f.mul(channel, (pixels - 1) * c_size), "next.results")
        for at in range(0, channels * pixels * c_size, LINE_BYTES):
            f.prefetch(f.offset(f.argument("out"), f.add(place, at)), writes=True)

    def _sums(
        self,
        f: Function,
        tile: Tile,
        channels: int,
        begins: tuple[Value, Value],
        zeros: Value | None,
    ) -> None:
        """Some results of a line.

        Args:
            f: the function.
            tile: the vectors of a panel.
            channels: of the panel.
            begins: the first output pixel, and the first pixel of A.
            zeros: what stands for pixels outside of A, where there may be any, and results behind
                the line; None if there are none.
        """
        axis, lanes, pixels = self._line_axis, self.lanes, self.cuts.pixels
        pixel, first = begins
        size = STORAGE_BYTES[self.spec.a.type]
        stride = axis.row_stride * size
        vectors = tile.out_channels(lanes.count) // lanes.count
        split = split_vectors(lanes, tile, channels)
        tap_bytes = vectors * lanes.count * lanes.bytes
        nothing = [zero(lanes.type)] * (pixels * vectors)
        with f.loop("line", 0, f.argument("count"), carried=nothing) as line:
            entry = f.element(f.argument("lines"), line.index, _ENTRY_BYTES, "own.line")
            begin = f.load(PTR, entry, POINTER_BYTES, "begin")
            begin = f.element(f.element(begin, f.argument("channel"), size), first, stride)
            tap = f.load(I64, f.offset(entry, POINTER_BYTES), POINTER_BYTES, "tap")
            panel = f.element(
                f.argument("weights"), tap, len(axis.tap_rows) * tap_bytes, "weights.of.line"
            )
            weights = [
                f.load(lanes.type, f.offset(panel, at), lanes.bytes, "weight")
                for at in range(0, len(axis.tap_rows) * tap_bytes, lanes.count * lanes.bytes)
            ]
            sums = list(line.carried)
            for place, readers in enumerate(self._readers):
                if not readers:
                    continue
                address = f.offset(begin, place * stride)
                if zeros is not None:
                    inside = f.compare("ult", f.add(first, place), axis.extent)
                    address = f.select(inside, address, zeros, "inside.or.zeros")
                for v, x in enumerate(self._loaded(f, address, vectors, channels, split)):
                    for number, result in readers:
                        at, weight = result * vectors + v, weights[number * vectors + v]
                        sums[at] = lanes.multiply_add(f, x, weight, sums[at])
            line.carry(*sums)
        left = f.sub(axis.size, pixel, "left")
        for number in range(pixels):
            totals = list(line.results[number * vectors : (number + 1) * vectors])
            for v in range(0, split, 2):
                totals[v : v + 2] = in_order(f, lanes, totals[v], totals[v + 1])
            if zeros is None:
                self._store(f, totals, f.add(pixel, number), channels)
            else:
                with f.when(f.compare("slt", number, left), "result"):
                    self._store(f, totals, f.add(pixel, number), channels)

    @cached_property
    def _readers(self) -> list[list[tuple[int, int]]]:
        """For each pixel of A that a tile reads along a line: its taps there, and whose result they
        are added to."""
        axis = self._line_axis
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.cuts.span)]
        for result in range(self.cuts.pixels):
            for number, row in enumerate(axis.tap_rows):
                found[result * axis.step + row - min(axis.tap_rows)].append((number, result))
        return found

    def _loaded(
        self, f: Function, address: Value, vectors: int, channels: int, split: int
    ) -> list[Value]:
        """The channels of a pixel, in the type of the arithmetic."""
        lanes, size = self.lanes, STORAGE_BYTES[self.spec.a.type]
        found: list[Value] = []
        for v in range(0, split, 2):
            found += load_by_parity(f, lanes, f.offset(address, v * lanes.count * size))
        for v in range(split, vectors):
            active = min(lanes.count, channels - v * lanes.count)
            found.append(lanes.load_row(f, f.offset(address, v * lanes.count * size), active))
        return found

    def _store(self, f: Function, totals: Sequence[Value], pixel: Value, channels: int) -> None:
        """The result at one output pixel."""
        lanes, fused = self.lanes, self.fused
        storage = Storage(lanes, self.spec.c.type) if fused is None else fused.storage
        row = f.element(f.argument("out"), pixel, self._line_axis.out_stride * storage.bytes, "row")
        for v, total in enumerate(totals):
            place = f.offset(row, v * lanes.count * storage.bytes)
            active = min(lanes.count, channels - v * lanes.count)
            if fused is not None:
                channel = f.add(f.argument("channel"), v * lanes.count)
                total = fused.of_channels(f, total, channel, active, fused.behind(f, place))
            storage.store(f, total, place, active)

    def _entry(self, lister: Function, full: Function, last: Function) -> Function:
        spec, cuts, fused, panels = self.spec, self.cuts, self.fused, self.cuts.panels
        (phase,) = spec.phases
        f = Function(CONTRACT, KERNEL_PARAMETERS, external=True)
        lines = f.stack(self._outer_taps * _ENTRY_BYTES, LINE_BYTES, "lines")
        listed = f.stack(POINTER_BYTES, POINTER_BYTES, "listed")
        args = f.argument("args")
        a, b, c = (
            f.load(PTR, f.offset(args, POINTER_BYTES * i), POINTER_BYTES, name)
            for i, name in enumerate("abc")
        )
        beside = [] if fused is None else fused.of_launch(f, c)
        c_size = STORAGE_BYTES[spec.c.type]
        panel_bytes = phase.taps * panels.panel_elements * self.lanes.bytes
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            part = f.rem(item.index, cuts.parts, "part")
            number = f.div(item.index, cuts.parts, "number")
            out = f.element(c, phase.out_offset, c_size, "out")
            places: list[Value] = []
            for axis in reversed(self._outer):
                at = f.rem(number, axis.size, "at")
                number = f.div(number, axis.size)
                out = f.element(out, at, axis.out_stride * c_size, "out")
                places.insert(0, at)
            f.call(lister, a, lines, listed, *places)
            count = f.load(I64, listed, POINTER_BYTES, "count")
            first = f.div(f.mul(part, panels.panels), cuts.parts, "first")
            end = f.div(f.mul(f.add(part, 1), panels.panels), cuts.parts, "end")

            with f.loop("pixel", 0, self._line_axis.size, cuts.pixels, runs=True) as pixel:

                def tile(
                    function: Function,
                    panel: Operand,
                    out: Value = out,
                    count: Value = count,
                    pixel: Value = pixel.index,
                ) -> None:
                    channel = f.mul(panel, panels.panel_out_channels, "channel")
                    here = f.element(out, channel, c_size, "out.channel")
                    weights = f.element(b, panel, panel_bytes, "weights")
                    f.call(function, lines, count, weights, channel, pixel, here, *beside)

                with f.loop("panel", first, f.minimum(end, panels.panels - 1)) as panel:
                    tile(full, panel.index)
                with f.when(f.compare("eq", end, panels.panels), "last"):
                    tile(last, panels.panels - 1)
        return f
