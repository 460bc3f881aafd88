"""What a demo did, as a picture: where the zeros were, and bars before and after."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 720
_STYLE = """
:root { color-scheme: light dark }
svg { background: light-dark(#fff, #16181d); font: 13px system-ui, sans-serif }
text { fill: light-dark(#1b1f24, #e6e8eb) } .head { font-weight: 600; font-size: 15px }
.before { fill: light-dark(#9aa3af, #7b8494) } .after { fill: light-dark(#1f6fd6, #5aa2ff) }
.zero { fill: light-dark(#eef0f3, #262a32); stroke: light-dark(#d3d8de, #3a404b) }
.data { fill: light-dark(#1f6fd6, #5aa2ff); stroke: light-dark(#d3d8de, #3a404b) }
"""
_GRID, _CELL, _POSITIONS = 24, 14, 8
_BARS, _BAR, _STEP = 250, 13, 54
_SECTION = 252


@dataclass(frozen=True)
class Measure:
    """One figure before and after."""

    name: str
    before: float
    after: float
    form: str
    """How its values print."""
    words: tuple[str, str]
    """What less of it is called, and what more is."""

    @property
    def change(self) -> str:
        """In words: `4.0x fewer`, `1.6x more`."""
        if not self.before or not self.after or self.before == self.after:
            return "as before"
        less, more = self.words
        if self.after < self.before:
            return f"{self.before / self.after:.1f}x {less}"
        return f"{self.after / self.before:.1f}x {more}"


@dataclass(frozen=True)
class Scatter:
    """Where data stand among zeros, along two dimensions."""

    strides: tuple[int, int]
    offsets: tuple[int, int]

    def holds(self, row: int, column: int) -> bool:
        """Whether a position is not a zero."""
        at = zip((row, column), self.offsets, self.strides, strict=True)
        return all(i >= offset and (i - offset) % stride == 0 for i, offset, stride in at)


@dataclass(frozen=True)
class Panel:
    """One file of a demo."""

    title: str
    measures: Sequence[Measure]
    scatter: Scatter | None
    """What the function before contracts, if that is a scattered tensor."""
    verdict: str
    """What a check said of both."""


def picture_of(panels: Sequence[Panel]) -> str:
    """An SVG file with the panels one below the other."""
    height = len(panels) * _SECTION + 16
    parts = [part for i, panel in enumerate(panels) for part in _panel(panel, 16 + i * _SECTION)]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>\n"])


def _panel(panel: Panel, top: int) -> list[str]:
    parts = [_text(_GRID, top + 14, panel.title, "head")]
    if panel.scatter is not None:
        parts += _zeros(panel.scatter, top + 44)
    for i, measure in enumerate(panel.measures):
        parts += _bars(measure, top + 44 + i * _STEP)
    parts.append(_text(_GRID, top + 216, panel.verdict))
    return parts


def _zeros(scatter: Scatter, top: int) -> list[str]:
    cells = [(row, column) for row in range(_POSITIONS) for column in range(_POSITIONS)]
    data = sum(scatter.holds(*cell) for cell in cells)
    parts = [
        f'<rect class="{"data" if scatter.holds(row, column) else "zero"}" '
        f'x="{_GRID + column * _CELL}" y="{top + row * _CELL}" width="{_CELL}" height="{_CELL}"/>'
        for row, column in cells
    ]
    below = top + _POSITIONS * _CELL + 18
    parts.append(_text(_GRID, top - 8, "what was contracted before"))
    parts.append(_text(_GRID, below, f"{len(cells) - data} of {len(cells)} positions are zeros"))
    return parts


def _bars(measure: Measure, top: int) -> list[str]:
    room = WIDTH - _BARS - 100
    largest = max(measure.before, measure.after) or 1.0
    parts = [_text(_BARS, top - 8, f"{measure.name}: {measure.change}")]
    for i, (kind, value) in enumerate((("before", measure.before), ("after", measure.after))):
        y, width = top + i * (_BAR + 2), round(value / largest * room, 1)
        parts.append(f'<rect class="{kind}" x="{_BARS}" y="{y}" width="{width}" height="{_BAR}"/>')
        said = f"{value:{measure.form}} {kind}"
        parts.append(_text(_BARS + width + 6, y + _BAR - 2, said))
    return parts


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{x}" y="{y}">{escape(text)}</text>'
