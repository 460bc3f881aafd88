"""The cuda device against NumPy: kernels from IR, cuBLAS, buffers and indices."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convir.api.compile import compile as convir_compile
from convir.reference.dtypes import BFLOAT16
from convir.runtime.cuda import toolkit
from convir.runtime.trace.call import traced_call
from convir.runtime.trace.slices import STEP

EXAMPLES = Path(__file__).parents[3] / "examples"

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def cupy() -> Any:
    try:
        toolkit.require_gpu(0)
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    return toolkit.cupy()


def run(text: str, *arguments: Any) -> Any:
    """Compile without graph passes and run on poisoned output memory."""
    cupy = toolkit.cupy()
    executable = convir_compile(text, pipeline="", device="cuda")
    (spec,) = executable.outputs
    out = cupy.full(spec.shape, float("nan") if spec.dtype.kind in "fV" else 77, spec.dtype)
    result = executable(*arguments, out=out)
    assert result is out
    return cupy.asnumpy(result)


def test_a_traced_call_has_each_step_on_the_stream() -> None:
    executable = convir_compile(EXAMPLES / "backward_data_1x1.mlir", device="cuda")
    arguments = [toolkit.cupy().zeros(x.shape, x.dtype) for x in executable.inputs]
    executable(*arguments)
    steps = [each for each in traced_call(executable, arguments) if each.category == STEP]
    assert {call for step in steps for call in step.calls} == {
        *range(len(executable.program.calls))
    }
    assert all(step.begin <= step.end for step in steps)
    assert all(one.end <= other.begin for one, other in pairwise(steps))


def small_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    return rng.integers(-3, 4, shape).astype(dtype)


def scatter(
    shape: tuple[int, ...], out: tuple[int, ...], offsets: list[int], strides: list[int], t: str
) -> str:
    s, o = "x".join(map(str, shape)), "x".join(map(str, out))
    zero = "0" if t.startswith("i") else "0.0"
    return f"""
