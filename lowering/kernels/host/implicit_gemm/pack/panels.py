"""Weights in the order in which the microkernel reads them.

The order is `[group][phase][panel][tap]`, and then `[in_channels][column of the panel]` for
broadcast tiles, `[in_channels vector][column][lane]` for dot tiles; what fills up the last vector
is zero. Constant weights are packed once; others by one launch before the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Module, Value, zero
from convir.lowering.kernels.host.code.elements.halves import split_vectors
from convir.lowering.kernels.host.code.elements.pairs import operand_storage
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.tiles import BroadcastTile, DotTile, GroupTile
from convir.lowering.kernels.host.code.transpose import Square, pieces
from convir.lowering.kernels.host.implicit_gemm.pack.taps import DEPTHS, TapPacking

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.code.tiles import Tile
    from convir.lowering.kernels.host.implicit_gemm.blocking import Panels

ENTRY = "pack"
"""The kernel's name; its arguments are the addresses of B and of the packed weights."""

_LINE = ("weight", "start", "number", "taps")
"""Of each tap: byte in B, byte of its phase in the packed group, its number and count there."""


@dataclass(frozen=True)
class PackKernel:
    """Writes the kernel that packs the weights of one contraction."""

    spec: Contraction
    lanes: Lanes
    cuts: Panels

    @property
    def storage(self) -> Storage:
        """How B is read."""
        b = self.spec.b
        return operand_storage(self.lanes, b.type, b.in_channel_stride)

    @property
    def items(self) -> int:
        """How many items of work there are: one per group, tap and panel, unless the taps are
        packed together."""
        matrices = self.spec.taps if self._taps is None else self._taps.blocks
        return self.cuts.groups * matrices * self.cuts.panels

    @property
    def packed_bytes(self) -> int:
        """The size of the packed weights."""
        return self.cuts.groups * self.spec.taps * self.cuts.tap_elements * self.lanes.bytes

    @property
    def _taps(self) -> TapPacking | None:
        return TapPacking.of(self.spec, self.lanes, self.cuts)

    def write(self, module: Module) -> None:
        """Add the function `pack` to `module`."""
        cuts, spec, size = self.cuts, self.spec, self.lanes.bytes
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        args = f.argument("args")
        b, packed = f.load(PTR, args, 8, "b"), f.load(PTR, f.offset(args, 8), 8, "packed")
        together = self._taps
        per_group = max(1, spec.taps if together is None else together.blocks)
        stride = cuts.panel_out_channels * spec.b.out_channel_stride
        if isinstance(cuts.tile, GroupTile):
            stride = cuts.panel_out_channels // spec.out_channels * spec.b.group_stride
        # Loaded, not constants: divisors that differ would keep modules apart.
        counts = module.table("pack_counts", (cuts.panels, per_group))
        panels = f.load(I64, counts, 8, "panels")
        matrices = f.load(I64, f.offset(counts, 8), 8, "matrices")
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            panel = f.rem(item.index, panels, "panel")
            matrix = f.div(item.index, panels, "matrix")
            number = f.rem(matrix, matrices, "number")
            group = f.div(matrix, matrices, "group")
            source = f.element(b, group, spec.b.group_stride * self.storage.bytes, "b.group")
            source = f.element(source, panel, stride * self.storage.bytes, "b.panel")
            target = f.element(packed, group, spec.taps * cuts.tap_elements * size, "packed.group")
            shapes = [(cuts.last_tile, cuts.last_out_channels, "eq")]
            if cuts.panels > 1:
                shapes.append((cuts.tile, cuts.panel_out_channels, "ne"))
            if together is not None:
                self._write_taps(module, f, together, shapes, (source, target, panel, number))
            else:
                self._write_panels(module, f, shapes, (source, target, panel, number))
        module.add(f)

    def _write_taps(
        self,
        module: Module,
        f: Function,
        packing: TapPacking,
        shapes: list[tuple[Tile, int, str]],
        item: tuple[Value, Value, Value, Value],
    ) -> None:
        """All taps of some input channels."""
        source, target, panel, block = item
        source = f.offset(source, min(packing.taps) * self.storage.bytes, "b.tap")
        first = f.mul(block, DEPTHS, "first")
        last = f.minimum(f.add(first, DEPTHS), self.spec.in_channels, "last")
        for tile, out_channels, test in shapes:
            if not isinstance(tile, BroadcastTile):
                continue
            label = "last" if test == "eq" else "full"
            copy = packing.write(module, tile, out_channels, label)
            with f.when(f.compare(test, panel, self.cuts.panels - 1), label):
                f.call(copy, source, target, panel, first, last)

    def _write_panels(
        self,
        module: Module,
        f: Function,
        shapes: list[tuple[Tile, int, str]],
        item: tuple[Value, Value, Value, Value],
    ) -> None:
        """All input channels of one tap."""
        source, target, panel, number = item
        spec, size = self.spec, self.lanes.bytes
        taps = module.table("packed_taps", self._lines() or [0])
        line = f.element(taps, number, len(_LINE) * 8, "line")
        weight, start, number, count = (
            f.load(I64, f.offset(line, 8 * place), 8, name) for place, name in enumerate(_LINE)
        )
        source = f.offset(source, weight, "b.tap")
        target = f.offset(target, start, "packed.phase")
        target = f.element(target, f.mul(panel, count), self.cuts.panel_elements * size)
        for tile, out_channels, test in shapes:
            label = "last" if test == "eq" else "full"
            copy = module.add(self._panel(module, tile, out_channels, label))
            with f.when(f.compare(test, panel, self.cuts.panels - 1), label):
                tap_bytes = tile.panel_elements(spec.in_channels, self.lanes.count) * size
                f.call(copy, source, f.element(target, number, tap_bytes, "packed.tap"))

    def _lines(self) -> list[int]:
        size = self.lanes.bytes
        numbers: list[int] = []
        before = 0
        for phase in self.spec.phases:
            start = before * self.cuts.tap_elements * size
            for number, tap in enumerate(product(*(axis.tap_weights for axis in phase.axes))):
                numbers += [sum(tap) * self.storage.bytes, start, number, phase.taps]
            before += phase.taps
        return numbers

    def _panel(self, module: Module, tile: Tile, out_channels: int, label: str) -> Function:
        """The function that packs one tap of one panel."""
        spec = self.spec
        f = Function(f"pack_{label}", ((PTR, "source"), (PTR, "target")))
        in_channels = Extent(spec.in_channels, spec.b.in_channel_stride)
        column = Extent(out_channels, spec.b.out_channel_stride)
        source, target = f.argument("source"), f.argument("target")
        if isinstance(tile, GroupTile):
            self._group_panel(f, tile, out_channels // spec.out_channels)
        elif isinstance(tile, DotTile):
            self._dot_panel(f, source, target, column, in_channels)
        elif in_channels.stride == 1 and column.stride != 1:
            self._transposed(module, f, tile, column)
        else:
            self._copy(f, source, target, in_channels, column, tile.out_channels(self.lanes.count))
        return f

    def _group_panel(self, f: Function, tile: GroupTile, groups: int) -> None:
        """Zeros first: columns of `groups` groups rarely fill all lanes."""
        spec, storage, lanes = self.spec, self.storage, self.lanes
        source, target = f.argument("source"), f.argument("target")
        elements = tile.panel_elements(spec.in_channels, lanes.count)
        with f.loop("blank", 0, elements, lanes.count, runs=True) as blank:
            place = f.element(target, blank.index, lanes.bytes)
            f.store(zero(lanes.type), place, lanes.bytes)
        together = tile.groups_per_vector(lanes.count)
        split = split_vectors(lanes, tile, groups) * lanes.count
        if split:
            with f.loop("split", 0, split, runs=True) as group:
                at = f.element(source, group.index, spec.b.group_stride * storage.bytes)
                both, within = (
                    f.div(group.index, 2 * lanes.count),
                    f.rem(group.index, 2 * lanes.count),
                )
                place = f.add(f.mul(both, 2), f.rem(within, 2), "vector")
                place = f.add(f.mul(place, lanes.count), f.div(within, 2), "place")
                loaded = storage.load_scalar(f, at)
                f.store(loaded, f.element(target, place, lanes.bytes), lanes.bytes)
        with (
            f.loop("group", split, groups, runs=split == 0) as group,
            f.loop("in_channels", 0, spec.in_channels, runs=True) as in_channels,
            f.loop("column", 0, spec.out_channels, runs=True) as column,
        ):
            at = f.element(source, group.index, spec.b.group_stride * storage.bytes)
            at = f.element(at, in_channels.index, spec.b.in_channel_stride * storage.bytes)
            at = f.element(at, column.index, spec.b.out_channel_stride * storage.bytes)
            vector = f.add(f.mul(in_channels.index, tile.vectors), f.div(group.index, together))
            lane = f.add(f.mul(f.rem(group.index, together), spec.out_channels), column.index)
            place = f.add(f.mul(vector, lanes.count), lane, "place")
            loaded = storage.load_scalar(f, at)
            f.store(loaded, f.element(target, place, lanes.bytes), lanes.bytes)

    def _dot_panel(
        self, f: Function, source: Value, target: Value, column: Extent, in_channels: Extent
    ) -> None:
        lanes, size = self.lanes.count, self.lanes.bytes
        whole, rest = divmod(in_channels.count, lanes)
        vector_bytes = lanes * in_channels.stride * self.storage.bytes
        block_bytes = lanes * column.count * size
        with f.loop("block", 0, whole) as block:
            first = f.element(source, block.index, vector_bytes)
            out = f.element(target, block.index, block_bytes)
            self._copy(f, first, out, column, Extent(lanes, in_channels.stride), lanes)
        if rest:
            first = f.offset(source, whole * vector_bytes)
            out = f.offset(target, whole * block_bytes)
            self._copy(f, first, out, column, Extent(rest, in_channels.stride), lanes)

    def _copy(
        self, f: Function, source: Value, target: Value, slow: Extent, fast: Extent, width: int
    ) -> None:
        """Copy a matrix to lines of `width` elements, filled up with zeros."""
        lanes, size, storage = self.lanes, self.lanes.bytes, self.storage
        with f.loop("line", 0, slow.count, runs=True) as line:
            source_row = f.element(source, line.index, slow.stride * storage.bytes)
            target_row = f.element(target, line.index, width * size)
            if fast.stride == 1:
                for start in range(0, width, lanes.count):
                    at = f.offset(source_row, start * storage.bytes)
                    loaded = storage.load(f, at, fast.count - start)
                    f.store(loaded, f.offset(target_row, start * size), size)
                return
            with f.loop("element", 0, fast.count, runs=True) as element:
                at = f.element(source_row, element.index, fast.stride * storage.bytes)
                loaded = storage.load_scalar(f, at)
                f.store(loaded, f.element(target_row, element.index, size), size)
            with f.loop("filler", fast.count, width) as filler:
                f.store(zero(lanes.scalar), f.element(target_row, filler.index, size), size)

    def _transposed(self, module: Module, f: Function, tile: BroadcastTile, column: Extent) -> None:
        """Input channels are contiguous in B and columns in the panel: squares are transposed."""
        lanes, size = self.lanes.count, self.lanes.bytes
        own = Storage(self.lanes, self.lanes.element)
        strides = (column.stride * self.storage.bytes, tile.out_channels(lanes) * size)
        for out_channels in pieces(column.count, lanes):
            for in_channels_ in pieces(self.spec.in_channels, lanes):
                square = Square(
                    self.storage, own, out_channels.active, in_channels_.active, fills=True
                )
                do = square.function(module, ENTRY)
                with (
                    f.loop("out_channels", out_channels.first, out_channels.end, runs=True) as c,
                    f.loop("in_channels_", in_channels_.first, in_channels_.end, runs=True) as d,
                ):
                    source = f.element(f.argument("source"), c.index, lanes * strides[0])
                    target = f.element(f.argument("target"), c.index, lanes * size)
                    source = f.element(source, d.index, lanes * self.storage.bytes)
                    target = f.element(target, d.index, lanes * strides[1])
                    f.call(do, source, target, *strides)


@dataclass(frozen=True)
class Extent:
    """One dimension of a matrix in memory."""

    count: int
    stride: int
    """Elements between two neighbours."""
