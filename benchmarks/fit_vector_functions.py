"""The coefficients of `lowering/kernels/host/vector_functions`, derived again and printed.

    python benchmarks/fit_vector_functions.py

Each row is a minimax polynomial: of all with its degree, that whose largest weighted error on an
interval is least (Remez's exchange on a grid, functions from mpmath with 40 digits). Coefficients
for f32 are rounded one after the other, from the lowest power on; those that are left are fitted
again to what the rounded ones leave. The error that is printed is that of the exact polynomial with
these coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

POINTS = 3000
ROUNDS = 40
mpmath: Any = import_module("mpmath")
mpmath.mp.dps = 40

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Fit:
    """What is fitted: `function` on [low, high] by powers up to `degree`."""

    name: str
    function: Function
    """What the polynomial comes near to."""
    scale: Function
    """What its error is divided by."""
    low: float
    high: float
    degree: int
    fixed: tuple[float, ...] = ()
    """The first coefficients, where they are chosen and not fitted."""
    is_f64: bool = False


def _minimax(grid: np.ndarray, wanted: np.ndarray, weight: np.ndarray, first: int, degree: int):
    """Coefficients of the powers `first` to `degree`, and the largest weighted error."""
    powers = np.arange(first, degree + 1)
    basis = grid[:, None] ** powers * weight[:, None]
    target = wanted * weight
    size = np.abs(basis).max(axis=0)
    basis = basis / size
    count = len(powers) + 1
    spread = (1 - np.cos(np.linspace(0, np.pi, count))) / 2
    places = np.unique((spread * (len(grid) - 1)).astype(int))
    best, found = np.inf, np.zeros(len(powers))
    for _ in range(ROUNDS):
        signs = (-1.0) ** np.arange(count)
        system = np.column_stack([basis[places], signs])
        solved = np.linalg.lstsq(system, target[places])[0]
        error = basis @ solved[:-1] - target
        if (largest := np.abs(error).max()) < best:
            best, found = largest, solved[:-1] / size
        if largest <= 1.0001 * abs(solved[-1]):
            break
        # The largest error between two changes of its sign, as many as there are unknowns.
        pieces = np.split(np.arange(len(grid)), np.flatnonzero(np.diff(np.sign(error))) + 1)
        peaks = [piece[np.argmax(np.abs(error[piece]))] for piece in pieces]
        while len(peaks) > count:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if len(peaks) < count:
            break
        places = np.array(peaks)
    return found, best


def coefficients(fit: Fit) -> tuple[list[float], float]:
    """The coefficients from the lowest power on, and the largest error."""
    angles = np.cos(np.linspace(np.pi, 0, POINTS))
    grid = (fit.low + fit.high) / 2 + (fit.high - fit.low) / 2 * angles
    grid = grid[grid != 0]
    wanted = np.array([float(fit.function(mpmath.mpf(x))) for x in grid])
    weight = np.array([1 / abs(float(fit.scale(mpmath.mpf(x)))) for x in grid])
    known = list(fit.fixed)
    while len(known) <= fit.degree:
        left = wanted - np.polynomial.polynomial.polyval(grid, known or [0.0])
        found, error = _minimax(grid, left, weight, len(known), fit.degree)
        if fit.is_f64:
            known += list(map(float, found))
        else:
            known.append(float(np.float32(found[0])))
    total = np.polynomial.polynomial.polyval(grid, known)
    error = float(np.abs((total - wanted) * weight).max())
    return known, error


ONE = mpmath.mpf(1)
LN2 = mpmath.log(2)
GELU_BEND = 0.25
"""u = 1 / (1 + GELU_BEND * a): the tail of a normal distribution is a polynomial of it."""


def _tail(u: Any) -> Any:
    """erfc(a / sqrt 2) / 2 * exp(a^2 / 2) at the `a` that gives `u`."""
    a = (1 / u - 1) / GELU_BEND
    return mpmath.erfc(a / mpmath.sqrt(2)) / 2 * mpmath.exp(a * a / 2)


def _gelu_tail(a: Any) -> Any:
    """What gelu has of `a` below zero."""
    return a * mpmath.erfc(a / mpmath.sqrt(2)) / 2


def _erf_ratio(t: Any) -> Any:
    return mpmath.erf(mpmath.sqrt(t)) / mpmath.sqrt(t)


def _exp2_rest(r: Any) -> Any:
    return (mpmath.power(2, r) - 1) / r


def _tail_slope(u: Any) -> Any:
    """By how much more than `u`, relative to each, its tail changes."""
    return u * mpmath.diff(_tail, u) / _tail(u)


def _log2_ratio(square: Any) -> Any:
    s = mpmath.sqrt(square)
    return mpmath.log((1 + s) / (1 - s), 2) / s


FITS = (
    Fit("EXP", lambda r: (mpmath.exp(r) - 1 - r) / r**2, lambda r: mpmath.exp(r) / r**2,
        -0.3466, 0.3466, 4),
    Fit("EXPM1", lambda r: (mpmath.expm1(r) - r) / r**2, lambda r: mpmath.expm1(r) / r**2,
        -0.3466, 0.3466, 4),
    Fit("EXP2", _exp2_rest, lambda r: mpmath.power(2, r) / r, -0.5, 0.5, 5),
    Fit("EXP2_WIDE", _exp2_rest, lambda r: mpmath.power(2, r) / r, -0.5, 0.5, 5, (), True),
    Fit("LOG", lambda f: (mpmath.log1p(f) - f) / f**2, lambda f: mpmath.log1p(f) / f**2,
        -0.2930, 0.4143, 9, (-0.5,)),
    Fit("ERF_NEAR", lambda t: _erf_ratio(t) - 1, _erf_ratio, 1e-12, 1.44, 7),
    Fit("ERF_FAR", lambda a: mpmath.root(mpmath.erfc(a), 4),
        lambda a: mpmath.erf(a) / (4 * mpmath.root(mpmath.erfc(a), 4)**3), 1.19, 4.0, 7),
    Fit("EXP2_TO_BF16", _exp2_rest, lambda r: mpmath.power(2, r) / r, -0.5, 0.5, 2),
    Fit("GELU_TO_BF16", lambda a: mpmath.log(_gelu_tail(a) / a, 2),
        lambda a: max(ONE, mpmath.mpf(2)**-18 / _gelu_tail(a)), 1e-12, 9.0, 5),
    Fit("GELU_TAIL", lambda u: _tail(u) / u, lambda u: _tail(u) / u, 0.214, 1.0, 9),
    Fit("GELU_SLOPE", _tail_slope, _tail_slope, 0.214, 1.0, 1),
    Fit("LOG2", _log2_ratio, lambda s: ONE, 1e-12, 0.02944, 5, (), True),
    Fit("SIN", lambda t: (mpmath.sin(mpmath.sqrt(t)) / mpmath.sqrt(t) - 1) / t, lambda t: 1 / t,
        1e-6, 0.6169, 2),
    Fit("COS", lambda t: (mpmath.cos(mpmath.sqrt(t)) - 1) / t, lambda t: 1 / t, 1e-6, 0.6169, 3),
)  # fmt: skip


def main() -> None:
    """Print every row."""
    for fit in FITS:
        found, error = coefficients(fit)
        print(f"{fit.name} = (  # 2^{np.log2(error):.1f}")
        for value in found:
            print(f"    {value!r},")
        print(")")


if __name__ == "__main__":
    main()
