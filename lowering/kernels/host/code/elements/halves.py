"""Vectors of bf16 split into those of even and of odd number, each widened by one instruction.

Where lanes do not mix, as in depthwise convolutions, two vectors of accumulators hold the results
of even and of odd number until they are stored. Weights are packed in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Function, Value, vector
from convir.lowering.kernels.host.code.tiles import GroupTile

if TYPE_CHECKING:
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.code.tiles import Tile


def split_vectors(lanes: Lanes, tile: Tile, channels: int) -> int:
    """How many vectors of a tile, an even number, hold `channels` channels by parity."""
    is_depthwise = isinstance(tile, GroupTile) and tile.in_channels == tile.width == 1
    if lanes.halves != "bf16" or not is_depthwise:
        return 0
    return channels // (2 * lanes.count) * 2


def load_by_parity(f: Function, lanes: Lanes, address: Value) -> tuple[Value, Value]:
    """The elements of even and of odd number of two vectors of bf16."""
    words = vector("i32", lanes.count)
    both = f.load(words, address, 2, "halves")
    even = f.emit(words, "even", f"shl {both}, splat (i32 16)")
    odd = f.emit(words, "odd", f"and {both}, splat (i32 -65536)")
    even = f.emit(lanes.type, "wide", f"bitcast {even} to {lanes.type}")
    return even, f.emit(lanes.type, "wide", f"bitcast {odd} to {lanes.type}")


def in_order(f: Function, lanes: Lanes, even: Value, odd: Value) -> tuple[Value, Value]:
    """Two vectors of neighbours, from those of even and of odd number."""
    count = lanes.count
    picked = [lane // 2 + lane % 2 * count for lane in range(2 * count)]
    return (
        f.shuffle(even, odd, picked[:count], "first"),
        f.shuffle(even, odd, picked[count:], "second"),
    )
