"""A benchmark's report as one page that needs nothing else: plots, and every row."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, cast

from convir.cli.files.bench_lines import canonical, short_name
from convir.cli.reports.bench_marks import colour_styles, legend
from convir.cli.reports.bench_plot import above_the_roof, bars, gflops_of, roofline, timed
from convir.dialects.conv.problem import COMMANDS
from convir.report.page.assets import asset
from convir.runtime.bench.machine_load import warning_of
from convir.runtime.bench.row import OURS, RateUnit
from convir.runtime.bench.session import geomean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.cli.reports.bench_marks import Record

_TEXTS = ("backend", "layout", "weights", "config")
_FIGURES = ("µs", "p20", "p80")
_SUMMARY = ("device", "cpu", "gpu", "threads")
"""What of the environment is seen at once."""


def page_of(report: Mapping[str, Any]) -> str:
    """The report of a run, as `--json` has it, as HTML that is well-formed XML too."""
    rows: list[Record] = report["rows"]
    suites = dict.fromkeys(row["suite"] for row in rows)
    unit = RateUnit.of(map(gflops_of, timed(rows)))
    sections = [
        _suite(suite, [row for row in rows if row["suite"] == suite], report["ceilings"], unit)
        for suite in suites
    ]
    warning = warning_of(report["environment"].get("load"))
    style = asset("base.css") + colour_styles()
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en" xmlns="http://www.w3.org/1999/xhtml"><head><meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width"/>',
            f"<title>convir-bench</title><style>{style}</style></head><body>",
            "<h1>convir-bench</h1>",
            f'<p class="warning">Warning: {escape(warning)}.</p>' if warning else "",
            _environment(report["environment"]),
            *sections,
            "</body></html>\n",
        ]
    )


def _environment(environment: Mapping[str, Any]) -> str:
    flat: dict[str, Any] = {}
    for key, value in environment.items():
        if isinstance(value, dict):
            prefix = "" if key == "packages" else f"{key}: "
            of_key = cast("dict[str, Any]", value)
            flat |= {f"{prefix}{name.replace('_', ' ')}": each for name, each in of_key.items()}
        else:
            flat[key] = value
    items = [
        f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>"
        for key, value in flat.items()
        if value is not None
    ]
    summary = ", ".join(
        f"{name} {environment[name]}" if name == "threads" else str(environment[name])
        for name in _SUMMARY
        if environment.get(name) is not None
    )
    told = escape(summary or "environment")
    return f"<details><summary>{told}</summary><dl>{''.join(items)}</dl></details>"


def _suite(suite: str, rows: Sequence[Record], ceilings: Mapping[str, Any], unit: RateUnit) -> str:
    parts = [f"<section><h2>{escape(suite)}</h2>"]
    right = timed(rows)
    plots = [_roofline(right, ceilings, unit)] if right else []
    for peer in dict.fromkeys(row["backend"] for row in right if row["backend"] != OURS):
        ratios = _ratios(right, peer)
        if ratios:
            mean = geomean([ratio for _, ratio in ratios])
            title = f"{escape(peer)}’s time over ours: geomean {mean:.2f}"
            how = "Best layouts of each, weights given in the same way."
            plots.append(f"<div><h3>{title}</h3><p>{how}</p>{bars(ratios, peer)}</div>")
    if plots:
        parts.append(f'<div class="plots">{"".join(plots)}</div>')
    parts.append(_table(rows, unit))
    return "\n".join([*parts, "</section>"])


def _roofline(rows: Sequence[Record], ceilings: Mapping[str, Any], unit: RateUnit) -> str:
    dtypes = {canonical(row["line"]).partition(" ")[0] for row in rows}
    of_suite = {t: c for t, c in ceilings.items() if COMMANDS[t] in dtypes} or ceilings
    roofs = "; ".join(
        f"{dtype}: {unit.text(limit['gflops'])} {unit.name}, {limit['gbytes']:.1f} GB/s"
        for dtype, limit in of_suite.items()
    )
    above = above_the_roof(rows)
    told = (
        f" {above} of {len(rows)} rows lie above it: their operands stay in a cache, which is "
        "faster than the memory that the slope is measured of, or they skip multiplications that "
        "the formula counts."
        if above
        else ""
    )
    note = f"The roof as measured in this run ({escape(roofs)}).{told}"
    return (
        f"<div><h3>Useful {unit.name} under the roof</h3>{legend(rows)}"
        f'{roofline(rows, of_suite, unit)}<p class="note">{note}</p></div>'
    )


def _ratios(rows: Sequence[Record], peer: str) -> list[tuple[str, float]]:
    """For each line, the least time of a peer over ours of the same weights."""
    found: list[tuple[str, float]] = []
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
            found.append((line, min(ratios)))
    return found


def _table(rows: Sequence[Record], unit: RateUnit) -> str:
    texts = "".join(f'<th class="text">{name}</th>' for name in ("problem", *_TEXTS))
    figures = "".join(f"<th>{name}</th>" for name in (*_FIGURES, unit.name, "GB/s", "of the roof"))
    body = "\n".join(_table_row(row, unit) for row in rows)
    return f'<div class="scroll"><table><tr>{texts}{figures}</tr>\n{body}\n</table></div>'


def _table_row(row: Record, unit: RateUnit) -> str:
    title, short = escape(row["line"]), escape(short_name(row["line"]))
    name = f'<td class="text problem" title="{title}">{short}</td>'
    texts = "".join(f'<td class="text">{escape(str(row[key]))}</td>' for key in _TEXTS)
    us = row["us"]
    if us is None:
        reason = escape(str(row["failure"]))
        cell = f'<td class="text reason" colspan="6">{reason}</td>'
        return f'<tr class="failed">{name}{texts}{cell}</tr>'
    figures = (
        *(f"{us[key]:.1f}" for key in ("median", "p20", "p80")),
        unit.text(gflops_of(row)),
        f"{row['bytes'] / us['median'] / 1e3:.1f}",
        f"{row['floor_us'] / us['median']:.0%}" if row["failure"] is None else row["failure"],
    )
    cells = "".join(f"<td>{escape(figure)}</td>" for figure in figures)
    kind = ' class="failed"' if row["failure"] is not None else ""
    return f"<tr{kind}>{name}{texts}{cells}</tr>"
