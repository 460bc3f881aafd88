"""The products of a contraction, one by one, by what its description says."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction

Products: TypeAlias = "Counter[tuple[int, int, int]]"


def products_of(spec: Contraction, places: dict[str, dict[int, int]]) -> Products:
    """The elements of A, B and C of every product of a contraction.

    `places` has, for operands that were copied, the element of the operand for each of its copy's.
    """
    found: Products = Counter()

    def at(operand: str, element: int) -> int:
        return places[operand][element] if operand in places else element

    for phase in spec.phases:
        for position in product(*(range(axis.size) for axis in phase.axes)):
            out = phase.out_offset
            out += sum(x * axis.out_stride for x, axis in zip(position, phase.axes, strict=True))
            rows: list[tuple[int, int]] = []
            for taps in product(*(range(len(axis.tap_rows)) for axis in phase.axes)):
                row, weight, inside = 0, 0, True
                for x, tap, axis in zip(position, taps, phase.axes, strict=True):
                    place = x * axis.step + axis.tap_rows[tap]
                    inside = inside and 0 <= place < axis.extent
                    row += place * axis.row_stride
                    weight += axis.tap_weights[tap]
                rows += [(row, weight)] if inside else []
            for group, column, in_channels in product(
                *map(range, (spec.groups, spec.out_channels, spec.in_channels))
            ):
                a = group * spec.a.group_stride + in_channels * spec.a.stride
                b = group * spec.b.group_stride + in_channels * spec.b.in_channel_stride
                b += column * spec.b.out_channel_stride
                c = at("c", out + group * spec.c.group_stride + column * spec.c.stride)
                found.update((at("a", a + row), at("b", b + weight), c) for row, weight in rows)
    return found
