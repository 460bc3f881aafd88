"""The passes of a report: a row for each that changed something, and the others folded."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from convir.passes.manager.quantities import bytes_change, bytes_text, flops_change, flops_text
from convir.report.page.words import arrows, us_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.report.collect import Record

_HEADS = ("pass", "FLOPs", "bytes", "operations", "time", "check")
_US_OF_MS = 1e3


def timeline(report: Record) -> str:
    """The passes in order, each of which opens as what it changed and said."""
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
    heads = "".join(f"<span>{name}</span>" for name in _HEADS)
    return (
        f'<p class="note">{_total(given)}</p>'
        f'<div class="heads quiet" aria-hidden="true">{heads}</div>'
        f'<ol class="timeline">{"".join(items)}</ol>'
    )


def _total(steps: Sequence[Record]) -> str:
    """What all passes did together."""
    took = us_text(sum(step["ms"] for step in steps) * _US_OF_MS)
    changing = sum(step["changed"] for step in steps)
    flops = arrows(_change(flops_text, flops_change, _ends(steps, "flops")))
    moved = arrows(_change(bytes_text, bytes_change, _ends(steps, "bytes")))
    return (
        f"{len(steps)} passes took {took}, and {changing} of them changed something: {flops}, "
        f"{moved}. A row opens as the IR before and after it, with what the pass said."
    )


def _ends(steps: Sequence[Record], key: str) -> tuple[int, int]:
    return steps[0][key][0], steps[-1][key][1]


def _is_shown(step: Record) -> bool:
    return step["changed"] or any(check["severity"] != "remark" for check in step["checks"])


def _changed(number: int, step: Record) -> str:
    name, options = _named(step)
    before, after = step["ops"]
    ops = f"{before} → {after}" if before != after else str(after)
    parts = [
        f"<code><strong>{escape(name)}</strong></code>",
        _figure(_change(flops_text, flops_change, step["flops"]), step["flops"]),
        _figure(_change(bytes_text, bytes_change, step["bytes"]), step["bytes"]),
        f'<span class="number quiet">{ops} ops</span>',
        _time(step),
        _verdict(step),
    ]
    return (
        f'<li class="changed"><details class="step" id="pass-{number}" data-step="{number}">'
        f"<summary>{' '.join(parts)}</summary>{options}{_remarks(step)}{_checks(step)}"
        '<div class="ir"></div></details></li>'
    )


def _named(step: Record) -> tuple[str, str]:
    """The name of a step's pass, and its options as they stand in the opened step."""
    name, brace, options = step["name"].partition("{")
    shown = f"<p class='mono quiet'>{escape(brace + options)}</p>" if brace else ""
    return name, shown


def _change(
    same: Callable[[int], str], told: Callable[[int, int], str], pair: Sequence[int]
) -> str:
    before, after = pair
    return same(after) if before == after else told(before, after)


def _figure(text: str, pair: Sequence[int]) -> str:
    """A quantity; one that fell or rose stands out."""
    before, after = pair
    if before == after:
        return f'<span class="number quiet">{escape(text)}</span>'
    kind = "less" if after < before else "more"
    return f'<span class="number {kind}">{escape(arrows(text))}</span>'


def _time(step: Record) -> str:
    return f'<span class="number quiet">{step["ms"]:.1f} ms</span>'


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
    ir = '<div class="ir"></div>' if step["remarks"] else ""
    return (
        f'<li><details class="step same" id="pass-{number}" data-step="{number}"><summary><code>'
        f"{escape(name)}</code> {_time(step)} {_said(step)}</summary>"
        f"{options}{_remarks(step)}{ir}</details></li>"
    )


def _said(step: Record) -> str:
    count = len(step["remarks"])
    return f'<span class="tag">{count} remark{"s" if count > 1 else ""}</span>' if count else ""


def _remarks(step: Record) -> str:
    if not step["remarks"]:
        return ""
    items = "".join(f"<li>{_remark(each)}</li>" for each in step["remarks"])
    return f'<ul class="remarks">{items}</ul>'


def _remark(remark: Record) -> str:
    verb = remark["verb"] if remark["fired"] else f"not {remark['verb']}"
    place = f" at {escape(remark['origin'])}" if remark["origin"] else ""
    reason = escape(arrows(remark["reason"]))
    return f"<code>{escape(remark['op'])}</code>{place} {verb}: {reason}"


def _checks(step: Record) -> str:
    items = [
        f'<li class="{"verdict-good" if each["severity"] == "remark" else "verdict-bad"}">'
        f"{escape(each['message'])}</li>"
        for each in step["checks"]
    ]
    return f'<ul class="remarks">{"".join(items)}</ul>' if items else ""
