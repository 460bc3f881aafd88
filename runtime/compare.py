"""Where two arrays differ most, against a tolerance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from convir.runtime.reference.dtypes import FLOAT64, Array

_CHUNK_ELEMENTS = 1 << 20
"""How many elements are compared at a time."""


@dataclass(frozen=True)
class Difference:
    """Where two arrays differ most, against what is allowed there."""

    position: int = 0
    """In the flattened arrays."""
    error: float = 0.0
    allowed: float = 0.0
    undefined: int = 0
    """How many elements were expected to be NaN, and so may be anything."""


def largest_error(
    expected: Array, actual: Array, relative: float, absolute: float = 0.0
) -> Difference:
    """Where |actual - expected| most exceeds relative * (|expected| + max |expected|) and absolute.

    The arrays are taken in chunks, so that nothing of their size is made.
    """
    flat_expected, flat_actual = expected.reshape(-1), actual.reshape(-1)
    starts = range(0, expected.size, _CHUNK_ELEMENTS)
    largest = 0.0
    if relative > 0:
        for start in starts:
            chunk = np.abs(flat_expected[start : start + _CHUNK_ELEMENTS].astype(FLOAT64))
            largest = max(largest, float(chunk[np.isfinite(chunk)].max(initial=0.0)))
    worst = Difference()
    undefined = 0
    for start in starts:
        part = slice(start, start + _CHUNK_ELEMENTS)
        error, magnitude, missing = _errors(flat_expected[part], flat_actual[part])
        allowed = np.maximum(relative * (magnitude + largest), absolute)
        position = int(np.argmax(error - allowed))
        found = Difference(start + position, float(error[position]), float(allowed[position]))
        undefined += missing
        if start == 0 or found.error - found.allowed > worst.error - worst.allowed:
            worst = found
    return replace(worst, undefined=undefined)


def _errors(expected: Array, actual: Array) -> tuple[Array, Array, int]:
    """|actual - expected| and |expected| in f64, 0 where NaN was expected; how many those are."""
    wide_expected, wide_actual = expected.astype(FLOAT64), actual.astype(FLOAT64)
    undefined = np.isnan(wide_expected)
    with np.errstate(all="ignore"):
        error = np.abs(wide_actual - wide_expected)
    error = np.where((actual == expected) | undefined, 0.0, error)
    error = np.where(np.isnan(error), np.inf, error)
    magnitude = np.where(np.isfinite(wide_expected), np.abs(wide_expected), 0.0)
    return error, magnitude, int(np.count_nonzero(undefined))
