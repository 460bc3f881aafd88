"""Functions that several ops are together: which ops, and how accurate the functions are.

They are compiled as C++ for the CPU here, whose reciprocals and powers of two are rounded right; a
GPU's are off by one unit in the last place more.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip, nvrtc_or_skip

import convir
from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.cuda.headers import headers
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.runtime.cuda.toolchain.compile import compile_cubin

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS = "arith/functions.cuh"
SIZE = 4096

SIGMOID = """
  %m = arith.negf %a : f32
  %e = math.exp %m : f32
  %d = arith.addf %e, %one : f32
  %r = arith.divf %one, %d : f32
"""
GELU = """
  %z = arith.mulf %a, %root : f32
  %e = math.erf %z : f32
  %d = arith.addf %one, %e : f32
  %r = arith.mulf %a, %d : f32
"""
SILU = f"""
{SIGMOID.replace("%r =", "%s =")}
  %p = arith.mulf %a, %s : f32
  %t = arith.truncf %p : f32 to HALF
  %r = arith.extf %t : HALF to f32
"""
OTHERS = {
    "another numerator": SIGMOID.replace("divf %one", "divf %a"),
    "another summand": SIGMOID.replace("addf %e, %one", "addf %e, %root"),
    "no exponential": SIGMOID.replace("math.exp", "math.tanh"),
    "a difference": GELU.replace("arith.addf", "arith.subf"),
    "another function": GELU.replace("math.erf", "math.tanh"),
}


def text(body: str, size: str = str(SIZE)) -> str:
    """An elementwise function of f32."""
    kind = f"tensor<{size}xf32>"
    return f"""
