"""f16 and bf16 conversions: every pattern, and every place where a rounding turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from host_kernels import TARGETS, program_text, run_program, runnable

from convir.reference.dtypes import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fast

PATTERNS = np.arange(1 << 16, dtype=np.uint16)
HALVES: dict[str, Any] = {"f16": np.dtype(np.float16), "bf16": BFLOAT16}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Signalling NaNs and overflows are part of the tests."""
    with np.errstate(all="ignore"):
        yield


def converted(op: str, source: str, result: str, values: Any, target: str) -> Any:
    """What the kernel `op` makes of `values` on a target."""
    cpu = runnable(target)
    if cpu is None:
        pytest.skip(f"this machine does not run {target} code")
    taken, given = f"{len(values)}x{source}", f"{len(values)}x{result}"
    kernel = f"""
kernel.func @k(%a: tensor<{taken}>) -> tensor<{given}> {{
  %r = arith.{op} %a : tensor<{taken}> to tensor<{given}>
  kernel.return %r : tensor<{given}>
}}"""
    return run_program(program_text(kernel, [taken], [given]), [values], cpu)[0]


def assert_same_bits(found: Any, expected: Any) -> None:
    """Every bit, but for a NaN's payload."""
    integer = f"u{found.dtype.itemsize}"
    both_nan = np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    same = found.view(integer) == expected.view(integer)
    assert np.all(same | both_nan)


def ties(half: Any) -> Any:
    """f64 values at every finite half, at the middle to the next, and a little beside each."""
    finite = PATTERNS[np.isfinite(PATTERNS.view(half).astype(np.float64))].view(half)
    values = np.unique(finite.astype(np.float64))
    middles = (values[1:] + values[:-1]) / 2
    largest = values[-1] + (values[-1] - values[-2]) / 2  # the tie between the last and infinity
    places = np.concatenate([values, middles, [largest, -largest, np.inf, -np.inf, np.nan, -0.0]])
    return places


def neighbours(places: Any) -> Any:
    return np.concatenate([places, np.nextafter(places, np.inf), np.nextafter(places, -np.inf)])


def rounded(values: Any, half: Any) -> Any:
    """f64 values as the nearest half, ties to even, from its definition."""
    patterns = np.arange(0x7C00 if half == np.dtype(np.float16) else 0x7F80, dtype=np.uint16)
    grid: Any = patterns.view(half).astype(np.float64)
    grid = np.append(grid, grid[-1] + (grid[-1] - grid[-2]))  # infinity is the next step
    magnitude: Any = np.abs(values)
    position = cast("Any", np.searchsorted(grid, magnitude, side="right"))
    below = position.clip(1, len(grid) - 1) - 1
    low: Any = magnitude - grid[below]
    high: Any = grid[below + 1] - magnitude
    above = (low > high) | ((low == high) & (below % 2 == 1))
    result = np.where(np.isnan(values), len(grid), below + above).astype(np.uint16)
    return (result | (np.signbit(values).astype(np.uint16) << 15)).view(half)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("wide", ["f32", "f64"])
@pytest.mark.parametrize("name", HALVES)
def test_every_half_widens_exactly(name: str, wide: str, target: str) -> None:
    values = PATTERNS.view(HALVES[name])
    found = converted("extf", name, wide, values, target)
    assert_same_bits(found, values.astype(np.float32).astype(found.dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", HALVES)
def test_every_half_comes_back(name: str, target: str) -> None:
    values = PATTERNS.view(HALVES[name])
    wide = converted("extf", name, "f32", values, target)
    assert_same_bits(converted("truncf", "f32", name, wide, target), values)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", HALVES)
def test_f32_rounds_to_nearest_even(name: str, target: str) -> None:
    values = neighbours(ties(HALVES[name]).astype(np.float32))
    found = converted("truncf", "f32", name, values, target)
    assert_same_bits(found, rounded(values.astype(np.float64), HALVES[name]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", HALVES)
def test_f64_rounds_once(name: str, target: str) -> None:
    values = neighbours(ties(HALVES[name]))
    found = converted("truncf", "f64", name, values, target)
    assert_same_bits(found, rounded(values, HALVES[name]))
