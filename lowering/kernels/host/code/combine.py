"""Combining numbers of a row with each other: on vectors of any length, or on scalars.

The maximum of zeros of both signs is one of them: three instructions instead of six.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.program import MAXIMUM_OF_NUMBERS, NEUTRAL, SUM
from convir.lowering.kernels.host.code.builder import float_constant, vector, zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.host.code.builder import Function, Value
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

_OPERATORS = {SUM: "fadd", "arith.mulf": "fmul"}
_INTRINSICS = {"arith.maximumf": "maximum", "arith.minimumf": "minimum"}


def identity(combiner: str, kind: str) -> Value:
    """What changes nothing that it is combined with, in every lane of a type."""
    return zero(kind) if combiner == SUM else float_constant(NEUTRAL[combiner], kind)


def combine(f: Function, combiner: str, a: Value, b: Value) -> Value:
    """Two numbers in one, lane by lane; of the maximum of numbers `a` is none that is NaN."""
    if combiner == MAXIMUM_OF_NUMBERS:
        return f.select(f.emit(_truths(a), "more", f"fcmp ogt {b}, {a.text}"), b, a, "maximum")
    if combiner in _OPERATORS:
        is_neutral = combiner == SUM and a == zero(a.type)
        return b if is_neutral else f.float_binary(_OPERATORS[combiner], a, b, "total")
    name = _INTRINSICS[combiner]
    suffix = "f64" if "double" in a.type else "f32"
    if a.type.startswith("<"):
        suffix = f"v{_lanes(a)}{suffix}"
    declaration = f"declare {a.type} @llvm.{name}.{suffix}({a.type}, {a.type})"
    return f.intrinsic(declaration, a.type, (a, b), name, flags="nsz ")


def across(f: Function, combiner: str, x: Value) -> Value:
    """The lanes of a vector, a power of two, combined: a scalar."""
    lanes = _lanes(x)
    while lanes > 1:
        lanes //= 2
        low = f.shuffle(x, x, range(lanes), "low")
        high = f.shuffle(x, x, range(lanes, 2 * lanes), "high")
        x = combine(f, combiner, low, high)
    scalar = x.type.split(" x ")[1].removesuffix(">")
    return f.emit(scalar, "scalar", f"extractelement {x}, i64 0")


def widened(f: Function, x: Value, kind: str) -> Value:
    """`x` as a value of a type that holds all of its own."""
    return x if x.type == kind else f.emit(kind, "wide", f"fpext {x} to {kind}")


def _truths(x: Value) -> str:
    """The type of a comparison."""
    return vector("i1", _lanes(x)) if x.type.startswith("<") else "i1"


def _lanes(x: Value) -> int:
    return int(x.type[1:].split(" x ", maxsplit=1)[0])


def horizontal_sums(f: Function, vectors: Sequence[Value], lanes: Lanes) -> Value:
    """A vector whose lane i is the sum of all lanes of `vectors[i]`; at most as many as lanes.

    Vectors are halved and joined pairwise: after each round a vector holds twice as many partial
    results, each of half as many lanes.
    """
    width = lanes.count
    parts = list(vectors)
    held = 1
    while width > 1:
        half = width // 2
        starts = [part * width for part in range(held)]
        both = [*starts, *(lanes.count + start for start in starts)]
        low = [start + lane for start in both for lane in range(half)]
        high = [start + half + lane for start in both for lane in range(half)]
        joined: list[Value] = []
        for place in range(0, len(parts), 2):
            left = parts[place]
            right = parts[place + 1] if place + 1 < len(parts) else left
            a = f.shuffle(left, right, low, "low")
            b = f.shuffle(left, right, high, "high")
            joined.append(lanes.add(f, a, b))
        parts, held, width = joined, held * 2, half
    return parts[0]
