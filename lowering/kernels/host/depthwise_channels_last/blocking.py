"""How a depthwise convolution of channels last is cut: channels in blocks of vectors, the pixels of
a line in tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.tiles import GroupTile
from convir.lowering.kernels.host.implicit_gemm.blocking import MIN_ITEMS, Panels

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

MAX_PIXELS = 8
"""Of a tile: with more of them code grows, and loads hardly get fewer."""

MAX_LINE_TAPS = 16
"""Taps along a line are written out."""

MAX_OUTER_TAPS = 256
"""A line's taps along the other axes are listed on the stack."""


@dataclass(frozen=True)
class ChannelsLastCuts:
    """The cuts of one contraction."""

    panels: Panels
    """Of the channels: as the weights are packed."""
    pixels: int
    """Output pixels of a tile, along a line."""
    span: int
    """Pixels of A that a tile reads along a line."""
    lines: int
    """Output lines."""
    parts: int
    """Pieces of the panels; an item is one of them, of one line."""


def cut_channels_last(spec: Contraction, lanes: Lanes) -> ChannelsLastCuts | None:
    """The cuts of `spec`; None if it is not a depthwise convolution of floats whose channels are
    contiguous, at one position of the stride.

    Args:
        spec: the contraction.
        lanes: those in which tiles compute, which widen what they read of a 16-bit type.
    """
    is_depthwise = spec.in_channels == spec.out_channels == 1 < spec.groups
    is_last = spec.a.group_stride == spec.c.group_stride == 1
    read = lanes.halves or spec.element
    if spec.result != "C" or spec.accumulate or spec.element == "i32" or len(spec.phases) != 1:
        return None
    if not is_depthwise or not is_last or spec.a.type != read or 2 * spec.groups < lanes.count:
        return None
    *outer, line = spec.phases[0].axes
    taps = len(line.tap_rows)
    if not 1 <= taps <= MAX_LINE_TAPS or not 1 <= _taps(outer) <= MAX_OUTER_TAPS:
        return None
    panels = _panels(spec, lanes)
    pixels = _pixels(line, panels.panel_out_channels // lanes.count, lanes)
    lines = prod(axis.size for axis in outer)
    return ChannelsLastCuts(
        panels=panels,
        pixels=pixels,
        span=(pixels - 1) * line.step + max(line.tap_rows) - min(line.tap_rows) + 1,
        lines=lines,
        parts=min(panels.panels, max(1, -(-MIN_ITEMS // lines))),
    )


def _taps(axes: list[Axis]) -> int:
    return prod(len(axis.tap_rows) for axis in axes)


def _panels(spec: Contraction, lanes: Lanes) -> Panels:
    vectors = min(2, -(-spec.groups // lanes.count)) if _has_room(lanes) else 1
    tile = GroupTile(1, vectors, 1, 1)
    panel = tile.out_channels(lanes.count)
    panels = -(-spec.groups // panel)
    last = spec.groups - (panels - 1) * panel
    last_tile = tile.narrowed(last, lanes.count)
    return Panels(
        tile=tile,
        panels=panels,
        panel_out_channels=panel,
        groups=1,
        out_channels=spec.groups,
        last_out_channels=last,
        last_tile=last_tile,
        panel_elements=tile.panel_elements(1, lanes.count),
        last_elements=last_tile.panel_elements(1, lanes.count),
    )


def _has_room(lanes: Lanes) -> bool:
    """Whether two vectors of channels are computed at a time: with 32 registers, or because bf16 is
    widened to two."""
    return lanes.cpu.vector_registers >= 32 or lanes.halves == "bf16"


def _pixels(line: Axis, vectors: int, lanes: Lanes) -> int:
    """As many as registers hold beside the weights of a line's taps, or fewer where they fill the
    line better."""
    registers = lanes.cpu.vector_registers // vectors
    beside = 1 + min(len(line.tap_rows), registers // 2)
    most = max(1, min(MAX_PIXELS, registers - beside, line.size))
    return min(range(max(1, most // 2), most + 1), key=lambda n: (-(-line.size // n) * n, -n))
