"""Products of one matrix with many: groups that read the same rows, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.api.compile import compile as compile_module
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.bodies.contraction.read_kernel import contraction_readings
from convir.lowering.bodies.contraction.reading_cost import VectorUnit, reading_cost
from convir.lowering.bodies.contraction.spec import (
    Axis,
    Channels,
    ComputeType,
    Contraction,
    Phase,
    StorageType,
    Weights,
)
from convir.lowering.kernels.host.implicit_gemm.blocking import IN_PLACE_ROWS
from convir.lowering.kernels.host.problem import read_host_contraction
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import target
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.lowering.regions.outline_kernels import outlined
from convir.runtime.host.contraction import compile_contraction

DTYPES: dict[StorageType, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class Products:
    """Y[n, m, p] (+)= Σ W[m, k] · X[n, k, p]."""

    n: int
    m: int
    k: int
    p: int
    transposed: bool = False
    """Whether W lies as [k, m]."""
    accumulate: bool = False
    inputs: StorageType = "f32"

    @property
    def element(self) -> ComputeType:
        return "f64" if self.inputs == "f64" else "f32"

    @property
    def text(self) -> str:
        lies = (self.k, self.m) if self.transposed else (self.m, self.k)
        w, x = f"tensor<{lies[0]}x{lies[1]}x{self.inputs}>", self._tensor(self.k, self.inputs)
        y, e = self._tensor(self.m, self.element), self.element
        init = "%y" if self.accumulate else "%zeros"
        wide = "" if self.inputs == e else f"%a = arith.extf %u : {self.inputs} to {e}"
        wide += "" if self.inputs == e else f"\n%b = arith.extf %v : {self.inputs} to {e}"
        left, right = ("%a", "%b") if wide else ("%u", "%v")
        return f"""
          func.func @main(%w: {w}, %x: {x}, %y: {y}) -> {y} {{
            %zero = arith.constant 0.0 : {e}
            %empty = tensor.empty() : {y}
            %zeros = linalg.fill ins(%zero : {e}) outs(%empty : {y}) -> {y}
            %r = linalg.generic {{indexing_maps = [
                affine_map<(n, m, p, k) -> ({"k, m" if self.transposed else "m, k"})>,
                affine_map<(n, m, p, k) -> (n, k, p)>, affine_map<(n, m, p, k) -> (n, m, p)>],
              iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
              ins(%w, %x : {w}, {x}) outs({init} : {y}) {{
            ^bb0(%u: {self.inputs}, %v: {self.inputs}, %c: {e}):
              {wide}
              %t = arith.mulf {left}, {right} : {e}
              %s = arith.addf %c, %t : {e}
              linalg.yield %s : {e}
            }} -> {y}
            return %r : {y}
          }}"""

    def _tensor(self, rows: int, element: str) -> str:
        return f"tensor<{self.n}x{rows}x{self.p}x{element}>"

    @property
    def spec(self) -> Contraction:
        """As the host reads it, with W as [m, k]."""
        n, m, k, p = self.n, self.m, self.k, self.p
        return Contraction(
            self.element,
            (Phase((Axis.batch(m, k, p),)),),
            k,
            p,
            Channels(self.inputs, 1, 0),
            Weights(self.inputs, p, 1, k * p),
            Channels(self.element, 1, m * p),
            groups=n,
            accumulate=self.accumulate,
        )

    def operands(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W, X and Y of small integers."""
        rng = np.random.default_rng(7)
        shapes = (self.m, self.k), (self.n, self.k, self.p), (self.n, self.m, self.p)
        w, x, y = (rng.integers(-3, 4, shape).astype(np.float64) for shape in shapes)
        return w, x, y

    def expected(self) -> np.ndarray:
        w, x, y = self.operands()
        return np.einsum("mk,nkp->nmp", w, x) + (y if self.accumulate else 0)


CASES = st.builds(
    Products,
    n=st.integers(2, 5),
    m=st.sampled_from([1, 2, 5, 16, 17, IN_PLACE_ROWS, IN_PLACE_ROWS + 1, 130]),
    k=st.sampled_from([1, 2, 7, 33]),
    p=st.sampled_from([1, 2, 7, 8, 15, 16, 17, 64, 100]),
    transposed=st.booleans(),
    accumulate=st.booleans(),
    inputs=st.sampled_from(["f16", "f32", "f64"]),
)


@settings(max_examples=40, deadline=None)
@given(case=CASES)
def test_many_products_with_one_matrix(case: Products):
    w, x, y = case.operands()
    dtype, stored = DTYPES[case.element], DTYPES[case.inputs]
    arguments = (w.T if case.transposed else w).astype(stored).copy(), x.astype(stored)
    compiled = compile_module(case.text, "canonicalize,cse", device="host")
    out = np.full(y.shape, np.nan, dtype)
    compiled(*arguments, y.astype(dtype), out=out)
    np.testing.assert_array_equal(out, case.expected())


@settings(max_examples=25, deadline=None)
@given(case=CASES, cpu=st.sampled_from(["x86-64", "x86-64-v3", "host"]), threads=st.integers(1, 2))
def test_groups_share_their_rows(case: Products, cpu: str, threads: int):
    w, x, y = case.operands()
    kernel_of = compile_contraction(case.spec, target(cpu))
    memory = {name: np.zeros(size + 64, np.uint8) for name, size in kernel_of.workspace.items()}
    stored = DTYPES[case.inputs]
    out = np.full(y.shape, np.nan, DTYPES[case.element])
    if case.accumulate:
        out[...] = y
    arrays = {"a": w.astype(stored), "b": x.astype(stored), "c": out, **memory}
    buffers: Any = {name: array.ctypes.data for name, array in arrays.items()}
    for name in memory:
        buffers[name] += -buffers[name] % 64
    kernel_of.pack(buffers)
    kernel_of.run(buffers, threads=threads)
    np.testing.assert_array_equal(out, case.expected())


VECTORS = VectorUnit(64, 2.0)


def function_of(case: Products) -> kernel.FuncOp:
    module = read_module(case.text)
    FormKernelRegionsPass().apply(new_context(), module)
    (region,) = (op for op in module.walk() if isinstance(op, kernel.RegionOp))
    return outlined(region, "main")[0]


@pytest.mark.parametrize("transposed", [False, True])
def test_the_matrix_that_is_shared_has_the_rows(transposed: bool):
    function = function_of(Products(8, 16, 144, 64, transposed))
    reading = read_host_contraction(function, VECTORS)
    assert not isinstance(reading, Refusal), reading.reason
    spec = reading.spec
    assert spec.shares_rows
    assert (spec.groups, spec.phases[0].pixels, spec.out_channels) == (8, 16, 64)
    workspace = plan_contraction(spec, target("x86-64-v3")).workspace
    assert workspace == ({"a_copy": 16 * 144 * 4} if transposed else {})


def test_one_product_reads_its_matrix_in_place_too():
    reading = read_host_contraction(function_of(Products(1, 16, 144, 64)), VECTORS)
    assert not isinstance(reading, Refusal), reading.reason
    assert (reading.spec.phases[0].pixels, reading.spec.out_channels) == (16, 64)
    assert not plan_contraction(reading.spec, target("x86-64-v3")).workspace


def test_devices_that_do_not_share_rows_read_samples_as_rows():
    function = function_of(Products(8, 16, 144, 64))
    calls = contraction_readings(function)
    assert not isinstance(calls, Refusal), calls.reason
    call = min(calls, key=lambda each: reading_cost(each.spec, VECTORS))
    assert not call.spec.shares_rows
    assert (call.spec.groups, call.spec.out_channels) == (1, 16)


@pytest.mark.parametrize(("m", "packs"), [(IN_PLACE_ROWS, False), (IN_PLACE_ROWS + 1, True)])
def test_matrices_that_many_rows_read_are_packed(m: int, packs: bool):
    plan = plan_contraction(Products(4, m, 300, 64).spec, target("x86-64-v3"))
    assert ("packed" in plan.workspace) == packs


@pytest.mark.parametrize(("p", "packs"), [(64, False), (48, False), (63, True), (17, True)])
def test_matrices_are_read_in_place_if_their_columns_fill_vectors(p: int, packs: bool):
    plan = plan_contraction(Products(1, 5, 33, p).spec, target("x86-64-v3"))
    assert ("packed" in plan.workspace) == packs


@dataclass(frozen=True)
class Layers:
    """max(Σ W[m, k] · X[n, k, p] + bias[…] + R[n, m, p], 0), in the type that is stored."""

    products: Products
    bias: str
    """The loops that it has elements of: some of n, m and p."""
    residual: bool
    stored: StorageType

    @property
    def arrays(self) -> list[np.ndarray]:
        """W, X, the bias and the residual, of small integers."""
        w, x, y = self.products.operands()
        sizes = {"n": self.products.n, "m": self.products.m, "p": self.products.p}
        shape = [sizes[loop] for loop in self.bias]
        values = [i % 7 - 3.0 for i in range(prod(shape))]
        return [w, x, np.array(values).reshape(shape), y]

    @property
    def text(self) -> str:
        case = replace(self.products, transposed=False, accumulate=False, inputs="f32")
        y = f"tensor<{case.n}x{case.m}x{case.p}x{self.stored}>"
        sums, bias = y.replace(self.stored, "f32"), "x".join(map(str, self.arrays[2].shape))
        bias = f"tensor<{bias}{'x' if bias else ''}f32>"
        narrow = "" if self.stored == "f32" else f"%d = arith.truncf %m : f32 to {self.stored}"
        added = "arith.addf %s, %r : f32" if self.residual else "arith.addf %s, %zero : f32"
        head, _ = case.text.replace("%y:", "%init:").split("return")
        head = head.replace(f"-> {sums} {{", f"-> {y} {{", 1)
        head = head.replace("%init:", f"%bias: {bias}, %res: {sums}, %init:", 1)
        maps = ", ".join(f"affine_map<(n, m, p) -> ({', '.join(at)})>" for at in (self.bias, "nmp"))
        whole = "affine_map<(n, m, p) -> (n, m, p)>"
        return f"""{head}
            %e = tensor.empty() : {y}
            %z = linalg.generic {{indexing_maps = [{whole}, {maps}, {whole}],
                iterator_types = ["parallel", "parallel", "parallel"]}}
              ins(%r, %bias, %res : {sums}, {bias}, {sums}) outs(%e : {y}) {{
            ^bb0(%a: f32, %b: f32, %q: f32, %o: {self.stored}):
              %s = arith.addf %a, %b : f32
              %t = {added.replace("%r", "%q")}
              %m = arith.maximumf %t, %zero : f32
              {narrow}
              linalg.yield {"%d" if narrow else "%m"} : {self.stored}
            }} -> {y}
            return %z : {y}
          }}"""

    def expected(self) -> np.ndarray:
        w, x, bias, residual = self.arrays
        shape = [n if i in self.bias else 1 for i, n in zip("nmp", residual.shape, strict=True)]
        sums = np.einsum("mk,nkp->nmp", w, x) + bias.reshape(shape)
        return np.maximum(sums + (residual if self.residual else 0), 0)


@settings(max_examples=40, deadline=None)
@given(
    case=st.builds(
        Layers,
        products=CASES,
        bias=st.sampled_from(["m", "m", "m", "p", "nm", "mp", "n", ""]),
        residual=st.booleans(),
        stored=st.sampled_from(["f32", "f32", "f16"]),
    )
)
def test_a_bias_of_rows_is_added_where_they_are_stored(case: Layers):
    w, x, bias, residual = (array.astype(np.float32) for array in case.arrays)
    compiled = compile_module(case.text, "canonicalize,cse", device="host")
    out = np.full(residual.shape, np.nan, DTYPES[case.stored])
    compiled(w, x, bias, residual, residual, out=out)
    np.testing.assert_array_equal(out, case.expected().astype(out.dtype))


@pytest.mark.parametrize(("bias", "shares"), [("m", True), ("", True), ("p", False), ("nm", False)])
def test_epilogues_that_tiles_of_shared_rows_store_through(bias: str, shares: bool):
    layers = Layers(Products(4, 16, 32, 64), bias, residual=True, stored="f32")
    module = read_module(layers.text)
    FuseEpiloguePass().apply(new_context(), module)
    (region,) = (op for op in module.walk() if isinstance(op, kernel.RegionOp))
    reading = read_host_contraction(outlined(region, "main")[0], VECTORS)
    assert not isinstance(reading, Refusal) or not shares, reading.reason
    assert (not isinstance(reading, Refusal) and reading.spec.shares_rows) == shares