func.func @main(%x: tensor<{s}x{t}>) -> tensor<{o}x{t}> {{
  %z = arith.constant dense<{zero}> : tensor<{o}x{t}>
  %r = tensor.insert_slice %x into %z{offsets} {list(shape)} {strides} : tensor<{s}x{t}>
    into tensor<{o}x{t}>
  func.return %r : tensor<{o}x{t}>
}}"""


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64", "i32", "i8"])
@pytest.mark.parametrize(
    ("shape", "out", "offsets", "strides"),
    [
        ((2, 5, 7, 3), (2, 12, 15, 3), [0, 1, 1, 0], [1, 2, 2, 1]),
        ((1, 1, 1, 1), (1, 4, 4, 1), [0, 3, 2, 0], [1, 3, 5, 1]),
        ((33,), (100,), [2], [3]),
    ],
)
def test_scatter(
    element: str,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    offsets: list[int],
    strides: list[int],
) -> None:
    dtype = {"f16": "f2", "f32": "f4", "f64": "f8", "i32": "i4", "i8": "i1"}.get(element, BFLOAT16)
    x = small_integers(np.random.default_rng(0), shape, dtype)
    expected = np.zeros(out, dtype)
    slices = tuple(
        slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, shape, strides, strict=True)
    )
    expected[slices] = x
    assert np.array_equal(run(scatter(shape, out, offsets, strides, element), x), expected)


CONV = """
func.func @main(%x: tensor<2x8x9x16xELT>, %w: tensor<3x3x16x24xELT>) -> tensor<2x6x7x24xELT> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x7x24xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<2x6x7x24xf32>) -> tensor<2x6x7x24xf32>
  %0 = linalg.generic {indexing_maps = [
      affine_map<(n,p,q,k,r,s,c) -> (n,p+r,q+s,c)>, affine_map<(n,p,q,k,r,s,c) -> (r,s,c,k)>,
      affine_map<(n,p,q,k,r,s,c) -> (n,p,q,k)>],
      iterator_types = ["parallel","parallel","parallel","parallel",
                        "reduction","reduction","reduction"]}
      ins(%x, %w : tensor<2x8x9x16xELT>, tensor<3x3x16x24xELT>) outs(%f : tensor<2x6x7x24xf32>) {
  ^bb0(%a: ELT, %b: ELT, %o: f32):
    %1 = arith.extf %a : ELT to f32
    %2 = arith.extf %b : ELT to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %o, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2x6x7x24xf32>
  %g = tensor.empty() : tensor<2x6x7x24xELT>
  %t = linalg.generic {indexing_maps = [
      affine_map<(n,p,q,k) -> (n,p,q,k)>, affine_map<(n,p,q,k) -> (n,p,q,k)>],
      iterator_types = ["parallel","parallel","parallel","parallel"]}
      ins(%0 : tensor<2x6x7x24xf32>) outs(%g : tensor<2x6x7x24xELT>) {
  ^bb0(%a: f32, %o: ELT):
    %1 = arith.truncf %a : f32 to ELT
    linalg.yield %1 : ELT
  } -> tensor<2x6x7x24xELT>
  func.return %t : tensor<2x6x7x24xELT>
}"""


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_convolution_as_loops(element: str) -> None:
    dtype: Any = np.float16 if element == "f16" else BFLOAT16
    rng = np.random.default_rng(1)
    x = small_integers(rng, (2, 8, 9, 16), dtype)
    w = small_integers(rng, (3, 3, 16, 24), dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("f4"), (3, 3), (1, 2))
    expected = np.einsum("npqcrs,rsck->npqk", windows, w.astype("f4")).astype(dtype)
    assert np.array_equal(run(CONV.replace("ELT", element), x, w), expected)


MATMUL = """
func.func @main(%a: tensor<3xAxf16>, %b: tensor<40x56xf16>) -> tensor<3x48x56xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x48x56xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<3x48x56xf32>) -> tensor<3x48x56xf32>
  %0 = linalg.generic {indexing_maps = [MAP,
      affine_map<(s,m,n,k) -> (k,n)>, affine_map<(s,m,n,k) -> (s,m,n)>],
      iterator_types = ["parallel","parallel","parallel","reduction"]}
      ins(%a, %b : tensor<3xAxf16>, tensor<40x56xf16>) outs(%f : tensor<3x48x56xf32>) {
  ^bb0(%x: f16, %y: f16, %o: f32):
    %1 = arith.extf %x : f16 to f32
    %2 = arith.extf %y : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %3, %o : f32
    linalg.yield %4 : f32
  } -> tensor<3x48x56xf32>
  func.return %0 : tensor<3x48x56xf32>
}"""


@pytest.mark.parametrize("transposed", [False, True])
def test_gemm_with_a_shared_operand(transposed: bool) -> None:
    shape, indices = ("40x48", "k,m") if transposed else ("48x40", "m,k")
    text = MATMUL.replace("xAx", f"x{shape}x")
    text = text.replace("MAP", f"affine_map<(s,m,n,k) -> (s,{indices})>")
    rng = np.random.default_rng(2)
    a = small_integers(rng, (3, *(int(n) for n in shape.split("x"))), np.float16)
    b = small_integers(rng, (40, 56), np.float16)
    lhs = a.astype("f4").transpose(0, 2, 1) if transposed else a.astype("f4")
    assert np.array_equal(run(text, a, b), lhs @ b.astype("f4"))


M, N, K, BATCH = 33, 56, 40, 3
PADDING = 8
"""Elements between the end of a row and the next row."""

GEMM = """
func.func @main(%a: memref<3xAxIN>, %b: memref<BxIN>, %c: memref<3x33x64xOUT>)
    attributes {rt.program} {
  rt.gemm {m = 33 : i64, n = 56 : i64, k = 40 : i64, batch = 3 : i64, lda = LDA : i64,
      ldb = LDB : i64, ldc = 64 : i64, stride_a = STRIDE : i64, stride_b = 0 : i64,
      stride_c = 2112 : i64FLAGS}
      ins(%a, %b : memref<3xAxIN>, memref<BxIN>) outs(%c : memref<3x33x64xOUT>)
  func.return
}"""


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(
    ("element", "stored"),
    [
        ("f16", "f16"),
        ("f16", "f32"),
        ("bf16", "bf16"),
        ("bf16", "f32"),
        ("f32", "f32"),
        ("f64", "f64"),
    ],
)
def test_gemm(element: str, stored: str, transpose_a: bool, transpose_b: bool, cupy: Any) -> None:
    """Strided batches, leading dimensions, transposes, and an operand that all batches share."""
    dtypes: dict[str, Any] = {
        "f16": np.float16,
        "bf16": BFLOAT16,
        "f32": np.float32,
        "f64": np.float64,
    }
    shape_a = (K, M + PADDING) if transpose_a else (M, K + PADDING)
    shape_b = (N, K + PADDING) if transpose_b else (K, N + PADDING)
    flags = "".join(f", transpose_{x}" for x, on in (("a", transpose_a), ("b", transpose_b)) if on)
    words = {
        "xAx": f"x{shape_a[0]}x{shape_a[1]}x",
        "<Bx": f"<{shape_b[0]}x{shape_b[1]}x",
        "LDA": str(shape_a[1]),
        "LDB": str(shape_b[1]),
        "STRIDE": str(shape_a[0] * shape_a[1]),
        "FLAGS": flags,
        "IN": element,
        "OUT": stored,
    }
    text = GEMM
    for word, value in words.items():
        text = text.replace(word, value)
    rng = np.random.default_rng(4)
    a = small_integers(rng, (BATCH, *shape_a), dtypes[element])
    b = small_integers(rng, shape_b, dtypes[element])
    lhs = a.astype("f8").transpose(0, 2, 1)[:, :M] if transpose_a else a.astype("f8")[:, :, :K]
    rhs = b.astype("f8").T[:K] if transpose_b else b.astype("f8")[:, :N]
    found = run(text, a, b)
    assert np.array_equal(found[:, :, :N].astype("f8"), lhs @ rhs)
    assert np.isnan(found[:, :, N:].astype("f8")).all(), "nothing is written beside the rows"


def test_more_than_two_to_the_31_elements(cupy: Any) -> None:
    size = (1 << 31) + 12345
    text = scatter((size // 2,), (size,), [1], [2], "i8")
    executable = convir_compile(text, pipeline="", device="cuda")
    x = cupy.random.randint(-100, 100, size // 2, dtype=cupy.int8)
    out = cupy.full(size, 77, cupy.int8)
    executable(x, out=out)
    assert bool((out[1::2][: size // 2] == x).all())
    assert bool((out[::2] == 0).all())


def test_streams_dlpack_and_repeated_calls(cupy: Any) -> None:
    torch = pytest.importorskip("torch")
    executable = convir_compile(scatter((8, 4), (16, 4), [0, 0], [2, 1], "f32"), "", "cuda")
    x = torch.randn(8, 4, device="cuda")
    torch.cuda.synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        y = executable(x)
    stream.synchronize()
    assert torch.equal(y[::2], x)
    assert not y[1::2].any()


@pytest.mark.parametrize("name", ["backward_data_1x1.mlir", "backward_data_3x3_grouped.mlir"])
def test_examples_on_small_integers(name: str, cupy: Any) -> None:
    path = EXAMPLES / name
    plain = convir_compile(path, pipeline="", device="cuda")
    fast = convir_compile(path, device="cuda")
    rng = cupy.random.default_rng(3)
    arguments = [rng.integers(-2, 3, spec.shape).astype(spec.dtype) for spec in plain.inputs]
    (spec,) = fast.outputs
    before, after = (cupy.full(spec.shape, cupy.nan, spec.dtype) for _ in range(2))
    plain(*arguments, out=before)
    fast(*arguments, out=after)
    assert bool((before == after).all())
