"""Plots of a benchmark's report as SVG: a roofline, and bars of our speed over a peer's."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, TypeAlias

from convir.runtime.bench.row import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Record: TypeAlias = "Mapping[str, Any]"
"""A row as it stands in result files."""

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 44
_BAR_HEIGHT, _BAR_GAP, _LABEL_WIDTH, _LINE_HEIGHT = 14, 5, 220, 15
_RADIUS = 4


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


def roofline(rows: Sequence[Record], ceilings: Mapping[str, Any]) -> str:
    """TFLOP/s over the FLOPs of a byte, a dot for each row, under the ceilings of the run.

    Args:
        rows: what `timed` returns, at least one.
        ceilings: per element type `gflops` and `gbytes`.
    """
    dots = [(_intensity(row), row["flops"] / row["us"]["median"] / 1e6, row) for row in rows]
    peaks = [limit["gflops"] / 1e3 for limit in ceilings.values()]
    knees = [limit["gflops"] / limit["gbytes"] for limit in ceilings.values()]
    x = LogAxis.around([*(d[0] for d in dots), *knees], _LEFT, WIDTH - _RIGHT)
    y = LogAxis.around([*(d[1] for d in dots), *peaks], HEIGHT - _BOTTOM, _TOP)
    parts = _grid(x, y)
    for number, (dtype, limit) in enumerate(ceilings.items(), 2):
        peak, knee = limit["gflops"] / 1e3, limit["gflops"] / limit["gbytes"]
        # From where the slope enters the plot: at its left edge, or through its bottom.
        left = max(10.0**x.low, 10.0**y.low * 1e3 / limit["gbytes"])
        points = [(left, left * limit["gbytes"] / 1e3), (knee, peak), (10.0**x.high, peak)]
        path = " ".join(f"{x.at(px)},{y.at(py)}" for px, py in points)
        parts.append(f'<polyline class="roof" points="{path}"/>')
        name = f"{dtype}: {peak:.3g} TFLOP/s, {limit['gbytes']:.0f} GB/s"
        parts.append(_text(_LEFT + 4, _TOP - 4 + number * _LINE_HEIGHT, name, "start"))
    for flops_of_a_byte, tflops, row in dots:
        name = f"{row['backend']} {row['layout']}: {tflops:.3g} TFLOP/s, {row['line']}"
        kind = "ours" if row["backend"] == OURS else "peer"
        place = f'cx="{x.at(flops_of_a_byte)}" cy="{y.at(tflops)}" r="{_RADIUS}"'
        parts.append(f'<circle class="{kind}" {place}><title>{escape(name)}</title></circle>')
    return _svg("roofline", WIDTH, HEIGHT, parts)


def bars(ratios: Sequence[tuple[str, str, float]]) -> str:
    """Our speed over a peer's: a bar for each problem, and a line where both are equal.

    Args:
        ratios: short name, full name and ratio of each, at least one.
    """
    longest = max(1.0, *(ratio for _, _, ratio in ratios))
    scale = (WIDTH - _LABEL_WIDTH - _LEFT) / longest
    height = len(ratios) * (_BAR_HEIGHT + _BAR_GAP) + _BAR_GAP
    parts: list[str] = []
    for i, (short, full, ratio) in enumerate(ratios):
        top = _BAR_GAP + i * (_BAR_HEIGHT + _BAR_GAP)
        kind = "ours" if ratio >= 1 else "slower"
        size = f'width="{round(ratio * scale, 1)}" height="{_BAR_HEIGHT}"'
        parts.append(
            f'<rect class="{kind}" x="{_LABEL_WIDTH}" y="{top}" {size}>'
            f"<title>{escape(full)}</title></rect>"
        )
        baseline = top + _BAR_HEIGHT - 3
        parts.append(_text(_LABEL_WIDTH - 6, baseline, short, "end"))
        end = round(_LABEL_WIDTH + ratio * scale + 5, 1)
        parts.append(_text(end, baseline, f"{ratio:.2f}", "start"))
    equal = round(_LABEL_WIDTH + scale, 1)
    parts.append(f'<line class="equal" x1="{equal}" y1="0" x2="{equal}" y2="{height}"/>')
    return _svg("bars", WIDTH, height, parts)


def _intensity(row: Record) -> float:
    return row["flops"] / row["bytes"]


def _grid(x: LogAxis, y: LogAxis) -> list[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts: list[str] = []
    for tick in x.ticks:
        at = x.at(tick)
        parts.append(f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{bottom}"/>')
        parts.append(_text(at, bottom + 16, f"{tick:g}", "middle"))
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{at}" x2="{right}" y2="{at}"/>')
        parts.append(_text(_LEFT - 6, at + 4, f"{tick:g}", "end"))
    parts.append(_text((_LEFT + right) / 2, HEIGHT - 8, "FLOPs of a byte", "middle"))
    parts.append(_text(_LEFT + 4, _TOP + 10, "TFLOP/s", "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(kind: str, width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="img" '
        f'viewBox="0 0 {width} {height}">\n{body}\n</svg>'
    )
