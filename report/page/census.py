"""The census of a `convir.pytorch` run, as a section of a report."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from convir.report.page.words import us_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.report.collect import Record

_HEADS = ("direction", "shapes", "type", "runs", "calls", "convir", "PyTorch", "kernel", "why")
_TEXTS = frozenset({"direction", "shapes", "type", "runs", "kernel", "why"})


def census_section(rows: Sequence[Record] | None) -> str:
    """A table of who ran which convolution, as `convir.pytorch.census()` and `--census` have it."""
    if not rows:
        return ""
    ours = sum(row["convir_calls"] for row in rows)
    theirs = sum(row["pytorch_calls"] for row in rows)
    heads = "".join(
        f'<th scope="col"{" class=text" if name in _TEXTS else ""}>{name}</th>' for name in _HEADS
    )
    body = "".join(map(_row, rows))
    return (
        f"<p>{ours} calls ran here, {theirs} in PyTorch.</p>"
        f'<div class="scroll"><table><tr>{heads}</tr>{body}</table></div>'
    )


def _row(row: Record) -> str:
    shapes = ", ".join("x".join(map(str, shape)) for shape in row["shapes"])
    cells = (
        (row["direction"], "text"),
        (shapes, "text problem"),
        (row["dtype"], "text"),
        (row["runs"], "text"),
        (str(row["convir_calls"] + row["pytorch_calls"]), ""),
        (us_text(row["convir_us"]) if row["convir_us"] else "–", ""),
        (us_text(row["pytorch_us"]) if row["pytorch_us"] else "–", ""),
        (row["kernel"], "text problem"),
        (row["reason"], "text reason"),
    )
    shown = "".join(f'<td class="{kind}">{escape(text)}</td>' for text, kind in cells)
    return f"<tr>{shown}</tr>"
