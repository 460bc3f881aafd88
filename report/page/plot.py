"""What plots as SVG are made of: logarithmic axes, a grid, roofs, text."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 480, 340
"""Small, so that its text can be read where a page is as narrow."""
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 26, 42
"""The margins of a plot."""


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


def grid(x: LogAxis, y: LogAxis, unit: str) -> list[str]:
    """The grid of a roofline, and its labels.

    Args:
        x: FLOPs of a byte.
        y: a rate.
        unit: of the rate.
    """
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts: list[str] = []
    for tick in x.ticks:
        at = x.at(tick)
        parts.append(f'<line class="grid" x1="{at}" y1="{TOP}" x2="{at}" y2="{bottom}"/>')
        parts.append(text_at(at, bottom + 15, f"{tick:g}", "middle"))
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at}" x2="{right}" y2="{at}"/>')
        parts.append(text_at(LEFT - 6, at + 4, f"{tick:g}", "end"))
    parts.append(text_at((LEFT + right) / 2, HEIGHT - 8, "FLOPs of a byte", "middle"))
    parts.append(text_at(4, 14, unit, "start"))
    return parts


def roof_line(x: LogAxis, y: LogAxis, peak: float, slope: float, name: str) -> list[str]:
    """A roof and its name: `slope` of a byte's FLOPs, up to `peak`."""
    knee = peak / slope
    # From where the slope enters the plot: at its left edge, or through its bottom.
    left = max(10.0**x.low, 10.0**y.low / slope)
    points = [(left, left * slope), (knee, peak), (10.0**x.high, peak)]
    path = " ".join(f"{x.at(px)},{y.at(py)}" for px, py in points)
    return [
        f'<polyline class="roof" points="{path}"/>',
        text_at(WIDTH - RIGHT - 3, y.at(peak) - 5, name, "end"),
    ]


def text_at(x: float, y: float, text: str, anchor: str) -> str:
    """A line of text at a place of a plot."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def svg_of(kind: str, size: tuple[int, int], parts: Sequence[str], label: str) -> str:
    """A plot of these parts.

    Args:
        kind: the class.
        size: width and height.
        parts: what it shows, in order.
        label: what a screen reader says.
    """
    body = "\n".join(parts)
    width, height = size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="img" '
        f'aria-label="{escape(label)}" viewBox="0 0 {width} {height}">\n{body}\n</svg>'
    )
