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

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.blocking import Blocking
    from convir.lowering.llvm.contraction.builder import Operand
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.contraction.spec import HostContraction

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
        return self.items * self.spec.depth * self.cuts.packed_columns * self.lanes.bytes

    def write(self, module: Module) -> None:
        """Add the function `pack` to `module`; its arguments are the addresses of B and of the
        packed weights."""
        module.add(self._entry(module.table("packed_taps", self._taps() or [0])))

    def _taps(self) -> list[int]:
        """For each tap of each phase: its offset in B, its offset and its phase's panel stride in
        the packed weights of a group; all in bytes."""
        size, cuts, depth = self.lanes.bytes, self.cuts, self.spec.depth
        numbers: list[int] = []
        before = 0
        for phase in self.spec.phases:
            weights = [sum(tap) for tap in product(*(axis.tap_weights for axis in phase.axes))]
            for number, weight in enumerate(weights):
                start = before * cuts.packed_columns * depth
                numbers += [weight * size, start * size, number, phase.taps]
            before += phase.taps
        return numbers

    def _entry(self, taps: Value) -> Function:
        spec, cuts, size = self.spec, self.cuts, self.lanes.bytes
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        args = f.argument("args")
        b = f.load(PTR, args, 8, "b")
        packed = f.load(PTR, f.offset(args, 8), 8, "packed")
        group_bytes = spec.taps * spec.depth * cuts.packed_columns * size
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
                self._panel(f, source, at, panel.index, cuts.panel_columns)
            self._panel(f, source, (target, phase_taps, number), cuts.panels - 1, cuts.last_columns)
        return f

    def _panel(
        self,
        f: Function,
        source: Value,
        place: tuple[Value, Value, Value],
        panel: Operand,
        columns: int,
    ) -> None:
        """Pack one tap of one panel: `place` is the phase's start, its taps, and the tap."""
        spec, lanes, full = self.spec, self.lanes, self.cuts.panel_columns
        size = lanes.bytes
        width = -(-columns // lanes.count) * lanes.count
        target, taps, tap = place
        before = f.mul(panel, f.mul(taps, spec.depth * full * size))
        target = f.offset(target, f.add(before, f.mul(tap, spec.depth * width * size)), "packed")
        column_bytes = spec.weight_column_stride * size
        source = f.offset(source, f.mul(panel, full * column_bytes), "b.panel")
        with f.loop("depth", 0, spec.depth, runs=True) as depth:
            source_row = f.element(source, depth.index, spec.weight_depth_stride * size)
            target_row = f.element(target, depth.index, width * size)
            if spec.weight_column_stride == 1:
                for start in range(0, width, lanes.count):
                    loaded = lanes.load(f, f.offset(source_row, start * size), columns - start)
                    f.store(loaded, f.offset(target_row, start * size), size)
                return
            with f.loop("column", 0, columns, runs=True) as column:
                at = f.element(source_row, column.index, column_bytes)
                loaded = f.load(lanes.scalar, at, size)
                f.store(loaded, f.element(target_row, column.index, size), size)
            with f.loop("filler", columns, width) as filler:
                f.store(zero(lanes.scalar), f.element(target_row, filler.index, size), size)
