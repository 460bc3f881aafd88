"""What of each graph runs on convir, and why the rest does not."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)
_reports: list[GraphReport] = []
_KEPT = 256
"""Reports of the last graphs."""


@dataclass
class GraphReport:
    """One graph that `torch.compile` handed over, for one set of shapes."""

    taken: int = 0
    """Calls that run on convir."""
    pieces: int = 0
    """Programs that they were compiled to."""
    left: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Calls that stay PyTorch's, by operator and reason."""

    not_replayed: str = ""
    """Why calls on a GPU are not replays of a CUDA graph; empty where they are, and on a CPU."""

    def give_back(self, calls: Sequence[str]) -> None:
        """Count the operators of a piece, which was counted as taken, as left."""
        self.taken -= len(calls)
        self.pieces -= 1
        self.left.update((call, "its piece was not compiled") for call in calls)

    @property
    def share(self) -> float:
        """The share of calls that run on convir, 0 to 1; 1 of a graph without calls."""
        count = self.taken + self.left.total()
        return self.taken / count if count else 1.0

    def __str__(self) -> str:
        head = f"{self.share:.1%} of {self.taken + self.left.total()} calls in {self.pieces} pieces"
        lines = (f"  {count} x {op}: {why}" for (op, why), count in self.left.most_common())
        replayed = [f"  no CUDA graph: {self.not_replayed}"] if self.not_replayed else []
        return "\n".join((head, *lines, *replayed))


def reports() -> list[GraphReport]:
    """Of the graphs that were compiled in this process, the oldest first."""
    return list(_reports)


def add(report: GraphReport) -> None:
    """Keep a report, and log it."""
    _reports.append(report)
    del _reports[:-_KEPT]
    _log.info("%s", report)
