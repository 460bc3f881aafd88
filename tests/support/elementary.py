"""The functions of `lowering/kernels/host/vector_functions`: compiled, and exactly, in f64."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping

import numpy as np

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Module, vector
from convir.lowering.kernels.host.target import HOST, target
from convir.lowering.kernels.host.vector_functions.table import write
from convir.reference.ops.transcendental import erf
from convir.runtime.arrays.host_memory import address_of
from convir.runtime.host.jit import AS_EMITTED, compile_ir

LANES = 16
Elementwise = Callable[..., np.ndarray]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def times_gate(x: np.ndarray, gate: np.ndarray) -> np.ndarray:
    """A gate that is 0 closes before infinity."""
    return np.where(gate == 0, np.copysign(0.0, x), x * gate)


def _normal(x: np.ndarray) -> np.ndarray:
    """The probability of less than `x` in a normal distribution."""
    return np.array([math.erfc(value) for value in -x * math.sqrt(0.5)]) / 2


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return times_gate(x, _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _mish(x: np.ndarray) -> np.ndarray:
    raised = np.exp(np.minimum(x, 300))
    w = raised * (raised + 2)
    return times_gate(x, w / (w + 2))


def in_f64(function: Elementwise) -> Elementwise:
    """`function` of arrays of any float type, without warnings."""

    def of(*operands: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return function(*(operand.astype(np.float64) for operand in operands))

    return of


def _gelu(x: np.ndarray) -> np.ndarray:
    return times_gate(x, _normal(x))


def _silu(x: np.ndarray) -> np.ndarray:
    return times_gate(x, _sigmoid(x))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


_OF_F64: Mapping[str, Elementwise] = {
    "math.cos": np.cos,
    "math.erf": erf,
    "math.exp": np.exp,
    "math.log": np.log,
    "math.log1p": np.log1p,
    "math.sin": np.sin,
    "math.tanh": np.tanh,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "mish": _mish,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "softplus": _softplus,
}
EXACT = {name: in_f64(function) for name, function in _OF_F64.items()}
"""Functions of one number, by their names in the table, in f64."""


def computed(name: str, cpu: str = HOST) -> Elementwise:
    """The function of f32 arrays, a multiple of 16 elements long, compiled for a CPU."""
    operands = ("x", "y") if name == "math.powf" else ("x",)
    f = Function("kernel", ((PTR, "x"), (PTR, "y"), (PTR, "z"), (I64, "n")), external=True)
    with f.loop("i", 0, f.argument("n"), LANES) as loop:
        values = [
            f.load(vector("float", LANES), f.element(f.argument(x), loop.index, 4), 4)
            for x in operands
        ]
        f.store(write(f, name, values, target(cpu)), f.element(f.argument("z"), loop.index, 4), 4)
    module = Module()
    module.add(f)
    library = compile_ir(module.text(), exports=("kernel",), cpu=target(cpu), options=AS_EMITTED)
    pointer = ctypes.c_void_p
    signature = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_int64)
    kernel = signature(library.address("kernel"))

    def of(*arrays: np.ndarray) -> np.ndarray:
        assert library is not None
        result = np.full_like(arrays[0], np.nan)
        assert len(result) % LANES == 0
        assert all(array.dtype == np.float32 for array in arrays)
        kernel(address_of(arrays[0]), address_of(arrays[-1]), address_of(result), len(result))
        return result

    return of


def units_off(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far f32 results are from f64 ones, in units in the last place of those in f32.

    Infinite where one is no finite number and the other is not the same, or the sign of a zero is
    another one.
    """
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        finite = np.isfinite(nearest) & np.isfinite(found)
        unit = np.spacing(np.abs(np.where(finite, nearest, 1)).astype(np.float32))
        off = np.abs(found.astype(np.float64) - exact) / unit.astype(np.float64)
        # What rounds to infinity may be the largest number, and the other way round.
        largest = float(np.finfo(np.float32).max)
        edge = np.isinf(nearest) ^ np.isinf(found)
        edge &= np.abs(np.abs(exact) / largest - 1) < 2.0**-23
    same = (found == nearest) | (np.isnan(found) & np.isnan(nearest))
    off = np.where(finite, off, np.where(same | edge, 0.0, np.inf))
    is_zero = (found == 0) & (exact == 0)
    return np.where(is_zero & (np.signbit(found) != np.signbit(exact)), np.inf, off)
