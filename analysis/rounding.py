"""Which scalar ops on floats round, and which ops a rounding may trade places with."""

from __future__ import annotations

from typing import Final

MONOTONE: Final = frozenset(
    (
        *("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"),
        *("arith.negf", "math.absf"),
    )
)
"""Ops that give the same whether their operands are rounded first or their results are."""

EXACT: Final = MONOTONE | {"math.floor", "math.ceil", "math.roundeven"}
"""Ops whose results need no rounding, of whatever format their operands are."""
