"""Contractions that a reading would take for others: refused with the reason, and right anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.analysis.refusal import Refusal
from convir.api.compile import compile as compile_module
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.bodies.contraction.read_kernel import contraction_readings
from convir.lowering.bodies.contraction.reading_cost import VectorUnit
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.lowering.regions.outline_kernels import outlined
from convir.reference import evaluate

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.bodies.contraction.spec import Contraction

pytestmark = pytest.mark.fast

PRODUCT = """
  %r = linalg.generic {{indexing_maps = [affine_map<{loops} -> {a}>, affine_map<{loops} -> {b}>,
      affine_map<{loops} -> {c}>], iterator_types = [{kinds}]}}
      ins({x}, {y} : {xs}, {ys}) outs(%init : {rs}) {{
  ^bb0(%u: f32, %v: f32, %o: f32):
    %p = arith.mulf %u, %v : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  }} -> {rs}
"""


def product(loops: str, kinds: str, maps: tuple[str, str, str], **values: str) -> str:
    """A sum of products over `loops`, each `p`arallel or `r`educed."""
    words = {"p": '"parallel"', "r": '"reduction"'}
    a, b, c = maps
    return PRODUCT.format(
        loops=loops, kinds=", ".join(words[kind] for kind in kinds), a=a, b=b, c=c, **values
    )


SLICED_GROUPS = f"""
func.func @main(%all: tensor<5x3x6xf32>, %y: tensor<3x4x8xf32>) -> tensor<5x3x8xf32> {{
  %init = arith.constant dense<0.0> : tensor<5x3x8xf32>
  %x = tensor.extract_slice %all[0, 0, 0] [5, 3, 4] [1, 1, 1]
      : tensor<5x3x6xf32> to tensor<5x3x4xf32>
  {
    product("(m, g, n, k)", "pppr", ("(m, g, k)", "(g, k, n)", "(m, g, n)"), x="%x", y="%y",
            xs="tensor<5x3x4xf32>", ys="tensor<3x4x8xf32>", rs="tensor<5x3x8xf32>")
  }
  return %r : tensor<5x3x8xf32>
}}"""  # fmt: skip

WEIGHTS = product(
    "(k, c, n, p)", "pprr", ("(n, p, c)", "(n, p, k)", "(k, c)"), x="%x", y="%part",
    xs="tensor<2x9x16xf32>", ys="tensor<2x9x32xf32>", rs="tensor<32x16xf32>",
)  # fmt: skip

SLICED_GRADIENTS = f"""
func.func @main(%x: tensor<2x9x16xf32>, %y: tensor<2x12x32xf32>) -> tensor<32x16xf32> {{
  %init = arith.constant dense<0.0> : tensor<32x16xf32>
  %part = tensor.extract_slice %y[0, 2, 0] [2, 9, 32] [1, 1, 1]
      : tensor<2x12x32xf32> to tensor<2x9x32xf32>
  {WEIGHTS}
  return %r : tensor<32x16xf32>
}}"""

STORED_WITH_GAPS = f"""
func.func @main(%x: tensor<2x9x16xf32>, %part: tensor<2x9x32xf32>) -> tensor<64x17xf32> {{
  %init = arith.constant dense<0.0> : tensor<32x16xf32>
  %zeros = arith.constant dense<0.0> : tensor<64x17xf32>
  {WEIGHTS}
  %all = tensor.insert_slice %r into %zeros[1, 1] [32, 16] [2, 1]
      : tensor<32x16xf32> into tensor<64x17xf32>
  return %all : tensor<64x17xf32>
}}"""

COLUMNS_APART = f"""
func.func @main(%w: tensor<5x7xf32>, %x: tensor<3x32x7xf32>) -> tensor<3x5x32xf32> {{
  %init = arith.constant dense<0.0> : tensor<3x5x32xf32>
  {
    product("(n, m, p, k)", "pppr", ("(m, k)", "(n, p, k)", "(n, m, p)"), x="%w", y="%x",
            xs="tensor<5x7xf32>", ys="tensor<3x32x7xf32>", rs="tensor<3x5x32xf32>")
  }
  return %r : tensor<3x5x32xf32>
}}"""  # fmt: skip


SLICED_MATRIX = """
func.func @main(%x: tensor<5x4xf32>, %y: tensor<8x32xf32>) -> tensor<5x32xf32> {
  %init = arith.constant dense<0.0> : tensor<5x32xf32>
  %part = tensor.extract_slice %y[3, 0] [4, 32] [1, 1] : tensor<8x32xf32> to tensor<4x32xf32>
  %r = linalg.matmul ins(%x, %part : tensor<5x4xf32>, tensor<4x32xf32>)
      outs(%init : tensor<5x32xf32>) -> tensor<5x32xf32>
  return %r : tensor<5x32xf32>
}"""
"""Its columns fill vectors, but it does not begin where the argument does."""


VECTORS = VectorUnit(64, 2.0)


def kernel_of(text: str) -> kernel.FuncOp:
    module: ModuleOp = read_module(text)
    for step in (FuseEpiloguePass(), FormKernelRegionsPass()):
        step.apply(new_context(), module)
    (region,) = (op for op in module.walk() if isinstance(op, kernel.RegionOp))
    return outlined(region, "main")[0]


def readings(text: str, *, shares_rows: bool) -> list[Contraction] | Refusal:
    """All that a kernel can be read as, or why it is none."""
    calls = contraction_readings(kernel_of(text), shared_by=VECTORS if shares_rows else None)
    return calls if isinstance(calls, Refusal) else [call.spec for call in calls]


@pytest.mark.parametrize(
    ("text", "reason", "shares_rows"),
    [
        (SLICED_GROUPS, "the channels of its groups are not consecutive", False),
        (STORED_WITH_GAPS, "its result is stored with gaps", False),
        (STORED_WITH_GAPS, "its result is stored with gaps", True),
    ],
    ids=["groups", "gaps", "gaps-on-the-host"],
)
def test_what_no_reading_takes(text: str, reason: str, shares_rows: bool) -> None:
    refused = readings(text, shares_rows=shares_rows)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_the_host_reads_groups_that_lie_apart() -> None:
    found = readings(SLICED_GROUPS, shares_rows=True)
    assert not isinstance(found, Refusal)
    assert {(spec.groups, spec.a.group_stride, spec.out_channels) for spec in found} == {(3, 6, 8)}


@pytest.mark.parametrize(("shares_rows", "offsets"), [(False, [0]), (True, [2 * 32, 0])])
def test_gradients_that_are_a_slice(shares_rows: bool, offsets: list[int]) -> None:
    found = readings(SLICED_GRADIENTS, shares_rows=shares_rows)
    assert not isinstance(found, Refusal)
    assert [spec.result for spec in found] == ["B"] * len(offsets)
    assert [spec.phases[0].out_offset for spec in found] == offsets


@pytest.mark.parametrize(
    "text", [SLICED_GROUPS, SLICED_GRADIENTS, STORED_WITH_GAPS, COLUMNS_APART, SLICED_MATRIX]
)
def test_the_host_computes_them(text: str) -> None:
    rng = np.random.default_rng(0)
    compiled = compile_module(text, "", device="host")
    arguments: list[Any] = [
        rng.integers(-3, 4, spec.shape).astype(np.float32) for spec in compiled.inputs
    ]
    (expected,) = evaluate(read_module(text), "main", arguments)
    out = np.full(expected.shape, np.nan, np.float32)
    compiled(*arguments, out=out)
    np.testing.assert_array_equal(out, expected)
