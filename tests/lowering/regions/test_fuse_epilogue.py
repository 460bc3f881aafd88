"""Contractions with what follows them, through the whole lowering and as a kernel's store.

Operands are small integers, so that sums are exact in f32 whatever their order, and every rounding
behind them is the reference's own: results are equal bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as compile_module
from convir.dialects.context import read_module
from convir.passes import run
from convir.reference import evaluate, find_function

if TYPE_CHECKING:
    from numpy.typing import NDArray

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
BINARY = ("addf", "subf", "mulf", "maximumf", "minimumf", "divf")
UNARY = ("relu", "leaky", "negf", "absf", "clip")


@dataclass(frozen=True)
class Case:
    """A convolution over N H W C (or N C H W), and ops behind it."""

    n: int
    size: int
    groups: int
    depth: int
    columns: int
    taps: int
    stride: int
    dtype: str
    channels_last: bool
    steps: tuple[tuple[str, str], ...]
    """(op, operand), an operand being a bias, a residual, or nothing."""

    @property
    def output(self) -> int:
        return (self.size + 2 * (self.taps // 2) - self.taps) // self.stride + 1

    def image(self, channels: int, size: int) -> str:
        spatial = f"{size}x{size}"
        dims = f"{spatial}x{channels}" if self.channels_last else f"{channels}x{spatial}"
        return f"tensor<{self.n}x{dims}x{self.dtype}>"

    def text(self) -> str:
        c, k = self.groups * self.depth, self.groups * self.columns
        layout = "NHWC" if self.channels_last else "NCHW"
        x, y = self.image(c, self.size), self.image(k, self.output)
        w = f"tensor<{k}x{self.taps}x{self.taps}x{self.depth}x{self.dtype}>"
        arguments = [f"%x: {x}", f"%w: {w}"]
        pad = self.taps // 2
        accumulator = "f64" if self.dtype == "f64" else "f32"
        lines = [
            f"%zero = arith.constant dense<0.0> : {y}",
            f"%e = tensor.empty() : {y}",
            (
                f"%v0 = conv.fprop layouts({layout}, KRSC, {layout}) "
                f"strides({self.stride}, {self.stride}) padding({pad}, {pad}) "
                f"groups({self.groups}) accumulate({accumulator}) "
                f"ins(%x, %w : {x}, {w}) outs(%zero : {y})"
            ),
        ]
        for number, (op, operand) in enumerate(self.steps):
            this, before = f"%v{number + 1}", f"%v{number}"
            lines += self._step(op, operand, this, before, y)
            if operand:
                kind = y if operand == "residual" else f"tensor<{k}x{self.dtype}>"
                arguments.append(f"%o{number}: {kind}")
        body = "\n  ".join(lines)
        last = f"%v{len(self.steps)}"
        return (
            f"func.func @main({', '.join(arguments)}) -> {y} {{\n  {body}\n"
            f"  func.return {last} : {y}\n}}\n"
        )

    def _step(self, op: str, operand: str, this: str, before: str, y: str) -> list[str]:
        name, number = this[1:], int(this[2:]) - 1
        same = "affine_map<(a, b, c, d) -> (a, b, c, d)>"
        channel = "d" if self.channels_last else "b"
        t = self.dtype
        parallel = ", ".join(['"parallel"'] * 4)
        head = f"{this} = linalg.generic {{indexing_maps = ["
        if operand:
            is_bias = operand == "bias"
            other = f"affine_map<(a, b, c, d) -> ({channel})>" if is_bias else same
            k = self.groups * self.columns
            kind = f"tensor<{k}x{t}>" if is_bias else y
            return [
                (
                    f"{head}{same}, {other}, {same}], iterator_types = [{parallel}]}} "
                    f"ins({before}, %o{number} : {y}, {kind}) outs(%e : {y}) {{"
                ),
                f"^bb0(%a{name}: {t}, %b{name}: {t}, %c{name}: {t}):",
                f"  %r{name} = arith.{op} %a{name}, %b{name} : {t}",
                f"  linalg.yield %r{name} : {t}",
                f"}} -> {y}",
            ]
        a, r = f"%a{name}", f"%r{name}"
        body = {
            "relu": [
                f"%z{name} = arith.constant 0.0 : {t}",
                f"{r} = arith.maximumf {a}, %z{name} : {t}",
            ],
            "leaky": [
                f"%z{name} = arith.constant 0.0 : {t}",
                f"%s{name} = arith.constant 0.125 : {t}",
                f"%l{name} = arith.mulf {a}, %s{name} : {t}",
                f"%p{name} = arith.cmpf ogt, {a}, %z{name} : {t}",
                f"{r} = arith.select %p{name}, {a}, %l{name} : {t}",
            ],
            "negf": [f"{r} = arith.negf {a} : {t}"],
            "absf": [f"{r} = math.absf {a} : {t}"],
            "clip": [
                f"%z{name} = arith.constant -3.0 : {t}",
                f"%s{name} = arith.constant 6.0 : {t}",
                f"%l{name} = arith.maximumf {a}, %z{name} : {t}",
                f"{r} = arith.minimumf %l{name}, %s{name} : {t}",
            ],
        }[op]
        return [
            (
                f"{head}{same}, {same}], iterator_types = [{parallel}]}} "
                f"ins({before} : {y}) outs(%e : {y}) {{"
            ),
            f"^bb0({a}: {t}, %c{name}: {t}):",
            *body,
            f"linalg.yield {r} : {t}",
            f"}} -> {y}",
        ]


STEPS = st.one_of(
    st.tuples(st.sampled_from(BINARY), st.sampled_from(("bias", "residual"))),
    st.tuples(st.sampled_from(UNARY), st.just("")),
)
CASES = st.builds(
    Case,
    n=st.integers(1, 2),
    size=st.sampled_from((1, 4, 7)),
    groups=st.sampled_from((1, 1, 3, 17)),
    depth=st.sampled_from((1, 3, 8)),
    columns=st.sampled_from((1, 2, 5, 16, 40)),
    taps=st.sampled_from((1, 3)),
    stride=st.sampled_from((1, 2)),
    dtype=st.sampled_from(("f32", "f32", "f16", "bf16", "f64")),
    channels_last=st.booleans(),
    steps=st.lists(STEPS, min_size=1, max_size=4).map(tuple),
)


def arrays(case: Case) -> list[NDArray[np.generic]]:
    """Small integers, none of them zero: divisors."""
    rng = np.random.default_rng(7)
    inputs = find_function(read_module(case.text()), "main").function_type.inputs
    shapes = [cast("Any", kind).get_shape() for kind in inputs]
    signs = np.array((-1, 1))
    return [
        np.asarray(rng.integers(1, 4, shape) * rng.choice(signs, shape), DTYPES[case.dtype])
        for shape in shapes
    ]


def check(case: Case) -> None:
    """The host's result is the reference's, and every element of it is stored."""
    inputs = arrays(case)
    (expected,) = evaluate(read_module(case.text()), "main", inputs)
    host = compile_module(case.text(), device="host")
    out = host.empty(host.outputs[0])
    out.fill(np.nan)
    host(*inputs, out=out)
    np.testing.assert_array_equal(out, expected)


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_results_are_equal(case: Case) -> None:
    check(case)


PLANES = st.builds(
    Case,
    n=st.integers(1, 2),
    size=st.sampled_from((16, 35)),
    groups=st.sampled_from((2, 5)),
    depth=st.just(1),
    columns=st.integers(1, 2),
    taps=st.sampled_from((1, 3)),
    stride=st.sampled_from((1, 2)),
    dtype=st.sampled_from(("f32", "f32", "f16", "bf16", "f64")),
    channels_last=st.just(False),
    steps=st.lists(STEPS, min_size=1, max_size=4).map(tuple),
)


@settings(max_examples=30, deadline=None)
@given(PLANES)
def test_results_in_planes_are_equal(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("groups", [1, 24])
def test_every_rounding_is_kept(dtype: str, groups: int) -> None:
    steps = (("divf", "bias"), ("mulf", "bias"), ("subf", "residual"), ("leaky", ""))
    depth, columns = (1, 1) if groups > 1 else (20, 37)
    check(Case(2, 7, groups, depth, columns, 3, 1, dtype, True, steps))


def test_depths_that_come_in_blocks() -> None:
    """A panel past the second-level cache: sums wait in the result, the last block finishes."""
    check(Case(1, 4, 1, 1500, 70, 3, 1, "f32", True, (("addf", "bias"), ("addf", "residual"))))


@pytest.mark.parametrize(
    ("dtype", "columns", "groups"), [("f32", 40, 1), ("f32", 3, 1), ("f16", 40, 1), ("f32", 1, 17)]
)
def test_it_is_one_kernel(dtype: str, columns: int, groups: int) -> None:
    """Broadcast, dot and group tiles, and results of another type than the arithmetic's."""
    steps = (("addf", "bias"), ("relu", ""), ("addf", "residual"))
    case = Case(1, 7, groups, 8 if groups == 1 else 1, columns, 3, 1, dtype, True, steps)
    tensors = run(case.text(), "convert-conv-to-linalg,canonicalize,cse").module
    selected = str(run(tensors, "fuse-epilogue,form-kernel-regions,select-kernels").module)
    assert selected.count("kernel.region") == 1
    family = "implicit-gemm" if groups == 1 else "depthwise-channels-last"
    assert f'host = "{family}"' in selected
    check(case)


