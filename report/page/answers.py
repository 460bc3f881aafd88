"""What a reader asks first, answered from a report's data: each with a link to where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.passes.manager.quantities import flops_change, flops_text
from convir.report.page.figures import time_of
from convir.report.page.shares import shares_of
from convir.report.page.words import arrows, us_text

if TYPE_CHECKING:
    from convir.report.collect import Record

SCATTERS = frozenset({"tensor.insert_slice", "tensor.pad", "linalg.generic"})
"""Ops that may write zeros between elements."""
_SCATTER_PASSES = (
    "swap-strided-insert-slice-with-contraction",
    "decompose-strided-dgrad",
    "convert-strided-insert-slice-to-generic",
)
_MOST = 4
_MOST_CALLS = 6
_MULTIPLY_ADD = 2
"""FLOPs."""
_ONE = 1.005


@dataclass(frozen=True)
class Answer:
    """A question, what the report says to it, and the id of the element that shows it."""

    question: str
    text: str
    target: str


def answers(report: Record) -> list[Answer]:
    """All questions that this report has an answer to."""
    return [*_zeros(report), *_scatters(report), *_slowest(report), *_next_best(report)]


def _zeros(report: Record) -> list[Answer]:
    found: list[Answer] = []
    question = "Which pass removed multiplications by zero, and how many?"
    for number, step in enumerate(report["steps"]):
        before, after = step["flops"]
        if after >= before or _pass(step) not in _SCATTER_PASSES:
            continue
        why = "; ".join(each["reason"] for each in step["remarks"] if each["fired"])
        count = (before - after) // _MULTIPLY_ADD
        text = (
            f"{_pass(step)} removed {count:,} multiply-adds, {(before - after) / before:.0%} of "
            f"all: {flops_change(before, after)}{f'. It says: {why}' if why else ''}."
        )
        found.append(Answer(question, arrows(text), f"pass-{number}"))
    if found or not report["steps"]:
        return found[:_MOST]
    total = flops_text(report["steps"][0]["flops"][0])
    return [Answer(question, f"None: there was no scatter to remove from {total}.", "passes")]


def _scatters(report: Record) -> list[Answer]:
    """The refusals of passes that remove scatters, the last word on each op."""
    last: dict[tuple[str, str], Answer] = {}
    question = "Why did a scatter stay?"
    asked = [(i, step) for i, step in enumerate(report["steps"]) if _pass(step) in _SCATTER_PASSES]
    for number, step in asked:
        for remark in step["remarks"]:
            if remark["fired"] or remark["op"] not in SCATTERS:
                continue
            place = f" at {remark['origin']}" if remark["origin"] else ""
            text = f"{remark['op']}{place}: {remark['reason']} ({_pass(step)})."
            last[remark["op"], remark["origin"]] = Answer(question, text, f"pass-{number}")
    if asked and not last:
        return [Answer(question, "No pass that removes scatters refused one.", "passes")]
    return [*last.values()][:_MOST]


def _timed(report: Record) -> list[tuple[int, Record]]:
    return [
        (place, node)
        for place, program in enumerate(report["programs"])
        for node in program["nodes"]
        if time_of(node)
    ]


def _slowest(report: Record) -> list[Answer]:
    """The kernel whose calls take most time together, and the longest call if it is another's."""
    shares = shares_of(report)
    if not shares:
        return []
    question = "Which kernel takes most time, and how far is it from its floor?"
    total = sum(each.us for each in shares)
    share = shares[0]
    place, longest = max(_timed(report), key=lambda each: time_of(each[1]))
    call = f"call-{place}-{longest['number']}"
    if len(share.calls) == 1 or not share.floor:
        return [Answer(question, f"{_took(report, longest, total)}.", call)]
    numbers = ", ".join(str(node["number"]) for _, node in share.calls[:_MOST_CALLS])
    numbers += ", …" if len(share.calls) > _MOST_CALLS else ""
    text = (
        f"{share.what} on {share.config}: {us_text(share.us)} {_how(longest)} in "
        f"{len(share.calls)} calls ({numbers}), {share.us / total:.0%} of all. Their floor is "
        f"{us_text(share.floor)}: they take {share.us / share.floor:.2f} times that."
    )
    return [
        Answer(question, text, "share-0"),
        Answer(question, f"The longest call is {_took(report, longest, total, 'call')}.", call),
    ]


def _took(report: Record, node: Record, total: float, word: str = "Call") -> str:
    """What one call takes, beside its floor."""
    text = (
        f"{word} {node['number']}, {_operation(report, node)}: {us_text(time_of(node))} "
        f"{_how(node)}, {time_of(node) / total:.0%} of all"
    )
    if not node["floor"]:
        return text
    return (
        f"{text}. Its floor is {us_text(node['floor'])}, bound by {node['bound']}: it takes "
        f"{time_of(node) / node['floor']:.2f} times that"
    )


def _how(node: Record) -> str:
    return "measured" if node["measured"] else "predicted"


def _next_best(report: Record) -> list[Answer]:
    """About the slowest kernel that had a choice."""
    for share in shares_of(report):
        if share.kernel is None:
            continue
        place, node = share.calls[0]
        kernel = report["kernels"][share.kernel]
        decision = kernel["decision"]
        others = [each for each in decision["candidates"] if not each["chosen"]]
        if not others or not decision["us"]:
            continue
        best = others[0]
        ratio = best["us"] / decision["us"]
        why = (
            f"it is not legal: {best['refusal']}"
            if best["refusal"]
            else (
                f"it is predicted to take {us_text(best['us'])}, {ratio:.3g} times as long as "
                f"{kernel['config']} ({us_text(decision['us'])})"
            )
        )
        if not best["refusal"] and ratio < 1 / _ONE:
            why = (
                f"it is predicted to take {us_text(best['us'])}, but a tuning record, or a part of "
                f"the kernel that was weighed alone, decided for {kernel['config']}"
            )
        text = f"Of call {node['number']} it is {best['config']}: {why}."
        return [
            Answer("Why did the next-best kernel lose?", text, f"call-{place}-{node['number']}")
        ]
    return []


def _pass(step: Record) -> str:
    """The name of a step's pass without its options."""
    return step["name"].partition("{")[0]


def _operation(report: Record, node: Record) -> str:
    if node["kernel"] is None:
        return node["kind"]
    kernel = report["kernels"][node["kernel"]]
    return f"{kernel['operation']} on {kernel['config']}"
