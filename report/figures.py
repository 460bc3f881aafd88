"""The pictures of a report: the memory plan over time, and the roofline of its kernels."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from convir.passes.manager.quantities import bytes_text
from convir.report.plot import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    LogAxis,
    grid,
    roof_line,
    svg_of,
    text_at,
)
from convir.report.words import us_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.report.collect import Record

_MEMORY_WIDTH, _MEMORY_HEIGHT, _MEMORY_LEFT, _AXIS = 900, 300, 64, 20
_HUES = 12
_GOLDEN = 137.5
"""Degrees between the hues of neighbours."""


def memory_picture(program: Record, place: int) -> str:
    """The arena: bytes upwards, calls to the right, a box for each buffer while it is alive.

    Args:
        program: as `collect` has it.
        place: its number in the report.
    """
    boxes = [x for x in program["tensors"] if x["space"].startswith("arena")]
    calls, size = max(1, len(program["nodes"])), max(1, program["arenaBytes"])
    across = (_MEMORY_WIDTH - _MEMORY_LEFT - 4) / calls
    up = (_MEMORY_HEIGHT - 2 * _AXIS) / size
    base = _MEMORY_HEIGHT - _AXIS
    parts = [
        text_at(_MEMORY_LEFT - 6, _AXIS + 4, bytes_text(size), "end"),
        text_at(_MEMORY_LEFT - 6, base, "0", "end"),
        text_at(_MEMORY_LEFT, _MEMORY_HEIGHT - 4, "call 0", "start"),
        text_at(_MEMORY_WIDTH - 4, _MEMORY_HEIGHT - 4, f"call {calls - 1}", "end"),
        f'<line class="grid" x1="{_MEMORY_LEFT}" y1="{base}" x2="{_MEMORY_WIDTH}" y2="{base}"/>',
    ]
    for number, box in enumerate(boxes):
        x = _MEMORY_LEFT + box["first"] * across
        width = max(1.0, (box["last"] - box["first"] + 1) * across)
        height = max(1.0, box["bytes"] * up)
        y = base - box["offset"] * up - height
        title = (
            f"{box['name']}: {box['sizes']}, {bytes_text(box['bytes'])} at {box['offset']}, "
            f"calls {box['first']} to {box['last']}"
        )
        kind = "workspace" if "workspace" in box["space"] else "buffer"
        hue = number * _GOLDEN % 360
        parts.append(
            f'<a href="#call-{place}-{box["first"]}" aria-label="{escape(title)}">'
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" fill="hsl({hue:.0f} 55% 55%)"><title>{escape(title)}</title>'
            "</rect></a>"
        )
    label = f"The arena of {bytes_text(program['arenaBytes'])} over {calls} calls"
    svg = svg_of("memory", (_MEMORY_WIDTH, _MEMORY_HEIGHT), parts, label)
    # Its boxes are links, which an image would hide.
    return svg.replace('role="img"', 'role="group"', 1)


def roofline_picture(
    nodes: Sequence[tuple[int, Record]], roofs: Mapping[str, Record], elements: Sequence[str]
) -> str:
    """Operations a second over FLOPs of a byte, a mark for each launch that computes.

    Args:
        nodes: the program's number and the node of each, with FLOPs and a time.
        roofs: per element type `gflops` and `gbytes`.
        elements: of each node, what it multiplies.
    """
    dots = [
        (node["flops"] / node["bytes"], node["flops"] / time_of(node) / 1e3) for _, node in nodes
    ]
    knees = [roof["gflops"] / roof["gbytes"] for roof in roofs.values()]
    peaks = [roof["gflops"] for roof in roofs.values()]
    x = LogAxis.around([*(dot[0] for dot in dots), *knees], LEFT, WIDTH - RIGHT)
    y = LogAxis.around([*(dot[1] for dot in dots), *peaks], HEIGHT - BOTTOM, TOP)
    parts = grid(x, y, "GFLOP/s")
    for element, roof in roofs.items():
        parts += roof_line(x, y, roof["gflops"], roof["gbytes"], f"{element} roof")
    for (place, node), (intensity, rate), element in zip(nodes, dots, elements, strict=True):
        title = (
            f"call {node['number']}, {element}: {rate:.4g} GFLOP/s, {us_text(time_of(node))}, "
            f"{node['floor'] / time_of(node):.0%} of the roofline"
        )
        parts.append(
            f'<a href="#call-{place}-{node["number"]}" aria-label="{escape(title)}">'
            f'<circle class="mark of-convir" cx="{x.at(intensity)}" cy="{y.at(rate)}" r="5">'
            f"<title>{escape(title)}</title></circle></a>"
        )
    svg = svg_of("roofline", (WIDTH, HEIGHT), parts, "GFLOP/s of each launch over FLOPs of a byte")
    return svg.replace('role="img"', 'role="group"', 1)


def time_of(node: Record) -> float:
    """What a node takes in µs, measured or else predicted; 0 where nobody knows."""
    return node["measured"] or node["us"] or 0.0