@pytest.mark.parametrize("flag", [False, True])
def test_a_condition_for_all_elements_is_no_operand_of_a_tile(flag: bool) -> None:
    kind = "tensor<5x8xf32>"
    text = f"""
      func.func @main(%x: tensor<5x6xf32>, %w: tensor<6x8xf32>, %f: i1, %u: {kind}) -> {kind} {{
        %zero = arith.constant dense<0.0> : {kind}
        %v = linalg.matmul ins(%x, %w : tensor<5x6xf32>, tensor<6x8xf32>)
            outs(%zero : {kind}) -> {kind}
        %r = arith.select %f, %v, %u : {kind}
        return %r : {kind}
      }}"""
    rng = np.random.default_rng(0)
    x, w, u = (rng.integers(-3, 4, s).astype(np.float32) for s in ((5, 6), (6, 8), (5, 8)))
    result: Any = compile_module(text, device="host")(x, w, np.bool_(flag), u)
    np.testing.assert_array_equal(result, x @ w if flag else u)


def test_what_an_epilogue_reads_between_zeros() -> None:
    """A residual with zeros around it is not an array that tiles find elements in."""
    kind = "tensor<5x8xf32>"
    text = f"""
      func.func @main(%x: tensor<5x6xf32>, %w: tensor<6x8xf32>, %u: tensor<4x6xf32>) -> {kind} {{
        %zero = arith.constant 0.0 : f32
        %zeros = arith.constant dense<0.0> : {kind}
        %v = linalg.matmul ins(%x, %w : tensor<5x6xf32>, tensor<6x8xf32>)
            outs(%zeros : {kind}) -> {kind}
        %p = tensor.pad %u low[0, 1] high[1, 1] {{
        ^bb0(%i: index, %j: index):
          tensor.yield %zero : f32
        }} : tensor<4x6xf32> to {kind}
        %r = arith.addf %v, %p : {kind}
        return %r : {kind}
      }}"""
    rng = np.random.default_rng(0)
    x, w, u = (rng.integers(-3, 4, s).astype(np.float32) for s in ((5, 6), (6, 8), (4, 6)))
    result: Any = compile_module(text, device="host")(x, w, u)
    np.testing.assert_array_equal(result, x @ w + np.pad(u, ((0, 1), (1, 1))))
