"""Which output pixels and which panels of weights an item of work has.

There are at least as many items as keep some threads busy. A thread that takes all items which
belong together computes them as one, so that weights are read no more often than one thread needs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from convir.lowering.kernels.host.code.builder import I1, I64, Function, Value, value

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
            items = _number(f, cuts.items_per_group, "items")
            group, within = f.div(number, items, "group"), f.rem(number, items, "within")
        chunks_together = _number(f, cuts.chunks_together, "chunks.together")
        parts_together = _number(f, cuts.parts_together, "parts.together")
        together = _number(f, cuts.chunks_together * cuts.parts_together, "together")
        unit = f.div(within, together, "unit")
        if cuts.panels_first:
            chunks = _number(f, cuts.chunks // cuts.chunks_together, "chunks")
            chunk, part = f.rem(unit, chunks, "chunk"), f.div(unit, chunks, "part")
        else:
            parts = _number(f, cuts.column_parts // cuts.parts_together, "parts")
            chunk, part = f.div(unit, parts, "chunk"), f.rem(unit, parts, "part")
        place = f.rem(within, together, "place")
        start = f.sub(number, place)
        starts = f.compare("sge", start, begin)
        ends = f.compare("sle", f.add(start, together), end)
        is_whole = f.emit(I1, "is.whole", f"and {starts}, {ends.text}")
        piece = f.rem(place, chunks_together, "piece")
        first_of_part = f.compare("eq", piece, 0)
        first_of_range = f.compare("eq", number, begin)
        leads = f.emit(I1, "leads", f"or {first_of_part}, {first_of_range.text}")
        first_of_unit = f.compare("eq", place, 0)
        first_chunk = f.mul(chunk, chunks_together, "first.chunk")
        chunk = f.add(first_chunk, piece)
        given = f.add(chunk, f.sub(end, number), "given")
        end_chunk = f.minimum(f.add(first_chunk, chunks_together), given, "end.chunk")
        part = f.add(f.mul(part, parts_together), f.div(place, chunks_together), "part")
        end_part = f.add(part, f.select(is_whole, parts_together, 1, "parts.now"), "end.part")
        with f.when(f.select(is_whole, first_of_unit, leads, "is.first"), "item"):
            yield Item(group, chunk, end_chunk, *_panels(f, cuts, part, end_part))


def _number(f: Function, number: int, hint: str) -> Value:
    """A constant that the builder does not fold, whatever it is: the code of another batch then
    differs in constants alone."""
    return f.emit(I64, hint, f"add i64 0, {number}")


def _panels(f: Function, cuts: Blocking, part: Value, end: Value) -> tuple[Value, Value]:
    """The first panel of a piece of the columns, and that of the piece `end`."""
    parts = _number(f, cuts.column_parts, "all.parts")
    first, last = (f.mul(number, cuts.panels) for number in (part, end))
    return f.div(first, parts, "first.panel"), f.div(last, parts, "last.panel")
