"""The error function, and gelu, which is the distribution of a normal variable times the variable.

erf    x + x · P(x²) for |x| < 1, and beyond 1 - 2^Q(|x|)
gelu   x · h or x · (1 - h) with h = erfc(|x| / sqrt 2) / 2 = 2^(-x² · log2 e / 2) · P(u) at
       u = 1 / (1 + 0.3 · |x|), in f64: neither loses what small values of h have
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.vector_functions.exponential import (
    LOG2_E,
    exp2_between,
    exp2_wide,
)
from convir.lowering.kernels.host.vector_functions.term import polynomial

if TYPE_CHECKING:
    from convir.lowering.kernels.host.vector_functions.term import Term

_ERF_NEAR = (
    0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026,
    0.005187162198126316, -0.0007997853099368513, 7.806903886375949e-05,
)  # fmt: skip
_ERF_FAR = (
    -0.0004927146947011352, -1.6260459423065186, -0.9206485152244568, -0.14875145256519318,
    0.03150558844208717, -0.004252557177096605, 0.00026888842694461346,
)  # fmt: skip
_GELU_TAIL = (
    5.07317251542669e-07, 0.11967485845558488, 0.11969095371175363, 0.10955268919322328,
    0.08085876247375295, 0.09025778923315488, -0.06997491811948087, 0.18174410321372297,
    -0.22142425698521068, 0.10979187035966947, -0.02017236040323069,
)  # fmt: skip
_ERF_SPLIT, _ERF_END = 1.0, 3.95
"""Beyond the end, erf is 1 in f32."""
_GELU_BEND, _GELU_END = 0.3, 15.0
"""Beyond the end, gelu is x or 0 in f32."""


def erf(x: Term) -> Term:
    """The error function of `x`."""
    magnitude = x.magnitude().at_most(_ERF_END)
    near = x.times_plus(polynomial(x * x, _ERF_NEAR), x)
    far = (1.0 - exp2_between(polynomial(magnitude, _ERF_FAR))).with_sign_of(x)
    return (magnitude < _ERF_SPLIT).select(near, far)


def gelu(x: Term) -> Term:
    """x · (1 + erf(x / sqrt 2)) / 2."""
    wide = x.at_least(-_GELU_END).wide()
    magnitude = wide.magnitude().at_most(_GELU_END)
    u = 1.0 / magnitude.times_plus(_GELU_BEND, 1.0)
    half = exp2_wide(magnitude * magnitude * (-LOG2_E / 2)) * polynomial(u, _GELU_TAIL)
    return (wide * (wide > 0.0).select(1.0 - half, half)).narrow()
