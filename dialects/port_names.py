"""What a function calls its arguments and results, beyond its own text."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Attribute

INPUTS_ATTR = "convir.inputs"
"""The names of a function's arguments, in order: an array of strings."""

OUTPUTS_ATTR = "convir.outputs"
"""The names of its results, in order: an array of strings."""


def name_ports(function: FuncOp, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Say what the arguments and results of `function` are called."""
    for attribute, names in ((INPUTS_ATTR, inputs), (OUTPUTS_ATTR, outputs)):
        function.attributes[attribute] = ArrayAttr([StringAttr(name) for name in names])


def port_names(function: FuncOp, attribute: str, count: int) -> tuple[str, ...]:
    """What `function` calls `count` arguments or results; empty names where it does not say.

    Args:
        function: a function.
        attribute: `INPUTS_ATTR` or `OUTPUTS_ATTR`.
        count: of what is named.
    """
    found = function.attributes.get(attribute)
    names = cast("ArrayAttr[Attribute]", found).data if isinstance(found, ArrayAttr) else ()
    given = tuple(name.data for name in names if isinstance(name, StringAttr))
    return given if len(given) == count else ("",) * count
