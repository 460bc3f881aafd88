"""Plots of a benchmark's report as SVG: a roofline, and bars of a peer's time over ours."""

from __future__ import annotations

from html import escape
from math import log10
from typing import TYPE_CHECKING, Any

from convir.cli.files.bench_lines import short_name
from convir.cli.reports.bench_marks import Mark, colour_class
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
    text_at,
)
from convir.runtime.bench.row import OURS, RateUnit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.cli.reports.bench_marks import Record

_ROW_HEIGHT, _BAR_HEIGHT, _LABEL_BASELINE, _AXIS_HEIGHT = 34, 12, 13, 20
_FIGURE_WIDTH = 44
_MIN_FACTOR = 2.0
"""Bars show ratios up to this at least, so that 1.05 does not look like a win."""
_LEAST_LEFT, _LEFT_SHARE = 1.25, 0.57
"""Likewise to the left of the line: a ratio, and a share of the right side on a log scale."""


def timed(rows: Sequence[Record]) -> list[Record]:
    """The rows that are right and have a time."""
    return [row for row in rows if row["us"] is not None and row["failure"] is None]


def gflops_of(row: Record) -> float:
    """10^9 useful operations a second of a row that has a time."""
    return row["flops"] / row["us"]["median"] / 1e3


def above_the_roof(rows: Sequence[Record]) -> int:
    """How many rows take less than their floor."""
    return sum(row["us"]["median"] < row["floor_us"] for row in rows)


def roofline(rows: Sequence[Record], ceilings: Mapping[str, Any], unit: RateUnit) -> str:
    """Operations a second over the FLOPs of a byte, a mark for each row, under the ceilings.

    Args:
        rows: what `timed` returns, at least one.
        ceilings: per element type `gflops` and `gbytes`.
        unit: of the rates.
    """
    dots = [(row["flops"] / row["bytes"], gflops_of(row) / unit.gflops, row) for row in rows]
    roofs = [(c["gflops"] / unit.gflops, c["gbytes"] / unit.gflops) for c in ceilings.values()]
    knees = [peak / slope for peak, slope in roofs]
    x = LogAxis.around([*(d[0] for d in dots), *knees], LEFT, WIDTH - RIGHT)
    y = LogAxis.around([*(d[1] for d in dots), *(peak for peak, _ in roofs)], HEIGHT - BOTTOM, TOP)
    parts = grid(x, y, unit.name)
    for dtype, (peak, slope) in zip(ceilings, roofs, strict=True):
        parts += roof_line(x, y, peak, slope, f"{dtype} roof")
    for flops_of_a_byte, rate, row in dots:
        mark = Mark.of(row)
        title = f"{mark.name}: {unit.text(gflops_of(row))} {unit.name}, {short_name(row['line'])}"
        parts.append(mark.svg(x.at(flops_of_a_byte), y.at(rate), title))
    return svg_of("roofline", (WIDTH, HEIGHT), parts, f"{unit.name} over FLOPs of a byte")


def bars(ratios: Sequence[tuple[str, float]], peer: str) -> str:
    """A peer's time over ours: a bar for each problem, from the line of 1.0 to the right where ours
    is faster, and to the left where the peer is; on a scale of logarithms.

    Args:
        ratios: line and ratio of each, at least one.
        peer: the backend.
    """
    largest = max(_MIN_FACTOR, *(max(ratio, 1 / ratio) for _, ratio in ratios))
    lowest = max(_LEAST_LEFT, *(1 / ratio for _, ratio in ratios))
    is_slower = any(ratio < 1 for _, ratio in ratios)
    if is_slower:  # room for what stands to the left of the line
        lowest = max(lowest, largest**_LEFT_SHARE)
    left, right = _FIGURE_WIDTH, WIDTH - _FIGURE_WIDTH
    one = left + (right - left) * log10(lowest) / (log10(lowest) + log10(largest))
    height = len(ratios) * _ROW_HEIGHT + _AXIS_HEIGHT
    parts = [
        text_at(round(one, 1), 13, "1.0 = as fast", "middle"),
        text_at(WIDTH - 2, 13, "ours is faster →", "end"),
    ]
    if is_slower:
        parts.append(text_at(2, 13, f"← {peer} is faster", "start"))
    for i, (line, ratio) in enumerate(ratios):
        top = _AXIS_HEIGHT + i * _ROW_HEIGHT
        share = log10(ratio) / log10(largest if ratio >= 1 else lowest)
        end = one + share * ((right - one) if ratio >= 1 else (one - left))
        first, last = sorted((one, end))
        kind = colour_class(OURS if ratio >= 1 else peer)
        size = f'width="{round(max(last - first, 0.5), 1)}" height="{_BAR_HEIGHT}"'
        parts.append(text_at(2, top + _LABEL_BASELINE, short_name(line), "start"))
        bar = top + _LABEL_BASELINE + 5
        parts.append(
            f'<rect class="{kind}" x="{round(first, 1)}" y="{bar}" {size}>'
            f"<title>{escape(line)}</title></rect>"
        )
        place, anchor = (end + 4, "start") if ratio >= 1 else (end - 4, "end")
        parts.append(text_at(round(place, 1), bar + _BAR_HEIGHT - 2, f"{ratio:.2f}", anchor))
        at, low, high = round(one, 1), bar - 2, bar + _BAR_HEIGHT + 2
        parts.append(f'<line class="equal" x1="{at}" y1="{low}" x2="{at}" y2="{high}"/>')
    return svg_of("bars", (WIDTH, height), parts, f"{peer}'s time over ours")
