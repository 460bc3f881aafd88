"""Activations that scalar ops spell: each is one function, which keeps what its parts would lose.

    x / (1 + exp(-x))                        silu
    x · (1 + erf(x / sqrt 2)) / 2            gelu, whose parts lose all of a small result; a
                                             function of its own where a bf16 is kept of it
    x · (1 + tanh(sqrt(2/π) · (…))) / 2      gelu_tanh
    x · tanh(softplus(x))                    mish
    max(x, 0) + log1p(exp(-|x|))             softplus

What products are made of may stand in any order, as may the terms of a sum. Ops inside of an
activation that nothing else reads are left to LLVM, which drops them.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, f32
from xdsl.ir import Operation, SSAValue

from convir.analysis.rounding import is_rounded_to

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEAR = 1e-6
"""Of constants, relative: more than f32 rounds off."""


def activation(op: Operation) -> tuple[str, SSAValue] | None:
    """The function that an op of f32 is the last step of, and of what; None if it is of none."""
    if op.name not in _READERS or op.results[0].type != f32:
        return None
    return _READERS[op.name](op)


def _quotient(op: Operation) -> tuple[str, SSAValue] | None:
    x = _minus_exponent(op.operands[1])
    if x is None:
        return None
    if _number(op.operands[0]) == 1:
        return "sigmoid", x
    return ("silu", x) if op.operands[0] is x else None


def _minus_exponent(value: SSAValue) -> SSAValue | None:
    """x of 1 + exp(-x)."""
    exponential = _one_plus(value)
    return _of(_of(exponential, "math.exp"), "arith.negf")


def _product(op: Operation) -> tuple[str, SSAValue] | None:
    factors = list(_factors(op.results[0]))
    scale = 1.0
    for number in map(_number, factors):
        scale *= 1 if number is None else number
    values = [factor for factor in factors if _number(factor) is None]
    if len(values) != 2:
        return None
    for x, gate in (values, values[::-1]):
        if scale == 1 and _is_sigmoid(gate, x):
            return "silu", x
        if scale == 1 and _softplus_of(_of(gate, "math.tanh")) is x:
            return "mish", x
        if scale == 0.5 and _is_scaled(_of(_one_plus(gate), "math.erf"), x, sqrt(0.5)):
            is_short = is_rounded_to(op.results[0], (BFloat16Type,))
            return "gelu_to_bf16" if is_short else "gelu", x
        if scale == 0.5 and _is_curved(_of(_one_plus(gate), "math.tanh"), x):
            return "gelu_tanh", x
    return None


def _sum(op: Operation) -> tuple[str, SSAValue] | None:
    x = _softplus_of(op.results[0])
    return None if x is None else ("softplus", x)


def _is_sigmoid(value: SSAValue, x: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, arith.DivfOp) and _quotient(op) == ("sigmoid", x)


def _softplus_of(value: SSAValue | None) -> SSAValue | None:
    for positive, rest in _either(value, "arith.addf"):
        exponential = _of(_of(rest, "math.log1p"), "math.exp")
        x = _of(_of(exponential, "arith.negf"), "math.absf")
        for other, bound in _either(positive, "arith.maximumf"):
            if x is not None and other is x and _number(bound) == 0:
                return x
    return None


def _is_curved(value: SSAValue | None, x: SSAValue) -> bool:
    """Whether it is sqrt(2/π) · (x + 0.044715 · x³)."""
    for scale, total in _either(value, "arith.mulf"):
        if _is_near(scale, sqrt(2 / pi)):
            return any(a is x and _is_cube(b, x) for a, b in _either(total, "arith.addf"))
    return False


def _is_cube(value: SSAValue, x: SSAValue) -> bool:
    factors = list(_factors(value))
    numbers = [factor for factor in factors if _number(factor) is not None]
    powers = [factor for factor in factors if _number(factor) is None]
    if len(numbers) != 1 or not _is_near(numbers[0], 0.044715):
        return False
    if len(powers) == 1 and isinstance(powers[0].owner, Operation):
        owner = powers[0].owner
        return (
            owner.name == "math.powf" and owner.operands[0] is x and _is_near(owner.operands[1], 3)
        )
    return len(powers) == 3 and all(factor is x for factor in powers)


def _is_scaled(value: SSAValue | None, x: SSAValue, factor: float) -> bool:
    """Whether it is `factor * x`, also as a quotient."""
    for left, right in _either(value, "arith.mulf"):
        if left is x and _is_near(right, factor):
            return True
    owner = None if value is None else value.owner
    if not isinstance(owner, arith.DivfOp):
        return False
    return owner.lhs is x and _is_near(owner.rhs, 1 / factor)


def _factors(value: SSAValue) -> Iterator[SSAValue]:
    """What is multiplied, in any order, all in f32."""
    if isinstance(value.owner, arith.MulfOp):
        yield from _factors(value.owner.lhs)
        yield from _factors(value.owner.rhs)
    else:
        yield value


def _one_plus(value: SSAValue) -> SSAValue | None:
    """What 1 is added to."""
    for one, other in _either(value, "arith.addf"):
        if _number(one) == 1:
            return other
    return None


def _either(value: SSAValue | None, name: str) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The operands of the op `name` that gives a value, in both orders; nothing of others."""
    if value is not None and isinstance(value.owner, Operation) and value.owner.name == name:
        left, right = value.owner.operands
        yield left, right
        yield right, left


def _of(value: SSAValue | None, name: str) -> SSAValue | None:
    """The operand of the op `name` that gives a value."""
    owner = None if value is None else value.owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.name == name else None


def _number(value: SSAValue) -> float | None:
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, FloatAttr):
        return value.owner.value.value.data
    return None


def _is_near(value: SSAValue, number: float) -> bool:
    found = _number(value)
    return found is not None and abs(found - number) <= _NEAR * number


_READERS = {"arith.addf": _sum, "arith.divf": _quotient, "arith.mulf": _product}
