"""Plots of a benchmark's report as SVG: a roofline, and bars of a peer's time over ours."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from convir.cli.files.bench_lines import short_name
from convir.cli.reports.bench_marks import Mark, colour_class
from convir.runtime.bench.row import OURS, RateUnit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.cli.reports.bench_marks import Record

WIDTH, HEIGHT = 480, 340
"""Small, so that its text can be read where a page is as narrow."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 26, 42
_ROW_HEIGHT, _BAR_HEIGHT, _LABEL_BASELINE, _AXIS_HEIGHT = 34, 12, 13, 20
_FIGURE_WIDTH = 44
_MIN_FACTOR = 2.0
"""Bars show ratios up to this at least, so that 1.05 does not look like a win."""
_LEAST_LEFT, _LEFT_SHARE = 1.25, 0.57
"""Likewise to the left of the line: a ratio, and a share of the right side on a log scale."""


@dataclass(frozen=True)
class LogAxis:
    """Powers of ten between two positions of a plot."""

    low: int
    """The exponent at `start`."""
    high: int
    start: float
    end: float

    @staticmethod
    def around(values: Sequence[float], start: float, end: float) -> LogAxis:
        """The smallest axis of whole powers of ten that shows all `values`, which are positive."""
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return LogAxis(low, max(high, low + 1), start, end)

    def at(self, value: float) -> float:
        """Where a value lies."""
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten."""
        return [10.0**exponent for exponent in range(self.low, self.high + 1)]


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
    x = LogAxis.around([*(d[0] for d in dots), *knees], _LEFT, WIDTH - _RIGHT)
    y = LogAxis.around(
        [*(d[1] for d in dots), *(peak for peak, _ in roofs)], HEIGHT - _BOTTOM, _TOP
    )
    parts = _grid(x, y, unit)
    for dtype, (peak, slope) in zip(ceilings, roofs, strict=True):
        knee = peak / slope
        # From where the slope enters the plot: at its left edge, or through its bottom.
        left = max(10.0**x.low, 10.0**y.low / slope)
        points = [(left, left * slope), (knee, peak), (10.0**x.high, peak)]
        path = " ".join(f"{x.at(px)},{y.at(py)}" for px, py in points)
        parts.append(f'<polyline class="roof" points="{path}"/>')
        parts.append(_text(WIDTH - _RIGHT - 3, y.at(peak) - 5, f"{dtype} roof", "end"))
    for flops_of_a_byte, rate, row in dots:
        mark = Mark.of(row)
        title = f"{mark.name}: {unit.text(gflops_of(row))} {unit.name}, {short_name(row['line'])}"
        parts.append(mark.svg(x.at(flops_of_a_byte), y.at(rate), title))
    return _svg("roofline", HEIGHT, parts, f"{unit.name} over FLOPs of a byte")


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
        _text(round(one, 1), 13, "1.0 = as fast", "middle"),
        _text(WIDTH - 2, 13, "ours is faster →", "end"),
    ]
    if is_slower:
        parts.append(_text(2, 13, f"← {peer} is faster", "start"))
    for i, (line, ratio) in enumerate(ratios):
        top = _AXIS_HEIGHT + i * _ROW_HEIGHT
        share = log10(ratio) / log10(largest if ratio >= 1 else lowest)
        end = one + share * ((right - one) if ratio >= 1 else (one - left))
        first, last = sorted((one, end))
        kind = colour_class(OURS if ratio >= 1 else peer)
        size = f'width="{round(max(last - first, 0.5), 1)}" height="{_BAR_HEIGHT}"'
        parts.append(_text(2, top + _LABEL_BASELINE, short_name(line), "start"))
        bar = top + _LABEL_BASELINE + 5
        parts.append(
            f'<rect class="{kind}" x="{round(first, 1)}" y="{bar}" {size}>'
            f"<title>{escape(line)}</title></rect>"
        )
        place, anchor = (end + 4, "start") if ratio >= 1 else (end - 4, "end")
        parts.append(_text(round(place, 1), bar + _BAR_HEIGHT - 2, f"{ratio:.2f}", anchor))
        at, low, high = round(one, 1), bar - 2, bar + _BAR_HEIGHT + 2
        parts.append(f'<line class="equal" x1="{at}" y1="{low}" x2="{at}" y2="{high}"/>')
    return _svg("bars", height, parts, f"{peer}'s time over ours")


def _grid(x: LogAxis, y: LogAxis, unit: RateUnit) -> list[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts: list[str] = []
    for tick in x.ticks:
        at = x.at(tick)
        parts.append(f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{bottom}"/>')
        parts.append(_text(at, bottom + 15, f"{tick:g}", "middle"))
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{at}" x2="{right}" y2="{at}"/>')
        parts.append(_text(_LEFT - 6, at + 4, f"{tick:g}", "end"))
    parts.append(_text((_LEFT + right) / 2, HEIGHT - 8, "FLOPs of a byte", "middle"))
    parts.append(_text(4, 14, unit.name, "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(kind: str, height: int, parts: Sequence[str], label: str) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="img" '
        f'aria-label="{escape(label)}" viewBox="0 0 {WIDTH} {height}">\n{body}\n</svg>'
    )
