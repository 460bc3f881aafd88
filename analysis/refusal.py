"""The answer of an analysis that cannot prove what its caller needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """Why a plan cannot be made. Predicates return `Plan | Refusal`, never a bare None."""

    reason: str
    """One clause without a full stop, fit for a remark: which precondition fails, and where."""

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class NoMatch(Refusal):
    """An op that a pass has no business with: its refusal is worth no remark."""

    reason: str = "it is none of those that are looked for"
