"""Uniform tensors, and what bodies make of zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from convir.analysis.structured import structured
from convir.analysis.values.zeros import (
    constant_fill_of,
    fill_of,
    is_zero,
    preserves_zero,
    value_at_zero,
)
from convir.dialects.context import parse_module

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

pytestmark = pytest.mark.fast


def returned(body: str, result: str, arguments: str = "") -> tuple[ModuleOp, SSAValue]:
    """The module of a function, and the value that it returns."""
    module = parse_module(
        f"func.func @main({arguments}) -> {result} {{\n{body}\nfunc.return %r : {result}\n}}"
    )
    (ret,) = [op for op in module.walk() if op.name == "func.return"]
    return module, ret.operands[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%r = arith.constant dense<2.0> : tensor<4xf32>", 2.0),
        ("%r = arith.constant dense<[2.0, 2.0, 2.0, 2.0]> : tensor<4xf32>", 2.0),
        ("%r = arith.constant dense<[2.0, 2.0, 3.0, 2.0]> : tensor<4xf32>", None),
        (
            """%c = arith.constant 3.0 : f32
            %e = tensor.empty() : tensor<4xf32>
            %r = linalg.fill ins(%c : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>""",
            3.0,
        ),
        ("%c = arith.constant 3.0 : f32\n%r = tensor.splat %c : tensor<4xf32>", 3.0),
        (
            """%c = arith.constant dense<1.0> : tensor<2x2xf32>
            %r = tensor.collapse_shape %c [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>""",
            1.0,
        ),
        (
            """%c = arith.constant dense<1.0> : tensor<9xf32>
            %r = tensor.extract_slice %c[0] [4] [2] : tensor<9xf32> to tensor<4xf32>""",
            1.0,
        ),
        (
            """%c = arith.constant 0.0 : f32
            %s = arith.constant dense<0.0> : tensor<2xf32>
            %r = tensor.pad %s low[1] high[1] {
            ^bb0(%i: index):
              tensor.yield %c : f32
            } : tensor<2xf32> to tensor<4xf32>""",
            0.0,
        ),
        (
            """%c = arith.constant 5.0 : f32
            %s = arith.constant dense<0.0> : tensor<2xf32>
            %r = tensor.pad %s low[1] high[1] {
            ^bb0(%i: index):
              tensor.yield %c : f32
            } : tensor<2xf32> to tensor<4xf32>""",
            None,
        ),
        (
            """%z = arith.constant dense<0.0> : tensor<4xf32>
            %s = arith.constant dense<0.0> : tensor<2xf32>
            %r = tensor.insert_slice %s into %z[0] [2] [2] : tensor<2xf32> into tensor<4xf32>""",
            0.0,
        ),
        (
            """%s = arith.constant dense<0.5> : tensor<4xf16>
            %e = tensor.empty() : tensor<4xf32>
            %r = linalg.generic {
              indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
              iterator_types = ["parallel"]}
              ins(%s : tensor<4xf16>) outs(%e : tensor<4xf32>) {
            ^bb0(%x: f16, %o: f32):
              %w = arith.extf %x : f16 to f32
              %p = arith.mulf %w, %w : f32
              linalg.yield %p : f32
            } -> tensor<4xf32>""",
            0.25,
        ),
        ("%r = tensor.empty() : tensor<4xf32>", None),
    ],
)
def test_constant_fill(body: str, expected: float | None) -> None:
    _module, value = returned(body, "tensor<4xf32>")
    fill = constant_fill_of(value)
    assert (None if fill is None else fill.value.data) == expected
    assert is_zero(value) == (expected == 0.0)


def test_a_fill_with_an_argument_is_uniform_but_not_constant() -> None:
    body = """%e = tensor.empty() : tensor<4xf32>
    %r = linalg.fill ins(%c : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>"""
    module, value = returned(body, "tensor<4xf32>", "%c: f32")
    (function,) = [op for op in module.walk() if op.name == "func.func"]
    assert fill_of(value) is function.regions[0].block.args[0]
    assert constant_fill_of(value) is None


def at_zero(body: str, element: str = "f32") -> float | None:
    """f(0) of a unary elementwise op with the given body on %x."""
    tensor = f"tensor<4x{element}>"
    module = parse_module(
        f"""func.func @main(%a: {tensor}, %f: {element}) -> {tensor} {{
          %e = tensor.empty() : {tensor}
          %r = linalg.generic {{
            indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
            iterator_types = ["parallel"]}} ins(%a : {tensor}) outs(%e : {tensor}) {{
          ^bb0(%x: {element}, %o: {element}):
            {body}
            linalg.yield %y : {element}
          }} -> {tensor}
          func.return %r : {tensor}
        }}"""
    )
    (view,) = [found for op in module.walk() if (found := structured(op)) is not None]
    constant = value_at_zero(view)
    assert preserves_zero(view) == (constant is not None and constant.value.data == 0)
    return None if constant is None else constant.value.data


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%y = math.exp %x : f32", 1.0),
        ("%y = math.cos %x : f32", 1.0),
        ("%y = math.tanh %x : f32", 0.0),
        ("%y = math.log %x : f32", None),
        ("%y = math.sqrt %x : f32", 0.0),
        ("%c = arith.constant 2.5 : f32\n%y = arith.addf %x, %c : f32", 2.5),
        ("%c = arith.constant 2.5 : f32\n%y = arith.mulf %x, %c : f32", 0.0),
        ("%c = arith.constant -1.0 : f32\n%y = arith.maximumf %x, %c : f32", 0.0),
        ("%y = arith.addf %x, %f : f32", None),
        ("%y = arith.divf %x, %x : f32", None),
        ("%y = arith.addf %x, %o : f32", None),
        # sigmoid
        (
            """%one = arith.constant 1.0 : f32
            %n = arith.negf %x : f32
            %p = math.exp %n : f32
            %q = arith.addf %one, %p : f32
            %y = arith.divf %one, %q : f32""",
            0.5,
        ),
        # a leaky relu with compare and select; the branch not taken need not be known
        (
            """%z = arith.constant 0.0 : f32
            %s = arith.mulf %x, %f : f32
            %c = arith.cmpf oge, %x, %z : f32
            %y = arith.select %c, %x, %s : f32""",
            0.0,
        ),
        # rounded to f16 on the way: 0.1 is not an f16
        (
            """%c = arith.constant 0.1 : f32
            %t = arith.addf %x, %c : f32
            %h = arith.truncf %t : f32 to f16
            %y = arith.extf %h : f16 to f32""",
            0.0999755859375,
        ),
    ],
)
def test_value_at_zero(body: str, expected: float | None) -> None:
    assert at_zero(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%c = arith.constant 200 : i8\n%y = arith.addi %x, %c : i8", -56),
        ("%c = arith.constant -3 : i8\n%y = arith.maxsi %x, %c : i8", 0),
        (
            """%c = arith.constant -3 : i8
            %b = arith.cmpi ult, %x, %c : i8
            %y = arith.extsi %b : i1 to i8""",
            -1,
        ),
    ],
)
def test_integer_value_at_zero(body: str, expected: int) -> None:
    assert at_zero(body, "i8") == expected