func.func @main(%x: {kind}) -> {kind} {{
  %empty = tensor.empty() : {kind}
  %y = linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]}} ins(%x : {kind}) outs(%empty : {kind}) {{
  ^bb0(%a: f32, %o: f32):
    %one = arith.constant 1.0 : f32
    %root = arith.constant 0.70710678 : f32
{body}
    linalg.yield %r : f32
  }} -> {kind}
  func.return %y : {kind}
}}
"""


def source_of(body: str) -> str:
    """The loops of a function as CUDA C++."""
    module = read_module(
        text(body)
        .replace("func.func @main", "kernel.func @k")
        .replace("func.return", "kernel.return")
    )
    function = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    return "\n".join(launch.source for launch in plan_loops(function, restrict=True).kernels)


def test_the_inverse_of_one_and_an_exponential() -> None:
    source = source_of(SIGMOID)
    assert "convir::inverse_from_one(" in source
    assert " / " not in source


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_of_which_16_bits_are_kept(half: str) -> None:
    source = source_of(SILU.replace("HALF", half))
    assert "convir::logistic_to_16_bits(" in source
    assert "inverse_from_one" not in source


def test_of_which_16_bits_and_more_are_kept() -> None:
    product = SILU.replace("HALF", "f16").replace("%r =", "%h =") + "%r = arith.addf %h, %p : f32"
    assert "logistic_to_16_bits" not in source_of(product)
    factor = SILU.replace("HALF", "f16").replace("%r =", "%h =") + "%r = arith.addf %h, %s : f32"
    assert "logistic_to_16_bits" not in source_of(factor)


def test_one_and_an_error_function() -> None:
    assert "convir::one_plus_erf(" in source_of(GELU)


@pytest.mark.parametrize("name", OTHERS)
def test_other_ops_are_computed_alone(name: str) -> None:
    source = source_of(OTHERS[name])
    assert "inverse_from_one" not in source
    assert "one_plus_erf" not in source


def test_they_compile() -> None:
    nvrtc_or_skip()
    for body in (SIGMOID, SILU.replace("HALF", "bf16"), GELU):
        assert compile_cubin(source_of(body), "sm_90a")


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The header as a library of the host's."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    folder: Path = tmp_path_factory.mktemp("functions")
    lines = ["#include <math.h>", "#define __device__", dict(headers())[FUNCTIONS]]
    for name in ("inverse_from_one", "logistic_to_16_bits", "one_plus_erf"):
        lines.append(
            f'extern "C" void {name}(const float* x, float* y, int n) '
            f"{{ for (int i = 0; i < n; ++i) y[i] = convir::{name}(x[i]); }}"
        )
    (folder / "f.cpp").write_text("\n".join(lines))
    library = folder / "f.so"
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, str(folder / "f.cpp"), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def applied(functions: Any, name: str, x: Any) -> Any:
    """A function of f32 numbers."""
    given: Any = np.ascontiguousarray(x, np.float32)
    found: Any = np.empty_like(given)
    getattr(functions, name)(
        ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(found.ctypes.data), given.size
    )
    return found


def test_inverses_are_rounded_to_nearest(functions: Any) -> None:
    rng = np.random.default_rng(0)
    exponents = rng.integers(0, 126, 200_000)
    d = np.ldexp(1 + rng.random(exponents.size), exponents).astype(np.float32)
    d = np.concatenate(
        [d, np.array([1, np.nextafter(np.float32(1), np.float32(2)), 2.0**126], np.float32)]
    )
    wanted = (1 / d.astype(np.float64)).astype(np.float32)
    assert np.array_equal(applied(functions, "inverse_from_one", d), wanted)


def test_inverses_that_are_no_normal_numbers(functions: Any) -> None:
    d = np.array([1.5 * 2.0**126, 2.0**127, 3.4e38, np.inf, np.nan], np.float32)
    found = applied(functions, "inverse_from_one", d)
    wanted = 1 / d.astype(np.float64)
    assert np.abs(found[:3] - wanted[:3]).max() <= 2.0**-149
    assert found[3] == 0
    assert np.isnan(found[4])


def test_what_16_bits_are_kept_of(functions: Any) -> None:
    x: Any = np.linspace(-110, 110, 200_001).astype(np.float32)
    found = applied(functions, "logistic_to_16_bits", x)
    wanted = 1 / (1 + np.exp(x.astype(np.float64)))
    assert (np.abs(found - wanted) <= 2.0**-16 * wanted + 2.0**-149).all()
    ends = np.array([0, -0.0, np.inf, -np.inf, 1e30, -1e30, np.nan], np.float32)
    found = applied(functions, "logistic_to_16_bits", ends)
    assert found[:6].tolist() == [0.5, 0.5, 0, 1, 0, 1]
    assert np.isnan(found[6])


def test_one_plus_erf_is_as_accurate_as_the_sum(functions: Any) -> None:
    z: Any = np.linspace(-11, 11, 300_001).astype(np.float32)
    found = applied(functions, "one_plus_erf", z).astype(np.float64)
    wanted = np.array([math.erfc(-float(each)) for each in z])
    error = np.abs(found - wanted)
    near = z > -0.5
    ulp = np.spacing(wanted.astype(np.float32)).astype(np.float64)
    assert (error[near] <= 2 * ulp[near]).all()
    assert error[~near].max() <= 2.0**-24
    assert (found >= 0).all()


def test_one_plus_erf_at_the_ends(functions: Any) -> None:
    z = np.array([0, -0.0, 1e-30, 30, -30, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    found = applied(functions, "one_plus_erf", z)
    assert found[:9].tolist() == [1, 1, 1, 2, 0, 2, 0, 2, 0]
    assert np.isnan(found[9])


@pytest.mark.gpu
@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_16_bits_on_a_gpu(half: str) -> None:
    cupy: Any = cupy_or_skip()
    x: Any = np.linspace(-100, 20, SIZE).astype(np.float32)
    executable = convir.compile(text(SILU.replace("HALF", half)), device="cuda")
    found: Any = cupy.asnumpy(executable(cupy.asarray(x)))
    exact: Any = x.astype(np.float64)
    wanted: Any = exact / (1 + np.exp(-exact))
    unit, least = (2.0**-11, 2.0**-25) if half == "f16" else (2.0**-8, 2.0**-133)
    assert (np.abs(found - wanted) <= 1.05 * unit * np.abs(wanted) + least).all()


@pytest.mark.gpu
@pytest.mark.parametrize("body", [SIGMOID, GELU], ids=["sigmoid", "gelu"])
def test_on_a_gpu(body: str) -> None:
    cupy: Any = cupy_or_skip()
    x: Any = np.linspace(-100, 100, SIZE).astype(np.float32)
    exact: Any = x.astype(np.float64)
    found: Any = cupy.asnumpy(convir.compile(text(body), device="cuda")(cupy.asarray(x)))
    with np.errstate(over="ignore"):
        exponential = np.exp(-exact).astype(np.float32).astype(np.float64)
    wanted = 1 / (1 + np.where(np.isinf(exponential), np.inf, np.exp(-exact)))
    if body is GELU:
        wanted = exact * np.array([math.erfc(-0.70710678 * float(each)) for each in x])
        assert np.abs(found - wanted).max() <= 3e-7 * np.abs(wanted).max()
        return
    assert (np.abs(found - wanted) <= 5e-7 * wanted + 2.0**-148).all()
