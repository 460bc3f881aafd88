"""Linear layers on tokens, whose rows are taken apart before something is added: as the reference
computes them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as compile_module
from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.passes import run
from convir.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTERS = "abcde"
OPERANDS = ("all", "rows", "channels", "inner", "twice", "scalar")


def _type(shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def text(rows: Sequence[int], columns: int, operands: Sequence[str]) -> str:
    """A product whose rows are taken apart, and what is added to it, one operand a step."""
    shape, flat = (*rows, columns), (prod(rows), columns)
    names = LETTERS[: len(shape)]
    read = {
        "all": names,
        "rows": names[:-1],
        "channels": names[-1],
        "inner": names[1:],
        "twice": names,
        "scalar": "",
    }
    sizes = dict(zip(names, shape, strict=True))

    def named(letters: str) -> str:
        return f"affine_map<({', '.join(names)}) -> ({', '.join(letters)})>"

    groups = f"[[{', '.join(map(str, range(len(rows))))}], [{len(rows)}]]"
    arguments = [f"%x: {_type((flat[0], 8))}", f"%w: {_type((8, columns))}"]
    body = [
        f"%zeros = arith.constant dense<0.0> : {_type(flat)}",
        f"%e = tensor.empty() : {_type(shape)}",
        (
            f"%p = linalg.matmul ins(%x, %w : {_type((flat[0], 8))}, {_type((8, columns))}) "
            f"outs(%zeros : {_type(flat)}) -> {_type(flat)}"
        ),
        (
            f"%v0 = tensor.expand_shape %p {groups} output_shape {list(shape)} : {_type(flat)} "
            f"into {_type(shape)}"
        ),
    ]
    parallel = ", ".join(['"parallel"'] * len(shape))
    for i, kind in enumerate(operands):
        of = _type([sizes[letter] for letter in read[kind]])
        other = f"%v{i}" if kind == "twice" else f"%o{i}"
        arguments += [] if kind == "twice" else [f"%o{i}: {of}"]
        body += [
            (
                f"%v{i + 1} = linalg.generic {{indexing_maps = [{named(names)}, "
                f"{named(read[kind])}, {named(names)}], iterator_types = [{parallel}]}} "
                f"ins(%v{i}, {other} : {_type(shape)}, {of}) outs(%e : {_type(shape)}) {{"
            ),
            f"^bb0(%a{i}: f32, %b{i}: f32, %c{i}: f32):",
            f"  %r{i} = arith.addf %a{i}, %b{i} : f32",
            f"  linalg.yield %r{i} : f32",
            f"}} -> {_type(shape)}",
        ]
    lines = "\n  ".join(body)
    return (
        f"func.func @main({', '.join(arguments)}) -> {_type(shape)} {{\n  {lines}\n"
        f"  func.return %v{len(operands)} : {_type(shape)}\n}}\n"
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from((1, 2, 3, 7)), min_size=1, max_size=3),
    st.sampled_from((1, 5, 16)),
    st.lists(st.sampled_from(OPERANDS), max_size=3),
)
def test_results_are_equal(rows: list[int], columns: int, operands: list[str]) -> None:
    source = text(rows, columns, operands)
    rng = np.random.default_rng(3)
    host = compile_module(source, device="host")
    inputs = [rng.integers(-3, 4, spec.shape).astype(np.float32) for spec in host.inputs]
    (expected,) = evaluate(read_module(source), "main", inputs)
    out = host.empty(host.outputs[0])
    out.fill(np.nan)
    host(*inputs, out=out)
    np.testing.assert_array_equal(out, expected)
    # And on the reference, pass alone.
    module = run(source, [FuseEpiloguePass()]).module
    (fused,) = evaluate(module, "main", inputs)
    np.testing.assert_array_equal(fused, expected)


@pytest.mark.parametrize("operands", [("all",), ("channels", "all"), ("rows", "all", "scalar")])
def test_one_kernel_stores_all(operands: tuple[str, ...]) -> None:
    module = run(text((2, 4), 6, operands), [FuseEpiloguePass()]).module
    regions = [op for op in module.walk() if isinstance(op, kernel.RegionOp)]
    assert len(regions) == 1
    assert len([op for op in regions[0].walk() if op.name == "linalg.generic"]) == len(operands)


@pytest.mark.parametrize("operands", [("inner",), ("all", "inner", "all")])
def test_parts_of_rows_stay_apart(operands: tuple[str, ...]) -> None:
    module = run(text((2, 4), 6, operands), [FuseEpiloguePass()]).module
    kept = [op for op in module.walk() if op.name == "tensor.expand_shape"]
    place = operands.index("inner")
    (region,) = [op for op in module.walk() if isinstance(op, kernel.RegionOp)]
    generics = [op for op in region.walk() if op.name == "linalg.generic"]
    assert kept
    assert len(generics) >= place
