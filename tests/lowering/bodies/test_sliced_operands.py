"""Products of a matrix and a slice of an argument, which host kernels read where it lies."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as compile_module

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


@settings(max_examples=50, deadline=None)
@given(data=st.data(), element=st.sampled_from(sorted(DTYPES)), transposed=st.booleans())
def test_products_of_slices(data: st.DataObject, element: str, transposed: bool) -> None:
    """Any part of a stack of matrices, its rows or its columns reduced: exact on small integers."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    part = [1, draw(1, 300), draw(1, 500)]
    whole = [draw(1, 4), part[1] + draw(0, 3), part[2] + draw(0, 3)]
    first = [draw(0, w - p) for w, p in zip(whole, part, strict=True)]
    rows = draw(1, 130)
    depth, columns = (part[2], part[1]) if transposed else (part[1], part[2])
    x, w, y = (
        f"tensor<{'x'.join(map(str, shape))}x{element}>"
        for shape in (whole, (rows, depth), (rows, columns))
    )
    cut = f"tensor<{part[1]}x{part[2]}x{element}>"
    read = "(n, d)" if transposed else "(d, n)"
    executable = compile_module(
        f"""
        func.func @main(%x: {x}, %w: {w}) -> {y} {{
          %zero = arith.constant dense<0.0> : {y}
          %s = tensor.extract_slice %x{first} {part} [1, 1, 1] : {x} to {cut}
          %y = linalg.generic {{indexing_maps = [affine_map<(m, n, d) -> (m, d)>,
              affine_map<(m, n, d) -> {read}>, affine_map<(m, n, d) -> (m, n)>],
              iterator_types = ["parallel", "parallel", "reduction"]}}
              ins(%w, %s : {w}, {cut}) outs(%zero : {y}) {{
            ^bb0(%a: {element}, %b: {element}, %c: {element}):
              %p = arith.mulf %a, %b : {element}
              %r = arith.addf %c, %p : {element}
              linalg.yield %r : {element}
          }} -> {y}
          func.return %y : {y}
        }}""",
        device="host",
        threads=1,
    )
    rng = np.random.default_rng(0)
    stack, matrix = (
        rng.integers(-1, 2, shape).astype(DTYPES[element]) for shape in (whole, (rows, depth))
    )
    out = np.full((rows, columns), np.nan, DTYPES[element])
    executable(stack, matrix, out=out)
    place = tuple(slice(low, low + size) for low, size in zip(first, part, strict=True))
    taken = stack[place][0].astype(np.float64)
    expected = matrix.astype(np.float64) @ (taken.T if transposed else taken)
    np.testing.assert_array_equal(out, expected.astype(out.dtype))
