"""Which output pixels and which panels of weights an item of work has.

There are at least as many items as keep some threads busy. A thread that takes all items which
belong together computes them as one, so that weights are read no more often than one thread needs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from convir.lowering.kernels.host.code.builder import I1, Function, Value, value

if TYPE_CHECKING:
    from collections.abc import Generator

    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking


class Item(NamedTuple):
    """What is computed at once."""

    group: Value
    chunk: Value
    """The first piece of the output pixels."""
    end_chunk: Value
    """The piece behind the last one."""
    first_panel: Value
    last_panel: Value
    """The panel behind the last one."""


@contextmanager
def each_item(f: Function, cuts: Blocking) -> Generator[Item]:
    """A loop over the items of the range that the arguments `begin` and `end` of `f` are: what is
    written within is run for each item, or once for those that are computed as one."""
    begin, end = f.argument("begin"), f.argument("end")
    with f.loop("item", begin, end) as loop:
        number = loop.index
        group, within = value(0), number
        if cuts.groups > 1:
            group = f.div(number, cuts.items_per_group, "group")
            within = f.rem(number, cuts.items_per_group, "within")
        together = cuts.chunks_together * cuts.parts_together
        unit = within if together == 1 else f.div(within, together, "unit")
        if cuts.panels_first:
            chunks = cuts.chunks // cuts.chunks_together
            chunk, part = f.rem(unit, chunks, "chunk"), f.div(unit, chunks, "part")
        else:
            parts = cuts.column_parts // cuts.parts_together
            chunk, part = f.div(unit, parts, "chunk"), f.rem(unit, parts, "part")
        if together == 1:
            yield Item(group, chunk, f.add(chunk, 1), *_panels(f, cuts, part, f.add(part, 1)))
            return
        place = f.rem(within, together, "place")
        start = f.sub(number, place)
        starts = f.compare("sge", start, begin)
        ends = f.compare("sle", f.add(start, together), end)
        is_whole = f.emit(I1, "is.whole", f"and {starts}, {ends.text}")
        piece = f.rem(place, cuts.chunks_together, "piece")
        first_of_part = f.compare("eq", piece, 0)
        first_of_range = f.compare("eq", number, begin)
        leads = f.emit(I1, "leads", f"or {first_of_part}, {first_of_range.text}")
        first_of_unit = f.compare("eq", place, 0)
        first_chunk = f.mul(chunk, cuts.chunks_together, "first.chunk")
        chunk = f.add(first_chunk, piece)
        given = f.add(chunk, f.sub(end, number), "given")
        end_chunk = f.minimum(f.add(first_chunk, cuts.chunks_together), given, "end.chunk")
        part = f.add(f.mul(part, cuts.parts_together), f.div(place, cuts.chunks_together), "part")
        end_part = f.add(part, f.select(is_whole, cuts.parts_together, 1, "parts"), "end.part")
        with f.when(f.select(is_whole, first_of_unit, leads, "is.first"), "item"):
            yield Item(group, chunk, end_chunk, *_panels(f, cuts, part, end_part))


def _panels(f: Function, cuts: Blocking, part: Value, end: Value) -> tuple[Value, Value]:
    """The first panel of a piece of the columns, and that of the piece `end`."""
    first, last = (f.mul(number, cuts.panels) for number in (part, end))
    return (
        f.div(first, cuts.column_parts, "first.panel"),
        f.div(last, cuts.column_parts, "last.panel"),
    )
