"""Random functions of a form: long chains, wide fans, ladders of diamonds, and graphs of sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_programs.function import RandomFunction
from random_programs.scatters import padded
from random_programs.types import FLOATS

if TYPE_CHECKING:
    from random_programs.choices import Choices
    from random_programs.function import Value

MAX_LENGTH = 1000
MAX_LEVELS = 5
"""Of diamonds: what is computed twice at each level doubles with it."""


def _combined(k: RandomFunction, a: Value, b: Value) -> Value:
    """An op of two values that keeps small values small."""
    ops = ("maximumf", "minimumf") if a.element in FLOATS else ("maxsi", "minsi", "andi", "xori")
    op = k.choices.pick(ops)
    return k.emit(a.shape, a.element, f"arith.{op} {a.name}, {b.name} : TYPE", small=True)


def _element(c: Choices) -> str:
    return c.pick(("f32", "f16", "i32", "i8", "f64", "bf16", "i64"))


def chain(c: Choices) -> RandomFunction:
    """Ops one after the other, rarely a thousand."""
    k = RandomFunction(c)
    first = value = k.input((c.pick(k.sizes), c.pick(k.sizes)), _element(c))
    length = MAX_LENGTH if c.one_in(50) else c.integer(5, 40)
    other = k.of_type(first.shape, first.element)
    for _ in range(length):
        value = _combined(k, value, c.pick((first, other)))
    k.results = (value,)
    return k


def fan(c: Choices) -> RandomFunction:
    """Many ops of one value, folded into one again, or returned."""
    k = RandomFunction(c)
    root = k.input((c.pick(k.sizes), c.pick(k.sizes)), _element(c))
    others = [k.of_type(root.shape, root.element) for _ in range(2)]
    leaves = [_combined(k, root, c.pick(others)) for _ in range(c.integer(3, 24))]
    if c.one_in(4):
        k.results = tuple(leaves[:6])
        return k
    value = leaves[0]
    for leaf in leaves[1:]:
        value = _combined(k, value, leaf)
    k.results = (value,)
    return k


def diamonds(c: Choices) -> RandomFunction:
    """Levels of two slices of one value that meet again, under a pad that restores the size."""
    k = RandomFunction(c)
    element, size = _element(c), c.integer(4, 9)
    value = k.input((size,), element)
    for _ in range(c.integer(1, MAX_LEVELS)):
        parts = [
            k.emit(
                (size - 1,),
                element,
                f"tensor.extract_slice {value.name}[{offset}] [{size - 1}] [1] : "
                f"{value.type} to TYPE",
                small=True,
            )
            for offset in (0, 1)
        ]
        met = _combined(k, *parts)
        low = c.below(2)
        value = padded(k, met, [low], [1 - low])
        k.values.append(value)
    k.results = (value,)
    return k


def sums(c: Choices) -> RandomFunction:
    """Ops of any two earlier values."""
    k = RandomFunction(c)
    k.input((c.pick(k.sizes), c.pick(k.sizes)), _element(c))
    for _ in range(c.integer(3, 30)):
        _combined(k, c.pick(k.values[-6:]), c.pick(k.values[-6:]))
    k.finish(3)
    return k


FORMS = (chain, fan, diamonds, diamonds, sums)


def deep(c: Choices) -> RandomFunction:
    """One of the forms."""
    return c.pick(FORMS)(c)
