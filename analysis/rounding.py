"""Which scalar ops on floats round, and which ops a rounding may trade places with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import ContainerType

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation, SSAValue

MONOTONE: Final = frozenset(
    (
        *("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"),
        *("arith.negf", "math.absf"),
    )
)
"""Ops that give the same whether their operands are rounded first or their results are."""

EXACT: Final = MONOTONE | {"math.floor", "math.ceil", "math.roundeven"}
"""Ops whose results need no rounding, of whatever format their operands are."""


def is_rounded_to(value: SSAValue, kinds: tuple[type[Attribute], ...]) -> bool:
    """Whether numbers of these types are all that ops use of a value, or of its products.

    What a program returns is used by no op.
    """

    def is_rounded(user: Operation) -> bool:
        if isinstance(user, arith.MulfOp):
            return is_rounded_to(user.result, kinds)
        if not isinstance(user, arith.TruncFOp):
            return False
        kept: Attribute = user.result.type
        element = kept.get_element_type() if isinstance(kept, ContainerType) else kept
        return isinstance(element, kinds)

    users = [use.operation for use in value.uses]
    return bool(users) and all(map(is_rounded, users))
