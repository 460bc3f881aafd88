"""A report as one page that needs nothing else: what is read at once as HTML, the rest as data."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from convir.passes.manager.quantities import bytes_change, bytes_text, flops_change, flops_text
from convir.report.answers import answers
from convir.report.assets import SCRIPTS, STYLES, asset
from convir.report.census import census_section
from convir.report.figures import memory_picture, roofline_picture, time_of
from convir.report.words import us_text

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        "passes": ("Passes", _passes(report)),
        "kernels": ("Kernels", _kernels(report)),
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
            f"<header><h1>{name}</h1><p>{_summary(report)}</p></header>",
            f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
            f'<main id="main">{body}</main>',
            "<noscript><p>A script of this page shows diffs, kernels and code.</p></noscript>",
            f'<script type="application/octet-stream" id="data">{data}</script>',
            f'<script>"use strict";\n(() => {{\n{script}}})();</script>',
            "</body></html>\n",
        ]
    )


def _summary(report: Record) -> str:
    nodes = [node for program in report["programs"] for node in program["nodes"]]
    total = sum(map(time_of, nodes))
    untimed = sum(not time_of(node) for node in nodes)
    is_measured = any(node["measured"] for node in nodes)
    how = "measured" if is_measured else "predicted"
    parts = [f"for {report['device']} ({report['machine']})"]
    parts += [f"{len(report['steps'])} passes"] if report["steps"] else []
    if nodes:
        arena = sum(program["arenaBytes"] for program in report["programs"])
        rest = f" and {untimed} launches that nothing predicts" if untimed else ""
        parts.append(f"{len(nodes)} calls of {len(report['kernels'])} kernels")
        parts.append(f"{us_text(total)} {how}{rest}")
        if is_measured:
            rest = sum(node["us"] is None for node in nodes)
            but = f" without {rest} that nothing predicts" if rest else ""
            parts.append(f"{us_text(sum(node['us'] or 0.0 for node in nodes))} predicted{but}")
            floor = sum(node["floor"] for node in nodes)
            parts.append(f"{floor / total:.0%} of the roofline")
        parts.append(f"{flops_text(sum(node['flops'] for node in nodes))}")
        parts.append(f"an arena of {bytes_text(arena)}")
    failure = report["failure"]
    told = f'<br/><span class="verdict-bad">No program: {escape(failure)}</span>' if failure else ""
    return escape(", ".join(parts)) + told


def _answers(report: Record) -> str:
    items: list[str] = []
    for question, group in groupby(answers(report), key=lambda each: each.question):
        items.append(f"<dt>{escape(question)}</dt>")
        items += [
            f'<dd>{escape(each.text)} <a href="#{each.target}">Show</a></dd>' for each in group
        ]
    return f'<dl class="answers">{"".join(items)}</dl>' if items else ""


def _passes(report: Record) -> str:
    given: list[Record] = report["steps"]
    steps = list(enumerate(given))
    if not steps:
        return ""
    items: list[str] = []
    for changed, group in groupby(steps, key=lambda each: _is_shown(each[1])):
        shown = list(group)
        if changed:
            items += [_changed(number, step) for number, step in shown]
        else:
            items.append(_folded(shown))
    return f'<ol class="timeline">{"".join(items)}</ol>'


def _is_shown(step: Record) -> bool:
    return step["changed"] or any(check["severity"] != "remark" for check in step["checks"])


def _changed(number: int, step: Record) -> str:
    flops, moved = _change(flops_change, step["flops"]), _change(bytes_change, step["bytes"])
    name, options = _named(step)
    before, after = step["ops"]
    ops = f"{before} → {after}" if before != after else str(after)
    parts = [
        f"<code><strong>{escape(name)}</strong></code>",
        _figure(flops),
        _figure(moved),
        _figure(f"{ops} ops"),
        _figure(f"{step['ms']:.1f} ms"),
        _verdict(step),
    ]
    return (
        f'<li class="changed"><details class="step" id="pass-{number}" data-step="{number}">'
        f"<summary>{''.join(parts)}</summary>{options}{_remarks(step)}{_checks(step)}"
        '<div class="ir"></div></details></li>'
    )


def _named(step: Record) -> tuple[str, str]:
    """The name of a step's pass, and its options as they stand in the opened step."""
    name, brace, options = step["name"].partition("{")
    shown = f"<p class='mono quiet'>{escape(brace + options)}</p>" if brace else ""
    return name, shown


def _change(told: object, pair: Sequence[int]) -> str:
    before, after = pair
    same = flops_text if told is flops_change else bytes_text
    if before == after:
        return same(after)
    text = flops_change(before, after) if told is flops_change else bytes_change(before, after)
    return text.replace("->", "→")


def _figure(text: str) -> str:
    return f'<span class="number quiet">{escape(text)}</span>'


