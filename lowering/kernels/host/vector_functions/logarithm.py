"""Logarithms and powers.

log      m · 2^e with m in [sqrt 1/2, sqrt 2]: log(1 + f) = f + f² · P(f) at f = m - 1
log1p    the same, with what 1 + x rounds off put back into f
pow      2^(y · log2 x) in f64, with log2 x = e + s · P(s²) at s = (m - 1) / (m + 1)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.vector_functions.exponential import exp2_wide, exp_of_negative
from convir.lowering.kernels.host.vector_functions.term import polynomial

if TYPE_CHECKING:
    from convir.lowering.kernels.host.vector_functions.term import Bits, Term

_LOG = (
    -0.5, 0.3333330750465393, -0.2499997615814209, 0.20002393424510956, -0.16669902205467224,
    0.1421656757593155, -0.12374573945999146, 0.11876434832811356, -0.11831822991371155,
    0.06948678940534592,
)  # fmt: skip
_LOG2 = (
    2.885390081777904, 0.961796694087437, 0.5770779444552159, 0.41220919353737145,
    0.31990541542391665, 0.2829303711370953,
)  # fmt: skip
_LN2_HIGH = 0.693359375
_LN2_LOW = -2.12194440e-4
_ROOT_HALF_BITS = 0x3F3504F3
"""sqrt 1/2 as f32: where the mantissas of reduced numbers begin."""
_MANTISSA = 23
_NORMAL = 2.0**-126


def _exponent(bits: Bits) -> Bits:
    """e in a number m · 2^e with m in [sqrt 1/2, sqrt 2)."""
    return (bits - _ROOT_HALF_BITS) >> _MANTISSA


def _normal(x: Term) -> tuple[Term, Term]:
    """A normal number, and by how much the logarithm to 2 of `x` is less than that of it."""
    is_small = x < _NORMAL
    return is_small.select(x * 2.0**23, x), is_small.select(x.number(23.0), 0.0)


def _log_of(f: Term, e: Term) -> Term:
    """log((1 + f) · 2^e)."""
    rest = e.times_plus(_LN2_LOW, f * f * polynomial(f, _LOG))
    return e.times_plus(_LN2_HIGH, f + rest)


def _at_ends(result: Term, x: Term) -> Term:
    """The logarithm of `x`, also where that is no finite number."""
    result = (x < math.inf).select(result, x)
    result = (x < 0.0).select(x.number(math.nan), result)
    return x.compare("oeq", 0.0).select(x.number(-math.inf), result)


def log(x: Term) -> Term:
    """The natural logarithm of `x`."""
    normal, less = _normal(x)
    bits = normal.bits()
    e = _exponent(bits)
    f = bits.minus(e << _MANTISSA).floats() - 1.0
    return _at_ends(_log_of(f, e.converted() - less), x)


def log1p(x: Term) -> Term:
    """log(1 + x)."""
    more, one = x + 1.0, x.number(1.0).bits()
    bits = more.bits()
    e = _exponent(bits)
    mantissa = bits.minus(e << _MANTISSA).floats()
    # 1 + x rounds off what x - ((1 + x) - 1) says; of large numbers nothing that is seen.
    lost = x - (more - 1.0)
    scale = one.minus(e << _MANTISSA).floats()
    f = (x < 2.0**30).select(lost.times_plus(scale, mantissa - 1.0), mantissa - 1.0)
    result = _log_of(f, e.converted())
    return _at_ends(result, more).with_sign_of(x)


def softplus(x: Term) -> Term:
    """log(1 + e^x) as max(x, 0) + log1p(e^-|x|)."""
    raised = exp_of_negative(-x.magnitude())
    # Of 1 + raised, which is at most 2, the mantissa begins at sqrt 1/2: half of it, or all.
    is_large = raised > math.sqrt(2) - 1
    f = is_large.select((raised - 1.0) * 0.5, raised)
    return x.at_least(0.0) + _log_of(f, is_large.select(x.number(1.0), 0.0))


def power(x: Term, y: Term) -> Term:
    """`x` to the power of `y`, as C's `powf` has it."""
    magnitude = x.magnitude()
    normal, less = _normal(magnitude)
    bits = normal.bits()
    e = _exponent(bits)
    m = bits.minus(e << _MANTISSA).floats().wide()
    s = (m - 1.0) / (m + 1.0)
    log2 = s.times_plus(polynomial(s * s, _LOG2), (e.converted() - less).wide())
    log2 = _at_ends(log2, magnitude.wide())
    product = log2 * y.wide()
    raised = exp2_wide(product.at_least(-300.0).at_most(300.0)).narrow()
    half = y * 0.5
    is_whole = y.floor().compare("oeq", y)
    is_odd = is_whole & half.floor().compare("une", half)
    raised = is_odd.select(raised.with_sign_of(x), raised)
    is_real = is_whole | (x >= 0.0) | x.compare("oeq", -math.inf)
    raised = is_real.select(raised, math.nan)
    raised = x.compare("ord", y).select(raised, x + y)
    # 1^y and x^0 are 1, also of NaN; so is (-1)^infinity.
    is_unit = x.compare("oeq", -1.0) & y.magnitude().compare("oeq", math.inf)
    is_one = x.compare("oeq", 1.0) | y.compare("oeq", 0.0) | is_unit
    return is_one.select(x.number(1.0), raised)
