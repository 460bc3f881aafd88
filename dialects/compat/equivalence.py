"""Whether two pieces of IR say the same.

xDSL's `is_structurally_equivalent` does not compare the types of results: to it, windows of two
sizes are one where only a `tensor.empty` has the size, and so are roundings to f16 and to bf16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Operation, Region


def is_equivalent(one: Operation | Region, other: Operation | Region) -> bool:
    """Whether both say the same, whatever their values are called."""
    return one.is_structurally_equivalent(other) and all(
        op.result_types == same.result_types
        for op, same in zip(one.walk(), other.walk(), strict=True)
    )
