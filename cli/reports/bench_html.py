"""A benchmark's report as one page that needs nothing else: plots, and every row."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from convir.cli.reports.bench_plot import Record, bars, roofline, timed
from convir.dialects.conv.problem import COMMANDS
from convir.runtime.bench.row import OURS
from convir.runtime.bench.session import geomean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STYLE = """
:root { color-scheme: light dark; --ours: #2a7de1; --peer: #d97706; --faint: #8884; }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.5rem } h3 { font-size: 1rem }
svg { width: 100%; max-width: 720px; display: block }
svg text { font-size: 11px; fill: currentColor }
.ours { fill: var(--ours); color: var(--ours) } .peer, .slower { fill: var(--peer) }
.peer { color: var(--peer); fill-opacity: .7 } .grid { stroke: var(--faint) }
.roof { fill: none; stroke: currentColor; stroke-width: 1.5 }
.equal { stroke: currentColor; stroke-dasharray: 3 3 }
table { border-collapse: collapse; display: block; overflow-x: auto }
table { font-variant-numeric: tabular-nums }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--faint) }
th:first-child, td:first-child { text-align: left; font: 12px ui-monospace, monospace }
td.text { text-align: left } tr.failed { color: #c2410c }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem }
dt { opacity: .7 } dd { margin: 0 }
"""

_TEXTS = ("backend", "layout", "weights", "config")
_TYPES = {command: dtype for dtype, command in COMMANDS.items()}

_COLUMNS = ("problem", *_TEXTS, "µs", "p20", "p80", "TFLOP/s", "GB/s", "roof")


def page_of(report: Mapping[str, Any]) -> str:
    """The report of a run, as `--json` has it, as HTML that is well-formed XML too."""
    rows: list[Record] = report["rows"]
    suites = dict.fromkeys(row["suite"] for row in rows)
    sections = [
        _suite(suite, [row for row in rows if row["suite"] == suite], report["ceilings"])
        for suite in suites
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en" xmlns="http://www.w3.org/1999/xhtml"><head><meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width"/>',
            f"<title>convir-bench</title><style>{_STYLE}</style></head><body>",
            "<h1>convir-bench</h1>",
            _environment(report["environment"]),
            *sections,
            "</body></html>\n",
        ]
    )


def short_name(line: str) -> str:
    """A problem's sizes, from its line: `f16 n32 c256 200x200 k512 1x1/2 g32`."""
    words = line.split()
    values = dict(zip(words[1::2], words[2::2], strict=False))
    sizes = [values[key] for key in ("--in_d", "-H", "-W") if key in values]
    taps = [values[key] for key in ("--fil_d", "-y", "-x") if key in values]
    stride = values.get("-v", "1")
    parts = [
        _TYPES.get(words[0], words[0]),
        *(f"{key}{values[f'-{key}']}" for key in "nc" if f"-{key}" in values),
        "x".join(sizes),
        f"k{values.get('-k', '')}",
        "x".join(taps) + (f"/{stride}" if stride != "1" else ""),
    ]
    groups = values.get("-g", "1")
    return " ".join([*parts, f"g{groups}"] if groups != "1" else parts)


def _environment(environment: Mapping[str, Any]) -> str:
    flat = {**environment, **environment["packages"]}
    del flat["packages"]
    items = [
        f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>"
        for key, value in flat.items()
        if value is not None
    ]
    return f"<dl>{''.join(items)}</dl>"


def _suite(suite: str, rows: Sequence[Record], ceilings: Mapping[str, Any]) -> str:
    parts = [f"<section><h2>{escape(suite)}</h2>"]
    right = timed(rows)
    if right:
        parts.append('<p><span class="ours">●</span> convir <span class="peer">●</span> peers</p>')
        dtypes = {row["line"].partition(" ")[0] for row in right}
        of_suite = {t: c for t, c in ceilings.items() if COMMANDS[t] in dtypes}
        parts.append(roofline(right, of_suite or ceilings))
    for peer in dict.fromkeys(row["backend"] for row in right if row["backend"] != OURS):
        ratios = _ratios(right, peer)
        if ratios:
            mean = geomean([ratio for _, _, ratio in ratios])
            parts.append(f"<h3>Speed over {escape(peer)}’s best layout, geomean {mean:.2f}</h3>")
            parts.append(bars(ratios))
    parts.append(_table(rows))
    return "\n".join([*parts, "</section>"])


def _ratios(rows: Sequence[Record], peer: str) -> list[tuple[str, str, float]]:
    found: list[tuple[str, str, float]] = []
    for line in dict.fromkeys(row["line"] for row in rows):
        on_line = [row for row in rows if row["line"] == line]
        ours: dict[str, float] = {}
        for row in on_line:
            if row["backend"] == OURS:
                best = ours.get(row["weights"], row["us"]["median"])
                ours[row["weights"]] = min(best, row["us"]["median"])
        ratios = [
            row["us"]["median"] / ours[row["weights"]]
            for row in on_line
            if row["backend"] == peer and row["weights"] in ours
        ]
        if ratios:
            found.append((short_name(line), line, min(ratios)))
    return found


def _table(rows: Sequence[Record]) -> str:
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    return f"<table><tr>{head}</tr>\n" + "\n".join(map(_table_row, rows)) + "\n</table>"


def _table_row(row: Record) -> str:
    name = f'<td title="{escape(row["line"])}">{escape(short_name(row["line"]))}</td>'
    texts = "".join(f'<td class="text">{escape(str(row[key]))}</td>' for key in _TEXTS)
    us = row["us"]
    if us is None:
        reason = escape(str(row["failure"]))
        return f'<tr class="failed">{name}{texts}<td class="text" colspan="6">{reason}</td></tr>'
    figures = (
        f"{us['median']:.1f}",
        f"{us['p20']:.1f}",
        f"{us['p80']:.1f}",
        f"{row['flops'] / us['median'] / 1e6:.1f}",
        f"{row['bytes'] / us['median'] / 1e3:.0f}",
        f"{row['floor_us'] / us['median']:.0%}" if row["failure"] is None else row["failure"],
    )
    cells = "".join(f"<td>{escape(figure)}</td>" for figure in figures)
    kind = ' class="failed"' if row["failure"] is not None else ""
    return f"<tr{kind}>{name}{texts}{cells}</tr>"
