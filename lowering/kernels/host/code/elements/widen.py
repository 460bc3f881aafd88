"""16-bit floats in f32, by instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Function, Value, vector

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import StorageType


def widened(f: Function, bits: Value, type_: StorageType) -> Value:
    """`bits`, 16-bit integers or a vector of them, as the floats of `type_` that they are; of f16
    where an instruction converts it."""
    if type_ == "f16":
        half = f.emit(_like(bits, "half"), "half", f"bitcast {bits} to {_like(bits, 'half')}")
        return f.emit(_like(bits, "float"), "wide", f"fpext {half} to {_like(bits, 'float')}")
    words = f.emit(_like(bits, "i32"), "words", f"zext {bits} to {_like(bits, 'i32')}")
    by = "splat (i32 16)" if words.type.startswith("<") else "16"
    high = f.emit(words.type, "high", f"shl {words}, {by}")
    return f.emit(_like(bits, "float"), "wide", f"bitcast {high} to {_like(bits, 'float')}")


def _like(x: Value, element: str) -> str:
    """The type of `element`s in the shape of `x`."""
    if not x.type.startswith("<"):
        return element
    return vector(element, int(x.type[1:].split(" x ")[0]))
