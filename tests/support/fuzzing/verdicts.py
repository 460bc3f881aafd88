"""What a case found: counts, and failures that can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Kind(StrEnum):
    """What may go wrong."""

    DIFFERS = "differing results"
    INTERNAL = "internal errors"
    INVALID = "invalid IR after a pass"
    REPEATED = "second runs that changed something"
    PRINTING = "unstable printing"
    UNREAD = "valid programs that were not read"
    SLOW = "cases without an end"


class Failed(Exception):  # noqa: N818  (a finding, not an error of the harness)
    """A property does not hold."""

    def __init__(self, kind: Kind, where: str, what: str) -> None:
        super().__init__(f"{kind}: {where}: {what}")
        self.kind = kind
        self.where = where
        """The pass, or the station."""
        self.what = what
        """One line or several."""

    @property
    def signature(self) -> tuple[Kind, str, str]:
        """Equal for failures of one cause, mostly."""
        first = self.what.partition("\n")[0]
        return self.kind, self.where, first.partition(":")[0][:60]


@dataclass(frozen=True)
class Finding:
    """One failure of one case, with the smallest text that shows it."""

    case: int
    failed: tuple[Kind, str, str]
    what: str
    passes: str
    text: str


@dataclass
class Tally:
    """What some cases found together."""

    functions: int = 0
    runs: Counter[str] = field(default_factory=Counter[str])
    """Of each pass."""
    changed: Counter[str] = field(default_factory=Counter[str])
    """Runs of each pass that changed something."""
    refused: Counter[str] = field(default_factory=Counter[str])
    """Located errors of each pass."""
    unchecked: int = 0
    """Functions whose results were not compared."""
    findings: list[Finding] = field(default_factory=list[Finding])

    def add(self, other: Self) -> None:
        """Take in what other cases found."""
        self.functions += other.functions
        self.runs += other.runs
        self.changed += other.changed
        self.refused += other.refused
        self.unchecked += other.unchecked
        self.findings += other.findings
