"""The activations of `.nam` models: from JSON, and as ops on scalars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, math

from convir.frontends.nam.fields import Fields
from convir.frontends.nam.model import Activation
from convir.frontends.scalar_functions import clamp, leaky, sigmoid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder

    ScalarFunction = Callable[[ScalarBuilder, SSAValue, Mapping[str, float]], SSAValue]

PRELU = "PReLU"
"""The one whose numbers differ from channel to channel."""


@dataclass(frozen=True)
class Function:
    """An activation on a scalar, and the numbers that it has where a file gives no others."""

    body: ScalarFunction
    defaults: Mapping[str, float]


def read_activation(owner: Fields, key: str, value: Any) -> Activation:
    """The activation that `value`, in the field `key` of `owner`, is a name or an object of.

    Raises:
        NamError: there is no such activation.
    """
    fields = Fields.of(
        owner.file, owner.where(key), {"type": value} if isinstance(value, str) else value
    )
    kind = _ALIASES.get(fields.text("type"), fields.text("type"))
    if kind == PRELU:
        if not fields.has("negative_slopes"):
            slope = fields.number("negative_slope", 0.01)
            fields.refuse_others()
            return Activation("LeakyReLU", {"negative_slope": slope})
        slopes = fields.numbers("negative_slopes")
        if not slopes:
            raise fields.error("negative_slopes", "is empty")
        fields.refuse_others("negative_slope")
        return Activation(PRELU, {}, slopes)
    function = FUNCTIONS.get(kind)
    if function is None:
        known = ", ".join(sorted((*FUNCTIONS, PRELU)))
        raise fields.error("type", f"is '{kind}'; known are {known}")
    numbers = {name: fields.number(name, value) for name, value in function.defaults.items()}
    fields.refuse_others()
    return Activation(kind, numbers)


def apply(body: ScalarBuilder, x: SSAValue, activation: Activation) -> SSAValue:
    """The activation of the scalar `x`; PReLU is not among these."""
    return FUNCTIONS[activation.kind].body(body, x, activation.numbers)


def _tanh(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    return body.insert(math.TanhOp(x))


def _hard_tanh(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    return clamp(body, x, -1, 1)


def _fast_tanh(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    """NeuralAmpModelerCore's rational approximation of tanh.

    For |x| up to 10 the error is at most 4.4e-4. Past that the error grows slowly, to 8.1e-3.
    """

    def number(value: float) -> SSAValue:
        return body.number(value, x.type)

    def add(a: SSAValue, b: SSAValue) -> SSAValue:
        return body.insert(arith.AddfOp(a, b))

    def mul(a: SSAValue, b: SSAValue) -> SSAValue:
        return body.insert(arith.MulfOp(a, b))

    magnitude, square = body.insert(math.AbsFOp(x)), mul(x, x)
    linear = add(number(2.45550750702956), mul(number(2.45550750702956), magnitude))
    cubic = add(number(0.893229853513558), mul(number(0.821226666969744), magnitude))
    above = mul(x, add(linear, mul(cubic, square)))
    bent = add(x, mul(mul(number(0.814642734961073), x), magnitude))
    pole = number(2.44506634652299)
    below = add(pole, mul(add(pole, square), body.insert(math.AbsFOp(bent))))
    return body.insert(arith.DivfOp(above, below))


def _relu(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    return clamp(body, x, 0, None)


def _leaky_relu(body: ScalarBuilder, x: SSAValue, numbers: Mapping[str, float]) -> SSAValue:
    return leaky(body, x, numbers["negative_slope"])


def _sigmoid(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    return sigmoid(body, x)


def _silu(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    return body.insert(arith.MulfOp(x, sigmoid(body, x)))


def _hard_swish(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    """x · min(max(x + 3, 0), 6) / 6."""
    ramp = clamp(body, body.insert(arith.AddfOp(x, body.number(3, x.type))), 0, 6)
    product = body.insert(arith.MulfOp(x, ramp))
    return body.insert(arith.MulfOp(product, body.number(1 / 6, x.type)))


def _leaky_hard_tanh(body: ScalarBuilder, x: SSAValue, numbers: Mapping[str, float]) -> SSAValue:
    """`x` between two bounds, and lines of other slopes beyond them."""
    low, high = (body.number(numbers[name], x.type) for name in ("min_val", "max_val"))
    inside = clamp(body, x, numbers["min_val"], numbers["max_val"])
    lines: list[SSAValue] = []
    for bound, name in ((low, "min_slope"), (high, "max_slope")):
        beyond = body.insert(arith.SubfOp(x, bound))
        scaled = body.insert(arith.MulfOp(beyond, body.number(numbers[name], x.type)))
        lines.append(body.insert(arith.AddfOp(scaled, bound)))
    is_below = body.insert(arith.CmpfOp(x, low, "olt"))
    is_above = body.insert(arith.CmpfOp(x, high, "ogt"))
    upper = body.insert(arith.SelectOp(is_above, lines[1], inside))
    return body.insert(arith.SelectOp(is_below, lines[0], upper))


def _softsign(body: ScalarBuilder, x: SSAValue, _: Mapping[str, float]) -> SSAValue:
    magnitude = body.insert(math.AbsFOp(x))
    below = body.insert(arith.AddfOp(body.number(1, x.type), magnitude))
    return body.insert(arith.DivfOp(x, below))


_ALIASES: Mapping[str, str] = {"LeakyHardTanh": "LeakyHardtanh"}
"""Other spellings that occur."""

_BOUNDS = {"min_val": -1.0, "max_val": 1.0, "min_slope": 0.01, "max_slope": 0.01}

FUNCTIONS: Mapping[str, Function] = {
    "Fasttanh": Function(_fast_tanh, {}),
    "Hardtanh": Function(_hard_tanh, {}),
    "Hardswish": Function(_hard_swish, {}),
    "LeakyHardtanh": Function(_leaky_hard_tanh, _BOUNDS),
    "LeakyReLU": Function(_leaky_relu, {"negative_slope": 0.01}),
    "ReLU": Function(_relu, {}),
    "Sigmoid": Function(_sigmoid, {}),
    "SiLU": Function(_silu, {}),
    "Softsign": Function(_softsign, {}),
    "Tanh": Function(_tanh, {}),
}
