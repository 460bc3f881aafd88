"""Functions of scalars that activations are made of, as ops in the body of a structured op."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float16Type, IntegerType, f32, i1
from xdsl.ir import SSAValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute

    from convir.frontends.emitter import ScalarBuilder


def wide_of(element: AnyFloat) -> AnyFloat:
    """The type in which elements are summed: f32 for f16 and bf16, and otherwise their own."""
    return f32 if isinstance(element, Float16Type | BFloat16Type) else element


def widened(body: ScalarBuilder, x: SSAValue, wide: Attribute) -> SSAValue:
    """`x` as a value of type `wide`, which holds all of its type's."""
    return x if x.type == wide else body.insert(arith.ExtFOp(x, wide))


def rounded(body: ScalarBuilder, x: SSAValue, element: Attribute) -> SSAValue:
    """`x` as a value of type `element`, of which its own type holds all."""
    return x if x.type == element else body.insert(arith.TruncFOp(x, element))


def converted(body: ScalarBuilder, x: SSAValue, element: AnyFloat) -> SSAValue:
    """The float `x` as a value of any float type, rounded at most once."""
    have = cast("AnyFloat", x.type)
    if element.bitwidth > have.bitwidth:
        return widened(body, x, element)
    if element.bitwidth == have.bitwidth and element != have:  # f16 and bf16.
        x = widened(body, x, f32)
    return rounded(body, x, element)


def summed(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    """The total, which is the last of `args`, plus the first one, in the total's type."""
    return body.insert(arith.AddfOp(args[-1], widened(body, args[0], args[-1].type)))


_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}


def compared(body: ScalarBuilder, relation: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """Whether `a` and `b` are in a relation: `eq`, `ne`, `lt`, `le`, `gt` or `ge`.

    A NaN is in none but `ne`; integers are signed, and false is less than true.
    """
    if isinstance(a.type, AnyFloat):
        ordered = f"{'u' if relation == 'ne' else 'o'}{relation}"
        return body.insert(arith.CmpfOp(a, b, ordered))
    if relation not in _UNSIGNED:
        return body.insert(arith.CmpiOp(a, b, relation))
    predicate = _UNSIGNED[relation] if a.type == i1 else f"s{relation}"
    return body.insert(arith.CmpiOp(a, b, predicate))


def cast_scalar(body: ScalarBuilder, x: SSAValue, element: Attribute) -> SSAValue:
    """`x` as a value of any float type, signed integer type, or i1, which says whether it is not 0.

    Floats become integers towards 0; what those do not hold becomes no number in particular.
    """
    have = x.type
    if have == element:
        return x
    if element == i1:
        return compared(body, "ne", x, body.number(0, have))
    if isinstance(element, AnyFloat):
        if isinstance(have, AnyFloat):
            return converted(body, x, element)
        to_float = arith.UIToFPOp if have == i1 else arith.SIToFPOp
        return body.insert(to_float(x, element))
    wanted = cast("IntegerType", element)
    if isinstance(have, AnyFloat):
        return body.insert(arith.FPToSIOp(x, wanted))
    if have == i1:
        return body.insert(arith.ExtUIOp(x, wanted))
    is_wider = wanted.bitwidth > cast("IntegerType", have).bitwidth
    return body.insert((arith.ExtSIOp if is_wider else arith.TruncIOp)(x, wanted))


def select_positive(body: ScalarBuilder, x: SSAValue, otherwise: SSAValue) -> SSAValue:
    """`x` where it is at least 0."""
    is_positive = body.insert(arith.CmpfOp(x, body.number(0, x.type), "oge"))
    return body.insert(arith.SelectOp(is_positive, x, otherwise))


def clamp(body: ScalarBuilder, x: SSAValue, low: float | None, high: float | None) -> SSAValue:
    """`x`, but at least `low` and at most `high`, as far as they are given."""
    if low is not None:
        x = body.insert(arith.MaximumfOp(x, body.number(low, x.type)))
    if high is not None:
        x = body.insert(arith.MinimumfOp(x, body.number(high, x.type)))
    return x


def sigmoid(body: ScalarBuilder, x: SSAValue) -> SSAValue:
    """1 / (1 + exp(-x))."""
    one = body.number(1, x.type)
    exponential = body.insert(math.ExpOp(body.insert(arith.NegfOp(x))))
    return body.insert(arith.DivfOp(one, body.insert(arith.AddfOp(one, exponential))))


def hard_sigmoid(body: ScalarBuilder, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    """max(0, min(1, alpha * x + beta))."""
    scaled = body.insert(arith.MulfOp(x, body.number(alpha, x.type)))
    return clamp(body, body.insert(arith.AddfOp(scaled, body.number(beta, x.type))), 0, 1)


def leaky(body: ScalarBuilder, x: SSAValue, slope: float | SSAValue) -> SSAValue:
    """`x` where it is at least 0, and `slope * x` elsewhere."""
    factor = slope if isinstance(slope, SSAValue) else body.number(slope, x.type)
    return select_positive(body, x, body.insert(arith.MulfOp(x, factor)))


def scaled(body: ScalarBuilder, x: SSAValue, factor: float) -> SSAValue:
    """`factor * x`; `x` itself for a factor of 1."""
    if factor == 1:
        return x
    return body.insert(arith.MulfOp(x, body.number(factor, x.type)))


def elu(body: ScalarBuilder, x: SSAValue, alpha: float) -> SSAValue:
    """`x` where it is at least 0, and `alpha * (exp(x) - 1)` elsewhere."""
    exponential = body.insert(math.ExpOp(x))
    below = body.insert(arith.SubfOp(exponential, body.number(1, x.type)))
    return select_positive(body, x, scaled(body, below, alpha))


def softplus(body: ScalarBuilder, x: SSAValue) -> SSAValue:
    """log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    magnitude = body.insert(math.AbsFOp(x))
    exponential = body.insert(math.ExpOp(body.insert(arith.NegfOp(magnitude))))
    positive = clamp(body, x, 0, None)
    return body.insert(arith.AddfOp(positive, body.insert(math.Log1pOp(exponential))))
