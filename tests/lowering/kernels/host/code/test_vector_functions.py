"""Functions that are computed in registers, against f64."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Module, Value, vector
from convir.lowering.kernels.host.code.vector_functions import FUNCTIONS
from convir.lowering.kernels.host.target import HOST, X86_64, X86_64_V3, target
from convir.runtime.arrays.host_memory import address_of
from convir.runtime.host.jit import AS_EMITTED, compile_ir

EXACT = {"math.tanh": np.tanh, "math.exp": np.exp}
LANES = 4
ALLOWED = 4e-7
SMALLEST = 1.1754944e-38
"""Below, numbers of f32 lose bits."""


def computed(name: str, x: np.ndarray, cpu: str) -> np.ndarray:
    """The function of every element, four at a time."""
    f = Function("kernel", ((PTR, "x"), (I64, "n")), external=True)
    with f.loop("i", 0, f.argument("n"), LANES) as loop:
        at = f.element(f.argument("x"), loop.index, 4)
        value: Value = f.load(vector("float", LANES), at, 4)
        f.store(FUNCTIONS[name](f, value), at, 4)
    module = Module()
    module.add(f)
    library = compile_ir(module.text(), exports=("kernel",), cpu=target(cpu), options=AS_EMITTED)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address("kernel"))
    y = x.copy()
    kernel(address_of(y), len(y))
    return y


@pytest.mark.parametrize("cpu", [HOST, X86_64_V3, X86_64])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_close_to_the_exact_function(name: str, cpu: str) -> None:
    """Everywhere, relative to the result; results that are no normal numbers in their last bits."""
    numbers = np.random.default_rng(0)
    spread = np.concatenate(
        [
            numbers.uniform(-110, 110, 40000),
            numbers.uniform(-10, 10, 40000),
            numbers.uniform(-1, 1, 40000),
            np.exp(numbers.uniform(-80, 0, 40000)) * numbers.choice([-1, 1], 40000),
        ]
    ).astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        exact = EXACT[name](spread.astype(np.float64))
        rounded = exact.astype(np.float32)
    y = computed(name, spread, cpu)
    finite = np.isfinite(rounded)
    error = np.abs(y[finite].astype(np.float64) - exact[finite])
    assert np.all(error <= ALLOWED * np.abs(exact[finite]) + 2 * ALLOWED * SMALLEST)
    assert np.array_equal(y[~finite], rounded[~finite])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_special_numbers(name: str) -> None:
    """Infinities, NaN, and zeros with their signs."""
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1000, -1000, 1e-40], np.float32)
    y = computed(name, x, HOST)
    with np.errstate(over="ignore"):
        expected = EXACT[name](x)
    assert np.allclose(y, expected, rtol=ALLOWED, atol=0, equal_nan=True)
    assert np.array_equal(np.signbit(y[3:5]), np.signbit(expected[3:5]))
