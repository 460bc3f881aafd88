"""The rows of a benchmark as text: full figures, and fewer columns where the terminal is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.runtime.bench.session import over_ours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.runtime.bench.row import RateUnit, Row

Cells = dict[str, str]
"""What a row has in each column, by its heading."""

TIME = "µs [p20–p80]"
_LEFT = ("backend", "layout", "weights", "config")
_DROPPED = ("config", "error/allowed", "GB/s", "roof")
"""What a narrow terminal does not show, the first first; then go the rates, and the weights."""
_GAP = "  "


def table_of(rows: Sequence[Row], unit: RateUnit, width: int | None = None) -> list[str]:
    """Lines of text: headings, and one for each row.

    Args:
        rows: of one problem.
        unit: of the rates.
        width: columns of the terminal; None shows everything.
    """
    cells = [_cells(row, rows, unit) for row in rows]
    shown = [name for name in cells[0] if any(each[name] for each in cells)] if cells else []
    for name in (*_DROPPED, unit.name, "weights"):
        if width is None or _width(_widths(shown, cells, rows)) <= width:
            break
        if name in shown:
            shown.remove(name)
    widths = _widths(shown, cells, rows)
    head = _line({name: name for name in shown}, widths)
    return [head, *(_text(row, each, widths) for row, each in zip(rows, cells, strict=True))]


def _cells(row: Row, rows: Sequence[Row], unit: RateUnit) -> Cells:
    tolerance = row.error is not None and row.tolerance is not None
    return {
        "backend": row.backend,
        "layout": row.layout,
        "weights": row.weights,
        "config": row.config,
        TIME: "" if row.us is None else str(row.us),
        unit.name: "" if row.gflops is None else unit.text(row.gflops),
        "GB/s": _number(row.gbytes, ".1f"),
        "roof": _number(row.roofline, ".0%"),
        "/ ours": _number(over_ours(row, rows), ".2f"),
        "error/allowed": f"{row.error:.1g}/{row.tolerance:.1g}" if tolerance else "",
    }


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _widths(shown: Sequence[str], cells: Sequence[Cells], rows: Sequence[Row]) -> Mapping[str, int]:
    """The width of each column; a row without a time says why behind its texts."""
    timed = [each for each, row in zip(cells, rows, strict=True) if row.us is not None]
    return {
        name: max(len(name), *(len(each[name]) for each in (cells if name in _LEFT else timed)), 0)
        for name in shown
    }


def _width(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _text(row: Row, cells: Cells, widths: Mapping[str, int]) -> str:
    if row.us is None:
        known = {name: size for name, size in widths.items() if name in _LEFT}
        return f"{_line(cells, known)}{_GAP}{row.failure}"
    line = _line(cells, widths)
    return line if row.failure is None else f"{line}{_GAP}WRONG"


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    texts = [
        cells[name].ljust(size) if name in _LEFT else cells[name].rjust(size)
        for name, size in widths.items()
    ]
    return _GAP.join(texts).rstrip()
