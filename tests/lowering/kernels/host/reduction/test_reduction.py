"""Reductions, normalisations and softmax in passes over rows, against NumPy in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_kernels import TARGETS, assert_same, poisoned, runnable
from hypothesis import given, settings
from hypothesis import strategies as st
from row_programs import expected, text_of
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.passes import PassPipeline

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.bodies.rows.program import MAXIMUM, MAXIMUM_OF_NUMBERS, Reduction
from convir.lowering.bodies.rows.softmax import exponentials_of_negative, with_maxima_of_numbers
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.reduction.problem import read
from convir.lowering.kernels.host.registry import rank
from convir.lowering.kernels.host.target import target
from convir.lowering.pipeline import lowering_passes
from convir.runtime.executable import Executable
from convir.runtime.host.device import HostProgram
from convir.runtime.read_program import read_program

LENGTHS = (2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 257, 1030)
"""Of rows: around one vector and a step of several, of every CPU, and of a few chunks."""
COUNTS = (1, 2, 3, 16, 17, 40, 130, 270)
"""Of rows."""
ULP = 2.0**-23


def run(text: str, x: Any, cpu: str) -> Any:
    """The result on a CPU, its memory poisoned before; one kernel, of this family."""
    module = read_module(text)
    for each in lowering_passes():
        each.apply(new_context(), module)
    (body,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    host = target(cpu)
    found = read(KernelBody(body), host)
    assert not isinstance(found, Refusal), found.reason
    body.configs = DictionaryAttr({"host": StringAttr("reduction")})
    executable = Executable(HostProgram(read_program(module), cpu=host))
    (spec,) = executable.outputs
    out = poisoned(spec.shape, spec.dtype)
    executable(x, out=[out])
    return out


@st.composite
def shapes(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes, and the axes that are reduced: rows, columns, what lies between, and several."""
    length, count = draw(st.sampled_from(LENGTHS)), draw(st.sampled_from(COUNTS))
    other = draw(st.sampled_from((1, 2, 3)))
    return draw(
        st.sampled_from(
            (
                ((count, length), (1,)),
                ((length, count), (0,)),
                ((other, length, count), (1,)),
                ((other, count, 3, length), (2, 3)),
                ((other, count, length), (0, 2)),
                ((other, length, 3, count), (0, 1)),
                ((other, 5, length, count), (1, 2)),
                ((length,), (0,)),
            )
        )
    )


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", ["sum", "max", "min", "product", "softmax", "normal"])
@settings(max_examples=8, deadline=None)
@given(case=shapes(), seed=st.integers(0, 9), cpu=st.sampled_from(TARGETS))
def test_passes_over_rows_are_as_accurate_as_pairwise_sums(
    name: str, kind: str, cpu: str, case: Any, seed: int
) -> None:
    cpu = cpu if runnable(cpu) is not None else "x86-64"
    shape, axes = case
    halves: Any = pytest.importorskip("ml_dtypes")
    dtypes: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": halves.bfloat16}
    random: Any = np.random.default_rng(seed)
    spread = 1e-3 if name == "product" else 1.0
    numbers: Any = 1 + spread * random.standard_normal(shape)
    x: Any = numbers.astype(dtypes[kind])
    exact: Any = x.astype(np.float64)
    found: Any = run(text_of(shape, axes, kind, name), x, cpu)
    wanted: Any = expected(x, axes, name)
    stored = {"f32": ULP, "f16": 2.0**-11, "bf16": 2.0**-8}[kind]
    stored = stored if name in ("softmax", "normal") else ULP
    # A few roundings of each number and, of a product, one for each factor.
    length = int(np.prod([shape[axis] for axis in axes]))
    scale = float(np.abs(exact).sum(axes).max()) if name == "sum" else 0
    scale = max(scale, float(np.abs(wanted).max()), 1e-30)
    if name == "normal":  # The mean is rounded, and what differs little from it is divided by that.
        deviation = np.sqrt(exact.var(axes).min() + 1e-5)
        scale = max(scale, float(np.abs(exact).max() / deviation))
    steps = {"product": length, "softmax": 8, "normal": 16}.get(name, 4)
    tolerance = (stored + steps * ULP) * scale
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("shape", [(3, 100), (100, 40)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["max", "min", "sum", "softmax", "exponentials"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_and_infinities_reach_their_row_alone(
    name: str, axis: int, shape: tuple[int, ...]
) -> None:
    x = np.ones(shape, np.float32)
    x[2, 5], x[0, 7], x[1, 9] = np.nan, np.inf, -np.inf
    found: Any = run(text_of(shape, (axis,), "f32", name), x, "host")
    wanted: Any = expected(x, (axis,), name).astype(np.float32)
    if name == "softmax":
        np.testing.assert_allclose(found, wanted, rtol=2 * ULP)
    else:
        assert_same(found, wanted)


def test_maxima_that_pass_over_nan() -> None:
    """Only where a sum of exponentials has the NaN, and all results have the sum."""
    for name, combiner in (("softmax", MAXIMUM_OF_NUMBERS), ("exponentials", MAXIMUM)):
        module = read_module(text_of((3, 40), (1,), "f32", name))
        for each in lowering_passes():
            each.apply(new_context(), module)
        (body,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
        program = read(KernelBody(body), target())
        assert not isinstance(program, Refusal), program.reason
        reductions = [
            node for node in with_maxima_of_numbers(program).nodes if isinstance(node, Reduction)
        ]
        assert reductions[0].combiner == combiner
        assert len(exponentials_of_negative(program)) == 1


@pytest.mark.parametrize("shape", [(5, 333), (333, 5), (333, 40)])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_integers_are_exact(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    found: Any = run(text_of(shape, (axis,), "f32", "sum"), x, "host")
    assert_same(found, x.sum(axis, dtype=np.float64).astype(np.float32))


def test_exponentials_of_rows_at_their_ends() -> None:
    ends = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e38, -3e38, 88.7, 88.73, 89.0, 90.0]
    ends += [-87.3, -88.0, -100.0, -103.9, -104.0, -105.0, -106.0, 0.0, -0.0]
    numbers = np.array([*ends, *np.linspace(-104, 88.7, 44)], np.float32)
    x = np.full((64, 64), -np.inf, np.float32)
    np.fill_diagonal(x, numbers)  # Each in another lane, and all others add nothing.
    text = text_of(x.shape, (1,), "f32", "sum")
    text = text.replace(
        "%ne = arith.addf %to, %el", "%ex = math.exp %el : f32\n%ne = arith.addf %to, %ex"
    )
    with np.errstate(over="ignore"):
        wanted = np.exp(numbers.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_max_ulp(run(text, x, "host"), wanted, 1)


SUM_OF_ONE = """
func.func @main(%x: tensor<4x1x40xf32>) -> tensor<4x40xf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4x40xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<4x40xf32>) -> tensor<4x40xf32>
  %f = tensor.empty() : tensor<4xf32>
  %start = linalg.fill ins(%one : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
  %y = kernel.region {
    %s = linalg.generic {
      indexing_maps = [affine_map<(n, u, c) -> (n, u, c)>, affine_map<(n, u, c) -> (n, c)>],
      iterator_types = ["parallel", "reduction", "parallel"]
    } ins(%x : tensor<4x1x40xf32>) outs(%ones : tensor<4x40xf32>) {
    ^bb0(%a: f32, %to: f32):
      %r = arith.addf %to, %a : f32
      linalg.yield %r : f32
    } -> tensor<4x40xf32>
    %t = linalg.generic {
      indexing_maps = [affine_map<(n, c) -> (n, c)>, affine_map<(n, c) -> (n)>],
      iterator_types = ["parallel", "reduction"]
    } ins(%s : tensor<4x40xf32>) outs(%start : tensor<4xf32>) {
    ^bb0(%a: f32, %to: f32):
      %r = arith.addf %to, %a : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    %d = linalg.generic {
      indexing_maps = [affine_map<(n, c) -> (n, c)>, affine_map<(n, c) -> (n)>,
        affine_map<(n, c) -> (n, c)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%s, %t : tensor<4x40xf32>, tensor<4xf32>) outs(%e : tensor<4x40xf32>) {
    ^bb0(%a: f32, %b: f32, %to: f32):
      %r = arith.subf %a, %b : f32
      linalg.yield %r : f32
    } -> tensor<4x40xf32>
    kernel.yield %d : tensor<4x40xf32>
  } -> tensor<4x40xf32>
  return %y : tensor<4x40xf32>
}"""


def test_a_sum_of_one_element_goes_along_no_row() -> None:
    x = np.random.default_rng(0).integers(-99, 99, (4, 1, 40)).astype(np.float32)
    added = x[:, 0] + 1
    assert_same(run(SUM_OF_ONE, x, "host"), added - added.sum(1, keepdims=True) - 1)


@pytest.mark.parametrize("length", [17, 33, 49, 50, 197])
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_loops_that_compute_sums_for_each_element_are_not_chosen(cpu: str, length: int) -> None:
    module = read_module(text_of((64, 3, length, length), (3,), "f32", "softmax"))
    PassPipeline(lowering_passes("host")).apply(new_context(), module)
    (body,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    first, *_ = rank(KernelBody(body), target(cpu)).predictions
    assert first.family == "reduction"
