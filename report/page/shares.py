"""Where the time of programs goes: the launches of each kernel together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.report.page.figures import time_of

if TYPE_CHECKING:
    from convir.report.collect import Record


@dataclass
class Share:
    """What all calls of a kernel take."""

    what: str
    """What the kernel computes."""
    config: str
    kernel: int | None
    """Its number in the report; None for a copy, a fill or a library's call."""
    calls: list[tuple[int, Record]] = field(default_factory=list[tuple[int, "Record"]])
    """The number of the program and the node of each, in order."""

    @property
    def us(self) -> float:
        """All calls together, measured or else predicted."""
        return sum(time_of(node) for _, node in self.calls)

    @property
    def floor(self) -> float:
        """The least that all calls take, in µs."""
        return sum(node["floor"] for _, node in self.calls)


def shares_of(report: Record) -> list[Share]:
    """The kernels by the time of their calls; without those whose time nobody knows."""
    found: dict[object, Share] = {}
    for place, program in enumerate(report["programs"]):
        for node in program["nodes"]:
            if not time_of(node):
                continue
            number = node["kernel"]
            kernel = None if number is None else report["kernels"][number]
            what = node["kind"] if kernel is None else kernel["operation"]
            config = "" if kernel is None else kernel["config"]
            key = (place, node["kind"]) if number is None else number
            found.setdefault(key, Share(what, config, number)).calls.append((place, node))
    return sorted(found.values(), key=lambda each: -each.us)
