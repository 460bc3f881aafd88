"""Weights in the order in which the microkernel reads them: `[group][tap][panel][depth][column]`.

Inside a phase the order is `[panel][tap][depth][column of the panel]`, columns past the last one
filled with zeros up to a whole vector. Constant weights are packed once; others by one launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import I64, PTR, Function, Module, Value, zero
from convir.lowering.llvm.contraction.row_kernel import KERNEL_PARAMETERS
from convir.lowering.llvm.contraction.tiles import BroadcastTile

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.blocking import Blocking
    from convir.lowering.llvm.contraction.builder import Operand
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.contraction.spec import HostContraction
    from convir.lowering.llvm.contraction.tiles import Tile

ENTRY = "pack"
"""The kernel's name."""


@dataclass(frozen=True)
class PackKernel:
    """Writes the kernel that packs the weights of one contraction."""

    spec: HostContraction
    lanes: Lanes
    cuts: Blocking

    @property
    def items(self) -> int:
        """How many items of work there are: one per group and tap."""
        return self.spec.groups * self.spec.taps

    @property
    def packed_bytes(self) -> int:
        """The size of the packed weights."""
        return self.items * self.cuts.tap_elements * self.lanes.bytes

    def write(self, module: Module) -> None:
        """Add the function `pack` to `module`; its arguments are the addresses of B and of the
        packed weights."""
        module.add(self._entry(module.table("packed_taps", self._taps() or [0])))

    def _taps(self) -> list[int]:
        """For each tap of each phase: its offset in B, its offset and its phase's panel stride in
        the packed weights of a group; all in bytes."""
        size, cuts = self.lanes.bytes, self.cuts
        numbers: list[int] = []
        before = 0
        for phase in self.spec.phases:
            weights = [sum(tap) for tap in product(*(axis.tap_weights for axis in phase.axes))]
            for number, weight in enumerate(weights):
                start = before * cuts.tap_elements
                numbers += [weight * size, start * size, number, phase.taps]
            before += phase.taps
        return numbers

    def _entry(self, taps: Value) -> Function:
        spec, cuts, size = self.spec, self.cuts, self.lanes.bytes
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        args = f.argument("args")
        b = f.load(PTR, args, 8, "b")
        packed = f.load(PTR, f.offset(args, 8), 8, "packed")
        group_bytes = spec.taps * cuts.tap_elements * size
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            group = f.div(item.index, spec.taps, "group")
            line = f.element(taps, f.rem(item.index, spec.taps), 4 * 8, "tap")
            weight, start, number, phase_taps = (
                f.load(I64, f.offset(line, 8 * i), 8, name)
                for i, name in enumerate(("weight", "start", "number", "taps"))
            )
            source = f.offset(b, f.mul(group, spec.weight_group_stride * size), "b.group")
            source = f.offset(source, weight, "b.tap")
            target = f.offset(packed, f.mul(group, group_bytes), "packed.group")
            target = f.offset(target, start, "packed.phase")
            # All full panels, then the last one, which may be narrower.
            with f.loop("panel", 0, cuts.panels - 1) as panel:
                at = (target, phase_taps, number)
                self._panel(f, source, at, panel.index, cuts.tile, cuts.panel_columns)
            at = (target, phase_taps, number)
            last = cuts.panels - 1
            self._panel(f, source, at, last, cuts.last_tile, cuts.last_columns)
        return f

    def _panel(
        self,
        f: Function,
        source: Value,
        place: tuple[Value, Value, Value],
        panel: Operand,
        tile: Tile,
        columns: int,
    ) -> None:
        """Pack one tap of one panel: `place` is the phase's start, its taps, and the tap."""
        spec, size, cuts = self.spec, self.lanes.bytes, self.cuts
        target, taps, tap = place
        before = f.mul(panel, f.mul(taps, cuts.panel_elements * size))
        elements = tile.panel_elements(spec.depth, self.lanes.count)
        target = f.offset(target, f.add(before, f.mul(tap, elements * size)), "packed")
        column_bytes = spec.weight_column_stride * size
        source = f.offset(source, f.mul(panel, cuts.panel_columns * column_bytes), "b.panel")
        if isinstance(tile, BroadcastTile):
            width = tile.columns(self.lanes.count)
            self._rows(
                f,
                source,
                target,
                (spec.depth, spec.weight_depth_stride),
                (columns, spec.weight_column_stride, width),
            )
            return
        # [depth vector][column][lane]: each depth vector is a small matrix of its own.
        lanes = self.lanes.count
        whole, rest = divmod(spec.depth, lanes)
        column = (columns, spec.weight_column_stride)
        with f.loop("block", 0, whole) as block:
            first = f.element(source, block.index, lanes * spec.weight_depth_stride * size)
            out = f.element(target, block.index, lanes * columns * size)
            self._rows(f, first, out, column, (lanes, spec.weight_depth_stride, lanes))
        if rest:
            first = f.offset(source, whole * lanes * spec.weight_depth_stride * size)
            out = f.offset(target, whole * lanes * columns * size)
            self._rows(f, first, out, column, (rest, spec.weight_depth_stride, lanes))

    def _rows(
        self,
        f: Function,
        source: Value,
        target: Value,
        slow: tuple[int, int],
        fast: tuple[int, int, int],
    ) -> None:
        """Copy a matrix: `slow` is (count, stride), `fast` is (count, stride, padded count)."""
        lanes, size = self.lanes, self.lanes.bytes
        count, stride, width = fast
        with f.loop("line", 0, slow[0], runs=True) as line:
            source_row = f.element(source, line.index, slow[1] * size)
            target_row = f.element(target, line.index, width * size)
            if stride == 1:
                for start in range(0, width, lanes.count):
                    loaded = lanes.load(f, f.offset(source_row, start * size), count - start)
                    f.store(loaded, f.offset(target_row, start * size), size)
                return
            with f.loop("element", 0, count, runs=True) as element:
                loaded = f.load(
                    lanes.scalar, f.element(source_row, element.index, stride * size), size
                )
                f.store(loaded, f.element(target_row, element.index, size), size)
            with f.loop("filler", count, width) as filler:
                f.store(zero(lanes.scalar), f.element(target_row, filler.index, size), size)