def _verdict(step: Record) -> str:
    if not step["checks"]:
        return ""
    good = all(check["severity"] == "remark" for check in step["checks"])
    kind, word = ("good", "checked: agrees") if good else ("bad", "not checked")
    return f'<span class="tag {kind}">{word}</span>'


def _folded(steps: Sequence[tuple[int, Record]]) -> str:
    said = sum(len(step["remarks"]) for _, step in steps)
    count = len(steps)
    title = f"{count} pass{'es' if count > 1 else ''} changed nothing"
    remarks = f", {said} remark{'s' if said > 1 else ''}" if said else ""
    inner = "".join(_unchanged(number, step) for number, step in steps)
    return (
        f'<li><details><summary class="quiet">{title}{remarks}</summary>'
        f'<ol class="timeline">{inner}</ol></details></li>'
    )


def _unchanged(number: int, step: Record) -> str:
    name, options = _named(step)
    time = _figure(f"{step['ms']:.1f} ms")
    ir = '<div class="ir"></div>' if step["remarks"] else ""
    return (
        f'<li><details class="step" id="pass-{number}" data-step="{number}"><summary><code>'
        f"{escape(name)}</code>{time}</summary>{options}{_remarks(step)}{ir}</details></li>"
    )


def _remarks(step: Record) -> str:
    if not step["remarks"]:
        return ""
    items = "".join(f"<li>{_remark(each)}</li>" for each in step["remarks"])
    return f'<ul class="remarks">{items}</ul>'


def _remark(remark: Record) -> str:
    verb = remark["verb"] if remark["fired"] else f"not {remark['verb']}"
    place = f" at {escape(remark['origin'])}" if remark["origin"] else ""
    return f"<code>{escape(remark['op'])}</code>{place} {verb}: {escape(remark['reason'])}"


def _checks(step: Record) -> str:
    items = [
        f'<li class="{"verdict-good" if each["severity"] == "remark" else "verdict-bad"}">'
        f"{escape(each['message'])}</li>"
        for each in step["checks"]
    ]
    return f'<ul class="remarks">{"".join(items)}</ul>' if items else ""


def _kernels(report: Record) -> str:
    parts: list[str] = []
    for place, program in enumerate(report["programs"]):
        longest = max(map(time_of, program["nodes"]), default=0.0)
        items = "".join(_call(report, place, node, longest) for node in program["nodes"])
        ends = ", ".join(program["inputs"]), ", ".join(program["outputs"])
        parts.append(
            f"<h3>@{escape(program['name'])}</h3><p class='quiet'>{escape(ends[0])} → "
            f"{escape(ends[1])}. Arrow keys go from launch to launch; the lines beside them are "
            "buffers, from who writes one to who reads it.</p>"
            f'<div class="panes"><ol class="graph" data-program="{place}">'
            f'<svg aria-hidden="true"></svg>{items}</ol>'
            '<aside class="detail empty" aria-live="polite" aria-label="The chosen launch" '
            'tabindex="-1"><p class="quiet">Choose a launch.</p></aside></div>'
        )
    return "".join(parts)


def _call(report: Record, place: int, node: Record, longest: float) -> str:
    kernel = None if node["kernel"] is None else report["kernels"][node["kernel"]]
    tensors = report["programs"][place]["tensors"]
    written = ", ".join(tensors[number]["sizes"] for number in node["writes"])
    time = time_of(node)
    share = f"{node['floor'] / time:.0%} of the roofline" if time else ""
    measured = f"{us_text(node['measured'])} measured" if node["measured"] else ""
    predicted = f"{us_text(node['us'])} predicted" if node["us"] else us_text(None)
    words = [
        measured,
        predicted if node["us"] or not measured else "",
        share,
        bytes_text(node["bytes"]),
        f"→ {written}",
    ]
    line = "".join(f"<span>{escape(word.strip())}</span>" for word in words if word.strip())
    width = 100 * time / longest if longest else 0.0
    config = kernel["config"] if kernel else node["kind"]
    return (
        f'<li><button type="button" class="call" id="call-{place}-{node["number"]}" '
        f'aria-pressed="false"><span class="what">{node["number"]} · '
        f"{escape(kernel['operation'] if kernel else node['kind'])}</span> "
        f'<code class="quiet">{escape(config)}</code>'
        f'<span class="line quiet number">{line}</span>'
        f'<span class="bar" aria-hidden="true"><span style="width:{width:.1f}%"></span></span>'
        "</button></li>"
    )


def _memory(report: Record) -> str:
    parts: list[str] = []
    for place, program in enumerate(report["programs"]):
        boxes = [x for x in program["tensors"] if x["space"].startswith("arena")]
        if not boxes:
            continue
        side = sum(box["bytes"] for box in boxes)
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
            f"{bytes_text(side)}. Constants take {bytes_text(program['constantBytes'])} besides."
            f'</p><div class="scroll wide">{memory_picture(program, place)}</div>'
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
