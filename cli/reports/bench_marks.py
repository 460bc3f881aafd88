"""How a plot of a benchmark shows who a row is of: a colour for each backend, a marker for each
layout, hollow where the weights are a constant."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from convir.runtime.bench.row import LIBRARY, OURS, PLAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Record: TypeAlias = "Mapping[str, Any]"
"""A row as it stands in result files."""

COLOURS: Mapping[str, tuple[str, str]] = {
    OURS: ("#1f6fd6", "#5aa2ff"),
    "torch": ("#c2570c", "#ff9a4d"),
    "onnxruntime": ("#15803d", "#4ade80"),
    "cudnn": ("#7e3bc7", "#c39bff"),
    PLAIN: ("#6b7280", "#a8b0bd"),
    LIBRARY: ("#0e7490", "#45d0e8"),
}
"""Of each backend, on a light page and on a dark one."""
_OTHER = ("#be185d", "#ff7ab8")

_SIZE = 5.0
"""Half of a marker's width."""


@dataclass(frozen=True)
class Mark:
    """How the rows of one backend in one layout look."""

    backend: str
    layout: str
    weights: str

    @staticmethod
    def of(row: Record) -> Mark:
        """The mark of a row."""
        return Mark(row["backend"], row["layout"], row["weights"])

    @property
    def name(self) -> str:
        """What the legend calls it."""
        constant = ", constant weights" if self.weights == "constant" else ""
        return f"{self.backend} {self.layout}{constant}"

    def svg(self, x: float, y: float, title: str = "") -> str:
        """The mark at a place of a plot."""
        kind = f"mark {colour_class(self.backend)}" + (
            " hollow" if self.weights == "constant" else ""
        )
        told = f"<title>{escape(title)}</title>" if title else ""
        if self.layout == "as given":
            place = f'cx="{x}" cy="{y}" r="{_SIZE}"'
            return f'<circle class="{kind}" {place}>{told}</circle>'
        if _is_channels_last(self.layout):
            corners = [(0, -_SIZE), (_SIZE, _SIZE), (-_SIZE, _SIZE)]
        elif self.layout == "-":
            corners = [(0, -_SIZE), (_SIZE, 0), (0, _SIZE), (-_SIZE, 0)]
        else:
            corners = [(-_SIZE, -_SIZE), (_SIZE, -_SIZE), (_SIZE, _SIZE), (-_SIZE, _SIZE)]
        points = " ".join(f"{round(x + dx, 1)},{round(y + dy, 1)}" for dx, dy in corners)
        return f'<polygon class="{kind}" points="{points}">{told}</polygon>'


def _is_channels_last(layout: str) -> bool:
    return layout.endswith("C")


def colour_class(backend: str) -> str:
    """The class of what has a backend's colour."""
    return f"of-{backend}" if backend in COLOURS else "of-other"


def colour_styles() -> str:
    """The style sheet's rules of all colours."""
    rules: list[str] = []
    for backend, (light, dark) in {**COLOURS, "other": _OTHER}.items():
        colour = f"light-dark({light}, {dark})"
        rules.append(f".of-{backend} {{ fill: {colour}; stroke: {colour}; color: {colour} }}")
    return "\n".join(rules)


def legend(rows: Sequence[Record]) -> str:
    """What each mark in a plot of `rows` stands for."""
    marks = dict.fromkeys(map(Mark.of, rows))
    items = [
        f'<li><svg xmlns="http://www.w3.org/2000/svg" class="key" viewBox="0 0 16 16" '
        f'aria-hidden="true">{mark.svg(8, 8)}</svg> '
        f"{escape(mark.name)}</li>"
        for mark in marks
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'
