"""Tensors of more than 2^31 elements: every template of contractions, and generated kernels.

Samples repeat with an odd period, as large as no power of two divides, so that an address that
wraps around reads or writes another sample's element. The first period is compared with the
formula, every other one with the first.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

import pytest
from conv_lines import THREE
from cuda_contractions import kernels_of
from gpu import cupy_or_skip, need_memory
from xdsl.dialects.builtin import ModuleOp

from convir.analysis.refusal import Refusal
from convir.api.compile import compile as convir_compile
from convir.dialects.conv.geometry import Direction
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.registry import choose
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.bench.peers.torch_reference import convolve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from convir.dialects.conv.problem import ConvProblem

pytestmark = pytest.mark.gpu

PERIOD = 3
"""Samples that differ."""
LIMIT = 1 << 31
CHUNK = 1 << 29
"""Elements compared at a time."""
DENSITY = 1 / 64

SIZE = "-H 501 -W 503"
HALF = "-u 2 -v 2"
FORWARD, GRADIENT, WEIGHTS = "-F 1", "-F 2", "-F 4"

# Line without its sizes, and which tensor is to pass the limit; the first word of the name is the
# family of templates that has to take it.
CASES = {
    "sm90_implicit_gemm gradient": (f"convfp16 -c 64 -k 64 -y 1 -x 1 {HALF} {GRADIENT}", 2),
    "sm90_implicit_gemm phases": (f"convfp16 -c 64 -k 64 -y 5 -x 5 -p 2 -q 2 {HALF} {GRADIENT}", 2),
    "sm90_halo_implicit_gemm forward": (f"convfp16 -c 64 -k 64 {THREE} {FORWARD}", 0),
    "sm90_halo_implicit_gemm gradient": (f"convbfp16 -c 64 -k 64 {THREE} {GRADIENT}", 2),
    "sm90_halo_implicit_gemm phases": (f"convfp16 -c 64 -k 64 {THREE} {HALF} {GRADIENT}", 2),
    "sm90_halo_implicit_gemm strided": (f"convfp16 -c 32 -k 64 {THREE} {HALF} {FORWARD}", 0),
    "sm90_implicit_gemm forward": (f"convfp16 -c 128 -k 64 -y 2 -x 2 {HALF} {FORWARD}", 0),
    "grouped_direct forward": (f"convfp16 -c 64 -k 64 {THREE} -g 8 {FORWARD}", 0),
    "grouped_direct gradient": (f"convfp16 -c 64 -k 64 {THREE} {HALF} -g 8 {GRADIENT}", 2),
    "few_output_channels gradient": (f"convfp16 -c 3 -k 32 {THREE} {HALF} {GRADIENT}", 0),
    "simt_direct gradient": (f"conv -c 8 -k 8 {THREE} -g 8 {GRADIENT}", 2),
    "sm80_implicit_gemm forward": (f"convfp16 -c 36 -k 20 {THREE} {FORWARD}", 0),
    "sm80_implicit_gemm gradient": (f"convfp16 -c 36 -k 20 {THREE} {HALF} {GRADIENT}", 2),
    "sm80_implicit_gemm channels-first": (f"convfp16 -c 36 -k 20 {THREE} {HALF} {GRADIENT}", 2),
    "any weights of odd channels": (f"convfp16 -c 36 -k 20 -y 1 -x 1 {HALF} {WEIGHTS}", 0),
    "any weights": (f"convfp16 -c 64 -k 64 {THREE} {HALF} {WEIGHTS}", 0),
    "any weights of both": (f"convfp16 -c 64 -k 64 {THREE} {WEIGHTS}", 0),
    "any weights of groups": (f"convfp16 -c 64 -k 64 {THREE} {HALF} -g 8 {WEIGHTS}", 0),
    "any weights of wide groups": (f"convfp16 -c 64 -k 64 {THREE} -g 2 {WEIGHTS}", 0),
}


@pytest.fixture(autouse=True)
def cupy() -> Generator[Any]:
    cupy = cupy_or_skip()
    yield cupy
    # Other processes have tests of this size too.
    cupy.get_default_memory_pool().free_all_blocks()


def problem_of(name: str) -> ConvProblem:
    """The problem with the fewest periods that take a tensor of it past the limit."""
    line, which = CASES[name]
    layout = "NCHW" if name.endswith("channels-first") else "NHWC"
    layouts = " ".join(f"--{tensor}_layout {layout}" for tensor in ("in", "fil", "out"))
    (problem,) = parse_line(f"{line} -n {PERIOD} {SIZE} {layouts}").problems.values()
    periods = LIMIT // prod(problem.shapes[which]) + 1
    return replace(problem, n=PERIOD * periods)


@pytest.mark.parametrize("name", CASES)
def test_contraction(name: str, cupy: Any) -> None:
    torch = pytest.importorskip("torch")
    problem = problem_of(name)
    assert max(map(prod, problem.shapes)) > LIMIT
    (callee,) = kernels_of(problem)
    choice = choose(callee, DEFAULT_TARGET)
    assert not isinstance(choice, Refusal)
    assert name.split(maxsplit=1)[0] in ("any", str(choice.config).split()[0])
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    specs = (*executable.inputs, *executable.outputs)
    need_memory(
        sum(prod(s.shape) * s.dtype.itemsize for s in specs) + executable.program.arena_bytes
    )
    # The batch is the first axis of all activations, and no axis of the filter.
    one = replace(problem, n=PERIOD)
    periods = problem.n // PERIOD
    random = torch.Generator(device="cuda").manual_seed(0)
    parts = [
        torch.randint(-2, 3, shape, generator=random, device="cuda", dtype=torch.int8)
        for shape in one.shapes[:2]
    ]
    if problem.direction is Direction.WGRAD:
        # Few terms, so that sums of all samples stay in the range of f16.
        parts[1] *= torch.rand(parts[1].shape, generator=random, device="cuda") < DENSITY
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(problem.dtype, torch.float32)
    parts = [part.to(dtype) for part in parts]
    wholes = [
        part if part.shape == shape else part.repeat(periods, 1, 1, 1)
        for part, shape in zip(parts, problem.shapes[:2], strict=True)
    ]
    expected = convolve(one, parts)
    torch.cuda.synchronize()
    (spec,) = executable.outputs
    out = cupy.full(spec.shape, cupy.nan, spec.dtype)
    executable(*map(cupy.from_dlpack, wholes), out=out)
    cupy.cuda.Device().synchronize()
    found = torch.from_dlpack(out)
    if problem.direction is Direction.WGRAD:
        assert torch.equal(found.double(), (periods * expected).to(dtype).double())
        return
    assert torch.equal(found[:PERIOD].double(), expected.to(dtype).double())
    by_period = found.reshape(periods, *expected.shape)
    step = max(1, CHUNK // expected.numel())
    for first in range(0, periods, step):
        assert bool((by_period[first : first + step] == by_period[0]).all())


ROW = 3 * 1009
"""Elements of a row, which no power of two divides."""
ROWS = LIMIT // ROW + 5


def bias_and_relu(x: Any, b: Any) -> Any:
    return (x + b).clamp_min_(0)


def transposed(x: Any) -> Any:
    return x.t()


def sum_of_rows(x: Any) -> Any:
    return x.sum(1, dtype=import_module("torch").float32)


def sum_of_columns(x: Any) -> Any:
    return x.sum(0, dtype=import_module("torch").float32)


GENERATED: dict[str, tuple[str, Callable[..., Any]]] = {
    "bias and relu": (
        f"""
