"""Batched products whose operands lie in any order of their dimensions, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.api.compile import compile as compile_module
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.bodies.contraction.reading_cost import VectorUnit
from convir.lowering.kernels.host.problem import read_host_contraction
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import target
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.outline_kernels import outlined


@dataclass(frozen=True)
class Products:
    """C[g, m, n] = 3 · Σ A[g, m, k] · B[g, k, n] + R, of f32, and R as C."""

    sizes: tuple[int, int, int, int]
    """Of g, m, n and k."""
    a: str = "gmk"
    """The order of the dimensions of A."""
    b: str = "gkn"
    c: str = "gmn"
    follows: bool = False
    """Whether anything follows the product."""

    def shape(self, order: str) -> tuple[int, ...]:
        """Of a tensor."""
        return tuple(dict(zip("gmnk", self.sizes, strict=True))[loop] for loop in order)

    @property
    def text(self) -> str:
        a, b, c = (
            f"tensor<{'x'.join(map(str, self.shape(order)))}xf32>"
            for order in (self.a, self.b, self.c)
        )
        maps = ", ".join(
            f"affine_map<(g, m, n, k) -> ({', '.join(order)})>"
            for order in (self.a, self.b, self.c)
        )
        same = "affine_map<(i, j, l) -> (i, j, l)>"
        behind = f"""
            %e = tensor.empty() : {c}
            %z = linalg.generic {{indexing_maps = [{same}, {same}, {same}],
                iterator_types = ["parallel", "parallel", "parallel"]}}
              ins(%p, %r : {c}, {c}) outs(%e : {c}) {{
            ^bb0(%u: f32, %v: f32, %o: f32):
              %three = arith.constant 3.0 : f32
              %t = arith.mulf %u, %three : f32
              %s = arith.addf %t, %v : f32
              linalg.yield %s : f32
            }} -> {c}"""
        return f"""
          func.func @main(%a: {a}, %b: {b}, %r: {c}) -> {c} {{
            %zero = arith.constant 0.0 : f32
            %empty = tensor.empty() : {c}
            %zeros = linalg.fill ins(%zero : f32) outs(%empty : {c}) -> {c}
            %p = linalg.generic {{indexing_maps = [{maps}],
              iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
              ins(%a, %b : {a}, {b}) outs(%zeros : {c}) {{
            ^bb0(%u: f32, %v: f32, %o: f32):
              %t = arith.mulf %u, %v : f32
              %s = arith.addf %o, %t : f32
              linalg.yield %s : f32
            }} -> {c}
            {behind if self.follows else ""}
            return {"%z" if self.follows else "%p"} : {c}
          }}"""


SIZES = st.tuples(
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([1, 2, 5, 16, 17, 40, 130]),
    st.sampled_from([1, 2, 7, 16, 17, 33, 64, 80]),
    st.sampled_from([1, 2, 7, 16, 33, 64]),
)
ORDERS = {
    name: st.sampled_from(
        [
            "".join(order)
            for order in (name, name[0] + name[2] + name[1], name[1] + name[0] + name[2])
        ]
    )
    for name in ("gmk", "gkn", "gmn")
}


@settings(max_examples=80, deadline=None)
@given(
    case=st.builds(
        Products, SIZES, ORDERS["gmk"], ORDERS["gkn"], ORDERS["gmn"], follows=st.booleans()
    )
)
def test_products_of_any_layout(case: Products):
    rng = np.random.default_rng(3)
    a, b, r = (
        rng.integers(-3, 4, case.shape(order)).astype(np.float32)
        for order in (case.a, case.b, case.c)
    )
    compiled = compile_module(case.text, "canonicalize,cse", device="host")
    out = np.full(r.shape, np.nan, np.float32)
    compiled(a, b, r, out=out)
    product = np.einsum(f"{case.a},{case.b}->{case.c}", a, b)
    np.testing.assert_array_equal(out, 3 * product + r if case.follows else product)


@pytest.mark.parametrize("c", ["gmn", "mgn"])
@pytest.mark.parametrize("a", ["gmk", "mgk"])
def test_rows_are_read_and_written_where_they_lie(a: str, c: str):
    module = read_module(Products((12, 197, 80, 64), a, "gkn", c).text)
    FormKernelRegionsPass().apply(new_context(), module)
    (region,) = (op for op in module.walk() if isinstance(op, kernel.RegionOp))
    reading = read_host_contraction(outlined(region, "main")[0], VectorUnit(32, 2.0))
    assert not isinstance(reading, Refusal), reading.reason
    spec = reading.spec
    assert (spec.groups, spec.phases[0].pixels, spec.out_channels) == (12, 197, 80)
    assert not plan_contraction(spec, target("x86-64-v3")).workspace
