"""Functions that are computed in registers, against f64; `benchmarks/vector_functions.py` tries all
numbers."""

from __future__ import annotations

import numpy as np
import pytest
from elementary import EXACT, computed, in_f64, units_off

from convir.lowering.kernels.host.target import HOST, X86_64, X86_64_V3
from convir.lowering.kernels.host.vector_functions.table import FUNCTIONS

ALLOWED = 2.0
"""Units in the last place."""
OF_GELU = 4.0
"""In f32 its tail, which is computed to the last of its bits, is a product of three numbers."""
STEP = 40009
"""Between the bits of the numbers that are tried: an odd one, and no power of 2 is near."""
ENDS = (0x0, 0x1, 0x2, 0x7FFFFF, 0x800000, 0x3F3504F3, 0x3F800000, 0x7F7FFFFF, 0x7F800000)
"""Bits of zero, the smallest numbers, the ends of normal ones, sqrt 1/2, 1, and infinity."""


def spread() -> np.ndarray:
    """Numbers of all magnitudes, NaN, and neighbours of those at which a function changes."""
    ends = np.array(ENDS, np.int64)[:, None] + np.arange(-3, 4)
    turns = np.array(
        [0.55, 1, 1.19, 1.2, 3.95, 4, 9.5, 15, 50, 87.3366, 88.7228, 103.97, 105, 110, 2.0**50]
    )
    turns = turns.astype(np.float32).view(np.uint32).astype(np.int64)[:, None] + np.arange(-3, 4)
    near = np.concatenate([ends.ravel(), turns.ravel()]).clip(0)
    bits = np.concatenate([np.arange(0, 1 << 32, STEP), near, near | 1 << 31, [0x7FC00001] * 3])
    return np.resize(bits, len(bits) // 16 * 16 + 16).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("cpu", [HOST, X86_64_V3, X86_64])
@pytest.mark.parametrize("name", sorted(EXACT))
def test_within_two_units_of_the_exact_function(name: str, cpu: str) -> None:
    """Everywhere, infinities, NaN and the signs of zeros included."""
    x = spread()
    off = units_off(computed(name, cpu)(x), EXACT[name](x))
    worst = np.argmax(off)
    assert off[worst] <= (OF_GELU if name == "gelu" else ALLOWED), x[worst]


@pytest.mark.parametrize("cpu", [HOST, X86_64_V3, X86_64])
@pytest.mark.parametrize("name", ["math.erf", "math.tanh"])
def test_never_beyond_one(name: str, cpu: str) -> None:
    """Also where the last step rounds, so that 1 - y² has no sign."""
    x = np.linspace(-12, 12, 1 << 16).astype(np.float32)
    assert np.abs(computed(name, cpu)(x)).max() == 1


@pytest.mark.parametrize("cpu", [HOST, X86_64_V3, X86_64])
def test_powers(cpu: str) -> None:
    """Of special numbers, of any numbers, and of exponents whose result is finite."""
    numbers = np.random.default_rng(0)
    special = [0, 1, np.inf, np.nan, 2, 0.5, 3, 1e-40, 1e38, 2.0**24 + 2]
    both = np.array([*special, *(-x for x in special)], np.float32)
    base, exponent = (values.ravel().copy() for values in np.meshgrid(both, both))
    any_bits = numbers.integers(0, 1 << 32, 1 << 14).astype(np.uint32).view(np.float32)
    mild = numbers.uniform(-40, 40, 1 << 14).astype(np.float32)
    mild[::3] = np.round(mild[::3])
    base = np.concatenate([base, any_bits, numbers.lognormal(0, 1, 1 << 14).astype(np.float32)])
    exponent = np.concatenate([exponent, mild, 10 * mild])
    off = units_off(computed("math.powf", cpu)(base, exponent), in_f64(np.power)(base, exponent))
    worst = np.argmax(off)
    assert off[worst] <= ALLOWED, (base[worst], exponent[worst])


@pytest.mark.parametrize("cpu", [HOST, X86_64_V3, X86_64])
def test_gelu_of_which_a_bf16_is_kept(cpu: str) -> None:
    """Infinities, NaN and the signs of zeros included."""
    x = spread()
    found, exact = computed("gelu_to_bf16", cpu)(x), EXACT["gelu"](x)
    kept = np.isfinite(exact) & (np.abs(exact) < 1e38)
    error = np.abs(found[kept] - exact[kept])
    assert (error <= 2.0**-11.5 * np.abs(exact[kept]) + 2.0**-30).all()
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    ends = np.array([0, -0.0, np.inf, -np.inf, -13, -1e30, 1e30, 1] * 2, np.float32)
    found = computed("gelu_to_bf16", cpu)(ends)
    assert found[:7].tolist() == [0, 0, np.inf, 0, 0, 0, np.float32(1e30)]
    assert np.array_equal(np.signbit(found), np.signbit(ends))


@pytest.mark.fast
def test_every_function_is_tried() -> None:
    assert set(EXACT) | {"math.powf", "gelu_to_bf16"} == set(FUNCTIONS)