func.func @main(%x: tensor<{ROWS}x{ROW}xf16>, %b: tensor<{ROW}xf16>) -> tensor<{ROWS}x{ROW}xf16> {{
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<{ROWS}x{ROW}xf16>
  %0 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %b : tensor<{ROWS}x{ROW}xf16>, tensor<{ROW}xf16>)
      outs(%e : tensor<{ROWS}x{ROW}xf16>) {{
  ^bb0(%p: f16, %q: f16, %o: f16):
    %1 = arith.addf %p, %q : f16
    %2 = arith.maximumf %1, %zero : f16
    linalg.yield %2 : f16
  }} -> tensor<{ROWS}x{ROW}xf16>
  return %0 : tensor<{ROWS}x{ROW}xf16>
}}""",
        bias_and_relu,
    ),
    "transpose": (
        f"""
func.func @main(%x: tensor<{ROWS}x{ROW}xf16>) -> tensor<{ROW}x{ROWS}xf16> {{
  %e = tensor.empty() : tensor<{ROW}x{ROWS}xf16>
  %0 = linalg.transpose ins(%x : tensor<{ROWS}x{ROW}xf16>)
      outs(%e : tensor<{ROW}x{ROWS}xf16>) permutation = [1, 0]
  return %0 : tensor<{ROW}x{ROWS}xf16>
}}""",
        transposed,
    ),
    "sum of rows": (
        f"""
func.func @main(%x: tensor<{ROWS}x{ROW}xf16>) -> tensor<{ROWS}xf32> {{
  %z = arith.constant dense<0.0> : tensor<{ROWS}xf32>
  %0 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<{ROWS}x{ROW}xf16>) outs(%z : tensor<{ROWS}xf32>) {{
  ^bb0(%p: f16, %o: f32):
    %1 = arith.extf %p : f16 to f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  }} -> tensor<{ROWS}xf32>
  return %0 : tensor<{ROWS}xf32>
}}""",
        sum_of_rows,
    ),
    "sum of output channels": (
        f"""
func.func @main(%x: tensor<{ROWS}x{ROW}xf16>) -> tensor<{ROW}xf32> {{
  %z = arith.constant dense<0.0> : tensor<{ROW}xf32>
  %0 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = ["reduction", "parallel"]}}
      ins(%x : tensor<{ROWS}x{ROW}xf16>) outs(%z : tensor<{ROW}xf32>) {{
  ^bb0(%p: f16, %o: f32):
    %1 = arith.extf %p : f16 to f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  }} -> tensor<{ROW}xf32>
  return %0 : tensor<{ROW}xf32>
}}""",
        sum_of_columns,
    ),
}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_kernel(name: str, cupy: Any) -> None:
    torch = pytest.importorskip("torch")
    text, formula = GENERATED[name]
    executable = convir_compile(text, pipeline="", device="cuda")
    specs = (*executable.inputs, *executable.outputs)
    # PyTorch's result and comparison take as much again.
    need_memory(3 * sum(prod(s.shape) * s.dtype.itemsize for s in specs))
    random = torch.Generator(device="cuda").manual_seed(0)
    arguments = [
        torch.empty(spec.shape, dtype=torch.float16, device="cuda").random_(-2, 3, generator=random)
        for spec in executable.inputs
    ]
    torch.cuda.synchronize()
    (spec,) = executable.outputs
    out = cupy.full(spec.shape, cupy.nan, spec.dtype)
    executable(*map(cupy.from_dlpack, arguments), out=out)
    cupy.cuda.Device().synchronize()
    assert torch.equal(torch.from_dlpack(out), formula(*arguments))
