"""The pictures of a report: the memory plan over time, and the roofline of its kernels."""

from __future__ import annotations

from html import escape
from math import sqrt
from typing import TYPE_CHECKING

from convir.passes.manager.quantities import bytes_text
from convir.report.page.plot import (
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
)
from convir.report.page.words import us_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.report.collect import Record

_MEMORY_HEIGHT = 1000
"""Of its own units; a page stretches the picture."""
_LEAST = 3
"""So high is a box at least."""
_TICKS = 5
_GOLDEN = 137.5
"""Degrees between the hues of neighbours."""
_LARGEST_MARK, _SMALLEST_MARK = 9.0, 3.0


def memory_picture(program: Record, place: int) -> str:
    """The arena: bytes upwards, calls to the right, a box for each buffer while it is alive.

    Args:
        program: as `collect` has it.
        place: its number in the report.
    """
    boxes = [x for x in program["tensors"] if x["space"].startswith("arena")]
    calls, size = max(1, len(program["nodes"])), max(1, program["arenaBytes"])
    parts: list[str] = []
    for number, box in enumerate(boxes):
        height = max(_LEAST, box["bytes"] * _MEMORY_HEIGHT / size)
        y = _MEMORY_HEIGHT - box["offset"] * _MEMORY_HEIGHT / size - height
        title = (
            f"{box['name']}: {box['sizes']}, {bytes_text(box['bytes'])} at {box['offset']:,}, "
            f"calls {box['first']} to {box['last']}"
        )
        kind = "workspace" if "workspace" in box["space"] else "buffer"
        hue = number * _GOLDEN % 360
        parts.append(
            f'<a href="#call-{place}-{box["first"]}" aria-label="{escape(title)}">'
            f'<rect class="{kind}" x="{box["first"]}" y="{y:.1f}" '
            f'width="{box["last"] - box["first"] + 1}" height="{height:.1f}" '
            f'fill="hsl({hue:.0f} 55% 55%)"><title>{escape(title)}</title></rect></a>'
        )
    label = (
        f"The arena of {bytes_text(program['arenaBytes'])} over {calls} calls; "
        "arrow keys go from buffer to buffer"
    )
    body = "\n".join(parts)
    up = "".join(
        f'<span style="bottom:{100 * tick / size:.1f}%">{bytes_text(tick) if tick else 0}</span>'
        for tick in _ticks(size)
    )
    along = "".join(
        f'<span style="left:{100 * (tick + 0.5) / calls:.1f}%">{tick}</span>'
        for tick in _ticks(calls - 1)
    )
    return (
        '<figure class="picture"><div class="arena">'
        f'<div class="up quiet" aria-hidden="true">{up}</div>'
        '<svg xmlns="http://www.w3.org/2000/svg" class="memory" role="group" '
        f'aria-label="{escape(label)}" viewBox="0 0 {calls} {_MEMORY_HEIGHT}" '
        f'preserveAspectRatio="none">{body}</svg>'
        f'<div class="along quiet" aria-hidden="true">{along}</div></div>'
        f"{_caption('call →')}</figure>"
    )


def most_alive(program: Record) -> tuple[int, int]:
    """The most bytes of the arena that are alive in one call, and its number."""
    boxes = [x for x in program["tensors"] if x["space"].startswith("arena")]
    alive = [
        sum(box["bytes"] for box in boxes if box["first"] <= number <= box["last"])
        for number in range(len(program["nodes"]))
    ]
    most = max(alive, default=0)
    return most, alive.index(most) if alive else 0


def _ticks(most: int) -> list[int]:
    """Round numbers from 0 to `most`."""
    scale = 10 ** (len(str(max(1, most))) - 1)
    steps = [max(1, part * scale // 10) for part in (1, 2, 5, 10, 20, 50)]
    step = next((each for each in steps if most // each < _TICKS), steps[-1])
    return [*range(0, most + 1, step)]


def _caption(axis: str) -> str:
    """Says what the mark is that is pointed at, or has the focus."""
    return f'<figcaption class="quiet" data-axis="{axis}">{axis}</figcaption>'


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
    longest = max(time_of(node) for _, node in nodes)
    for (place, node), (intensity, rate), element in zip(nodes, dots, elements, strict=True):
        grown = (_LARGEST_MARK - _SMALLEST_MARK) * sqrt(time_of(node) / longest)
        title = (
            f"call {node['number']}, {element}: {rate:.4g} GFLOP/s, {us_text(time_of(node))}, "
            f"{node['floor'] / time_of(node):.0%} of the roofline"
        )
        parts.append(
            f'<a href="#call-{place}-{node["number"]}" aria-label="{escape(title)}">'
            f'<circle class="mark of-convir" cx="{x.at(intensity)}" cy="{y.at(rate)}" '
            f'r="{_SMALLEST_MARK + grown:.1f}">'
            f"<title>{escape(title)}</title></circle></a>"
        )
    label = "GFLOP/s of each launch over FLOPs of a byte; arrow keys go from launch to launch"
    # Its marks are links, which an image would hide.
    svg = svg_of("roofline", (WIDTH, HEIGHT), parts, label).replace('role="img"', 'role="group"', 1)
    caption = _caption("The larger a mark, the longer its launch takes.")
    return f'<figure class="picture">{svg}{caption}</figure>'


def time_of(node: Record) -> float:
    """What a node takes in µs, measured or else predicted; 0 where nobody knows."""
    return node["measured"] or node["us"] or 0.0
