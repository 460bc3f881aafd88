"""What a module says, as text that stands for it in the program cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.utils.hints import isa

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

MAX_PRINTED_BYTES = 4 << 20
"""Larger constants take too long to print."""

_RESOURCE = b"dense_resource<"
"""Names elements that stand elsewhere."""


def text_of(module: ModuleOp) -> bytes | None:
    """The text of `module`, or None where it would not say all, or where it is too long to be kept.

    Elements are printed as the bytes that they are, so equal texts are equal modules.
    """
    if sum(map(_constant_bytes, module.walk())) > MAX_PRINTED_BYTES:
        return None
    text = str(module).encode()
    return None if _RESOURCE in text else text


def _constant_bytes(op: Operation) -> int:
    attributes = (*op.attributes.values(), *op.properties.values())
    return sum(len(a.data.data) for a in attributes if isa(a, DenseIntOrFPElementsAttr))
