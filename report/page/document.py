"""A report as one page that needs nothing else: what is read at once as HTML, the rest as data."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from convir.passes.manager.quantities import bytes_text, flops_text
from convir.report.page.answers import answers
from convir.report.page.assets import SCRIPTS, STYLES, asset
from convir.report.page.census import census_section
from convir.report.page.figures import memory_picture, most_alive, roofline_picture, time_of
from convir.report.page.launches import launches
from convir.report.page.timeline import timeline
from convir.report.page.words import us_text

if TYPE_CHECKING:
    from convir.report.collect import Record

_LEVEL = 6
"""Of zlib."""
_MARKS = ".of-convir { fill: light-dark(#1f6fd6, #5aa2ff); stroke: light-dark(#1f6fd6, #5aa2ff) }"


def page_of(report: Record) -> str:
    """The page of a report's data."""
    style = "".join(map(asset, STYLES)) + _MARKS
    script = "".join(map(asset, SCRIPTS))
    packed = json.dumps(report, separators=(",", ":"), ensure_ascii=False).encode()
    data = base64.b64encode(zlib.compress(packed, _LEVEL)).decode()
    sections = {
        "answers": ("What happened", _answers(report)),
        "passes": ("Passes", timeline(report)),
        "kernels": ("Kernels", launches(report)),
        "memory": ("Memory", _memory(report)),
        "roofline": ("Roofline", _roofline(report)),
        "census": ("Census of PyTorch", census_section(report.get("census"))),
    }
    shown = {key: value for key, value in sections.items() if value[1]}
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, (title, _) in shown.items())
    body = "\n".join(
        f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{title}</h2>'
        f"{content}</section>"
        for key, (title, content) in shown.items()
    )
    name = escape(report["name"])
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            '<link rel="icon" href="data:,"/>',
            f"<title>{name} – convir</title><style>{style}</style></head><body>",
            '<a class="skip" href="#main">Skip to the report</a>',
            f"<header><h1>{name}</h1>{_summary(report)}</header>",
            f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
            f'<main id="main">{body}</main>',
            "<noscript><p>A script of this page shows diffs, kernels and code.</p></noscript>",
            f'<script type="application/octet-stream" id="data">{data}</script>',
            f'<script>"use strict";\n(() => {{\n{script}}})();</script>',
            "</body></html>\n",
        ]
    )


def _summary(report: Record) -> str:
    """What it is for, and the figures of the whole."""
    where = f"for {report['device']} ({report['machine']})"
    failure = report["failure"]
    told = f'<p class="verdict-bad">No program: {escape(failure)}</p>' if failure else ""
    tiles = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in _figures(report)
    )
    return f'<p>{escape(where)}</p>{told}<dl class="tiles">{tiles}</dl>'


def _figures(report: Record) -> list[tuple[str, str]]:
    steps, programs = report["steps"], report["programs"]
    nodes = [node for program in programs for node in program["nodes"]]
    found: list[tuple[str, str]] = []
    total = sum(map(time_of, nodes))
    if any(node["measured"] for node in nodes):
        found.append(("measured", us_text(total)))
    predicted = sum(node["us"] or 0.0 for node in nodes)
    unpredicted = sum(node["us"] is None for node in nodes)
    if predicted:
        rest = f" + {unpredicted} calls nothing predicts" if unpredicted else ""
        found.append(("predicted", f"{us_text(predicted)}{rest}"))
    if total:
        floor = sum(node["floor"] for node in nodes if time_of(node))
        found.append(("of the roofline", f"{floor / total:.0%}"))
    if nodes:
        flops = flops_text(sum(node["flops"] for node in nodes))
        arena = bytes_text(sum(program["arenaBytes"] for program in programs))
        found += [("calls", str(len(nodes))), ("kernels", str(len(report["kernels"])))]
        found += [("arithmetic", flops), ("arena", arena)]
    if steps:
        found.append(("passes", str(len(steps))))
    return found


def _answers(report: Record) -> str:
    items: list[str] = []
    for question, group in groupby(answers(report), key=lambda each: each.question):
        told = "".join(
            f'<dd>{escape(each.text)} <a href="#{each.target}" '
            f'aria-label="Show: {escape(question)}">Show</a></dd>'
            for each in group
        )
        items.append(f"<div><dt>{escape(question)}</dt>{told}</div>")
    return f'<dl class="answers">{"".join(items)}</dl>' if items else ""


def _memory(report: Record) -> str:
    parts: list[str] = []
    for place, program in enumerate(report["programs"]):
        boxes = [x for x in program["tensors"] if x["space"].startswith("arena")]
        if not boxes:
            continue
        side = sum(box["bytes"] for box in boxes)
        alive, call = most_alive(program)
        rows = "".join(
            f'<tr><td class="text">{escape(box["name"])}</td><td class="text">{box["sizes"]}</td>'
            f"<td>{bytes_text(box['bytes'])}</td><td>{box['offset']:,}</td>"
            f'<td><a href="#call-{place}-{box["first"]}">{box["first"]}</a></td>'
            f'<td><a href="#call-{place}-{box["last"]}">{box["last"]}</a></td></tr>'
            for box in boxes
        )
        heads = "".join(
            f'<th scope="col"{" class=text" if i < 2 else ""}>{name}</th>'
            for i, name in enumerate(("buffer", "type", "size", "offset", "from call", "to call"))
        )
        parts.append(
            f"<h3>@{escape(program['name'])}</h3><p>{len(boxes)} buffers share an arena of "
            f"{bytes_text(program['arenaBytes'])}; side by side they would take "
            f"{bytes_text(side)}. At most {bytes_text(alive)} are alive at once, in call {call}. "
            f"Constants take {bytes_text(program['constantBytes'])} besides.</p>"
            f"{memory_picture(program, place)}"
            f'<details><summary>As a table</summary><div class="scroll"><table><tr>{heads}</tr>'
            f"{rows}</table></div></details>"
        )
    return "".join(parts)


def _roofline(report: Record) -> str:
    nodes = [
        (place, node)
        for place, program in enumerate(report["programs"])
        for node in program["nodes"]
        if node["flops"] and node["bytes"] and time_of(node) and node["kernel"] is not None
    ]
    elements = [report["kernels"][node["kernel"]]["element"] for _, node in nodes]
    roofs = {key: roof for key, roof in report["roofs"].items() if key in elements}
    if not nodes:
        return ""
    how = "measured" if any(node["measured"] for _, node in nodes) else "predicted"
    return (
        f"<p class='note'>Each mark is a launch, by its {how} time; the roofs are the rates of "
        f"{escape(report['machine'])} as predictions know them. Bytes are those of its operands, "
        "once each: what stays in a cache may lie above the slope.</p>"
        f"{roofline_picture(nodes, roofs, elements)}"
    )
