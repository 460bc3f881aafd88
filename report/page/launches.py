"""The kernels of a report: a graph of launches and their buffers, and where the time goes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from convir.passes.manager.quantities import bytes_text
from convir.report.page.figures import time_of
from convir.report.page.shares import Share, shares_of
from convir.report.page.words import us_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.report.collect import Record

_MOST_LINKS = 6
_HEADS = ("kernel", "config", "calls", "time", "share", "of the roofline")
_TEXTS = 3
"""So many of these are words."""


def launches(report: Record) -> str:
    """All programs: their launches, and beside them what is known of the chosen one."""
    parts = [_by_kernel(report)] if report["programs"] else []
    for place, program in enumerate(report["programs"]):
        longest = max(map(time_of, program["nodes"]), default=0.0)
        items = "".join(_call(report, place, node, longest) for node in program["nodes"])
        ends = ", ".join(program["inputs"]), ", ".join(program["outputs"])
        parts.append(
            f"<h3>@{escape(program['name'])}</h3><p class='quiet'>{escape(ends[0])} → "
            f"{escape(ends[1])}. Lines beside the launches are buffers, from who writes one to who "
            "reads it. Arrow keys go from launch to launch, → into what is known of it, Escape "
            "back.</p>"
            f'<div class="panes"><ol class="graph" data-program="{place}">'
            f'<svg aria-hidden="true"></svg>{items}</ol>'
            f'<aside class="detail empty" id="detail-{place}" aria-label="The chosen launch" '
            'tabindex="-1"><p class="quiet">Choose a launch.</p></aside></div>'
        )
    return "".join(parts)


def _call(report: Record, place: int, node: Record, longest: float) -> str:
    kernel = None if node["kernel"] is None else report["kernels"][node["kernel"]]
    time = time_of(node)
    share = f"{node['floor'] / time:.0%} of the roofline" if time else ""
    measured = f"{us_text(node['measured'])} measured" if node["measured"] else ""
    predicted = f"{us_text(node['us'])} predicted" if node["us"] else us_text(None)
    words = [
        measured,
        predicted if node["us"] or not measured else "",
        share,
        f"{bytes_text(node['bytes'])} moved",
    ]
    tensors: list[Record] = report["programs"][place]["tensors"]
    width = 100 * time / longest if longest else 0.0
    config = kernel["config"] if kernel else node["kind"]
    return (
        f'<li><button type="button" class="call" id="call-{place}-{node["number"]}" '
        f'aria-pressed="false" aria-controls="detail-{place}">'
        f'<span class="what">{node["number"]} · '
        f"{escape(kernel['operation'] if kernel else node['kind'])}</span> "
        f'<code class="quiet">{escape(config)}</code>{_line(words)}'
        f"{_line(_buffers(tensors, node))}"
        f'<span class="bar" aria-hidden="true"><span style="width:{width:.1f}%"></span></span>'
        "</button></li>"
    )


def _line(words: Sequence[str]) -> str:
    spans = " ".join(f"<span>{escape(word)}</span>" for word in words if word)
    return f'<span class="line quiet number">{spans}</span>'


def _buffers(tensors: Sequence[Record], node: Record) -> list[str]:
    """`1x8x8x64 → 1x8x8x32 float32`, and how large what is written is, and where it lies."""
    reads: list[Record] = [tensors[number] for number in node["reads"]]
    writes: list[Record] = [tensors[number] for number in node["writes"]]
    sizes = " + ".join(each["sizes"] for each in reads if each["space"] != "constant")
    made = ", ".join(each["sizes"] for each in writes)
    every: list[str] = [each["sizes"] for each in (*reads, *writes)]
    types = {each.rpartition(" ")[2] for each in every}
    if len(types) == 1:
        sizes = sizes.replace(f" {types.pop()}", "")
    places = [f"{bytes_text(each['bytes'])} {_place(each)}" for each in writes]
    return [f"{sizes} → {made}".strip(), *places]


def _place(tensor: Record) -> str:
    space: str = tensor["space"]
    return f"in the arena at {tensor['offset']:,}" if space.startswith("arena") else f"in {space}"


def _by_kernel(report: Record) -> str:
    """A table of what each kernel takes in all of its calls."""
    shares = shares_of(report)
    if not shares:
        return ""
    total = sum(each.us for each in shares)
    heads = "".join(
        f'<th scope="col"{" class=text" if i < _TEXTS else ""}>{name}</th>'
        for i, name in enumerate(_HEADS)
    )
    rows = "".join(_share(number, each, total) for number, each in enumerate(shares))
    count = f"{len(shares)} kernel{'s' if len(shares) > 1 else ''}"
    return (
        f'<details id="by-kernel"><summary>Time by kernel: {count}, the slowest first</summary>'
        f'<div class="scroll"><table><tr>{heads}</tr>{rows}</table></div></details>'
    )


def _share(number: int, share: Share, total: float) -> str:
    links = [
        f'<a href="#call-{place}-{node["number"]}" aria-label="call {node["number"]}">'
        f"{node['number']}</a>"
        for place, node in share.calls[:_MOST_LINKS]
    ]
    more = len(share.calls) - len(links)
    rest = f" and {more} more" if more else ""
    return (
        f'<tr id="share-{number}" tabindex="-1"><td class="text reason">{escape(share.what)}</td>'
        f'<td class="text problem reason">{escape(share.config)}</td>'
        f'<td class="text">{" ".join(links)}{rest}</td><td>{us_text(share.us)}</td>'
        f"<td>{share.us / total:.0%}</td><td>{share.floor / share.us:.0%}</td></tr>"
    )
