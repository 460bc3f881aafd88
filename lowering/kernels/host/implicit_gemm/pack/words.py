"""Weights of rows whose taps follow each other, as words of neighbours along the reduction.

The order is `[group][panel][phase][word][column]`: the words of a phase are its taps' channels
behind each other, two bf16 or four bytes each, then zeros. A table says where each element of a
word lies in B.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import (
    I1,
    I64,
    LINE_BYTES,
    PTR,
    Function,
    Module,
    Value,
)
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.implicit_gemm.pack.panels import ENTRY

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction

WORD_BYTES = 4
_NOTHING = -1
"""Stands in the table for an element that is zero."""


@dataclass(frozen=True)
class WordPacking:
    """Writes the kernel that packs the weights of one contraction."""

    spec: Contraction
    words: tuple[int, ...]
    """Of each phase."""
    panels: int
    columns: int
    """Of a panel."""
    last_columns: int
    """Of the last panel, those included that are zeros."""
    together: int = 1
    """Groups that are packed as one, with zeros where a channel and a column are of different
    groups."""

    @property
    def items(self) -> int:
        """How many items of work there are: panels of groups."""
        return self.spec.groups // self.together * self.panels

    @property
    def panel_bytes(self) -> int:
        """Bytes of a packed panel, but for the last one."""
        return sum(self.words) * self.columns * WORD_BYTES

    @property
    def group_bytes(self) -> int:
        """Bytes of all panels of a group."""
        last = sum(self.words) * self.last_columns * WORD_BYTES
        return (self.panels - 1) * self.panel_bytes + last

    @property
    def packed_bytes(self) -> int:
        """The size of the packed weights."""
        return self.spec.groups // self.together * self.group_bytes

    @property
    def _elements(self) -> int:
        """Of a word."""
        return WORD_BYTES // STORAGE_BYTES[self.spec.b.type]

    def _offsets(self) -> list[int]:
        """For each element of a packed column the element of B, from its group and column on."""
        b, found = self.spec.b, list[int]()
        for phase, words in zip(self.spec.phases, self.words, strict=True):
            end = len(found) + words * self._elements
            if phase.taps:
                for tap in product(*(axis.tap_weights for axis in phase.axes)):
                    for channel in range(self.together * self.spec.in_channels):
                        within = channel % self.spec.in_channels
                        found.append(sum(tap) + within * b.in_channel_stride)
            found += [_NOTHING] * (end - len(found))
        return found

    def _members(self) -> list[int]:
        """For each of these elements the group that its channel belongs to, of those together."""
        of_tap = [c // self.spec.in_channels for c in range(self.together * self.spec.in_channels)]
        found: list[int] = []
        for phase, words in zip(self.spec.phases, self.words, strict=True):
            of_phase = of_tap * phase.taps
            found += [*of_phase, *([0] * (words * self._elements - len(of_phase)))]
        return found

    def write(self, module: Module) -> None:
        """Add the function `pack` to `module`."""
        spec, b = self.spec, self.spec.b
        size = STORAGE_BYTES[b.type]
        table = module.table("packed_elements", self._offsets() or [0])
        members = (
            module.table("packed_members", self._members() or [0]) if self.together > 1 else table
        )
        nothing = module.zeros("no_weight", LINE_BYTES, LINE_BYTES)
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        args = f.argument("args")
        source, packed = f.load(PTR, args, 8, "b"), f.load(PTR, f.offset(args, 8), 8, "packed")
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            panel = f.rem(item.index, self.panels, "panel")
            group = f.div(item.index, self.panels, "group")
            of_group = f.element(source, group, self.together * b.group_stride * size, "b.group")
            target = f.element(packed, group, self.group_bytes, "packed.group")
            target = f.element(target, panel, self.panel_bytes, "packed.panel")
            first = f.mul(panel, self.columns, "first.column")
            is_last = f.compare("eq", panel, self.panels - 1)
            columns = f.select(is_last, self.last_columns, self.columns, "columns")
            with (
                f.loop("word", 0, sum(self.words)) as word,
                f.loop("column", 0, columns, runs=True) as column,
            ):
                number = f.add(first, column.index, "number")
                exists = f.compare("slt", number, self.together * spec.out_channels)
                of_column = f.element(of_group, number, b.out_channel_stride * size, "b.column")
                own = Value(I64, "0")
                if self.together > 1:
                    own = f.div(number, spec.out_channels, "column.group")
                    within = f.rem(number, spec.out_channels, "column.within")
                    of_column = f.element(of_group, own, b.group_stride * size)
                    of_column = f.element(of_column, within, b.out_channel_stride * size)
                place = f.add(f.mul(word.index, columns), column.index)
                out = f.element(target, place, WORD_BYTES, "word.column")
                for part in range(self._elements):
                    place = f.add(f.mul(word.index, self._elements), part)
                    offset = f.load(I64, f.element(table, place, 8), 8, "element")
                    there = f.compare("sge", offset, 0)
                    there = f.emit(I1, "there", f"and {there}, {exists.text}")
                    if self.together > 1:
                        member = f.load(I64, f.element(members, place, 8), 8, "member")
                        same = f.compare("eq", member, own)
                        there = f.emit(I1, "there", f"and {there}, {same.text}")
                    at = f.select(there, f.element(of_column, offset, size), nothing, "from")
                    weight = f.load(f"i{8 * size}", at, size, "weight")
                    f.store(weight, f.offset(out, part * size), size)
        module.add(f)
