"""Contractions of any layout as one strided batched GEMM on the host, against einsum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.library.gemm_call import match_gemm
from convir.runtime.host.gemm import run_gemm
from convir.runtime.program import Buffer, Gemm, Space

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.library.gemm_call import GemmCall

LHS, RHS, OUT = 0, 1, 2
# Which operands a loop of each role indexes.
ROLES = {"batch": (LHS, RHS, OUT), "m": (LHS, OUT), "n": (RHS, OUT), "k": (LHS, RHS)}


@st.composite
def contractions(draw: Callable[[Any], Any]) -> tuple[list[int], tuple[list[int], ...]]:
    """Sizes of the loops, and the loops that index each operand, in its order of dimensions."""
    roles: list[str] = draw(st.lists(st.sampled_from(sorted(ROLES)), min_size=1, max_size=5))
    sizes = [draw(st.integers(1, 4)) for _ in roles]
    operands = tuple(
        draw(st.permutations([loop for loop, role in enumerate(roles) if position in ROLES[role]]))
        for position in (LHS, RHS, OUT)
    )
    return sizes, operands


def text_of(sizes: list[int], operands: tuple[list[int], ...]) -> str:
    loops = ", ".join(f"d{i}" for i in range(len(sizes)))
    maps = [f"affine_map<({loops}) -> ({', '.join(f'd{i}' for i in dims)})>" for dims in operands]
    kinds = ['"parallel"' if i in operands[OUT] else '"reduction"' for i in range(len(sizes))]
    a, b, c = ("tensor<" + "".join(f"{sizes[i]}x" for i in dims) + "f32>" for dims in operands)
    return f"""
kernel.func @k(%a: {a}, %b: {b}) -> {c} {{
  %zeros = arith.constant dense<0.0> : {c}
  %0 = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{", ".join(kinds)}]}}
      ins(%a, %b : {a}, {b}) outs(%zeros : {c}) {{
  ^bb0(%x: f32, %y: f32, %o: f32):
    %1 = arith.mulf %x, %y : f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  }} -> {c}
  kernel.return %0 : {c}
}}"""


def gemm_of(text: str) -> GemmCall | Refusal:
    functions = (op for op in read_module(text).walk() if isinstance(op, kernel.FuncOp))
    return match_gemm(next(functions))


def buffer(array: Any) -> Buffer:
    return Buffer(Space.INPUT, 0, 0, array.shape, array.dtype)


@given(contractions(), st.integers(0, 1 << 16))
@settings(max_examples=200, deadline=None)
def test_layouts_are_einsum(drawn: tuple[list[int], tuple[list[int], ...]], seed: int) -> None:
    sizes, operands = drawn
    gemm = gemm_of(text_of(sizes, operands))
    event("refused" if isinstance(gemm, Refusal) else "one GEMM")
    if isinstance(gemm, Refusal):
        return
    layout = gemm.layout
    assert (gemm.lhs, gemm.rhs, gemm.init) == (0, 1, None)
    rng = np.random.default_rng(seed)
    shapes = [tuple(sizes[i] for i in dims) for dims in operands]
    lhs, rhs = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes[:2])
    out = np.full(shapes[OUT], np.nan, np.float32)
    a, b = (rhs, lhs) if layout.swapped else (lhs, rhs)
    call = Gemm(
        buffer(a),
        buffer(b),
        buffer(out),
        **layout.sizes(),
        transpose_a=layout.transpose_a,
        transpose_b=layout.transpose_b,
        accumulate=False,
        tf32=False,
    )
    run_gemm(call, *(array.reshape(-1).view(np.uint8) for array in (a, b, out)))
    letters = ["".join("abcde"[i] for i in dims) for dims in operands]
    expected = np.einsum(f"{letters[0]},{letters[1]}->{letters[2]}", lhs, rhs)
    np.testing.assert_array_equal(out, expected)
