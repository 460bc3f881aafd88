"""Every rule of `bind-sizes` on one op: the type it is given, or why it is given none."""

from __future__ import annotations

import pytest

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.passes.bind_sizes.pass_ import BindSizesPass

pytestmark = pytest.mark.fast

TEXT = """
func.func @main(%x: tensor<?x6xf32>, %v: tensor<?xf32>, %m: tensor<2x?x3xf32>, %u: index)
    -> RESULT {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %less = arith.constant -1 : index
  %h = arith.constant 0.5 : f32
  %n = tensor.dim %x, %c0 : tensor<?x6xf32>
  %y = OP
  return %y : RESULT
}
"""
SIZES = ("9x6", "4", "2x5x3", "scalar")

CASES: dict[str, tuple[str, str, str]] = {
    # Each: the op, the type of its result, and that type when it is bound, or the reason.
    "splat": ("tensor.splat %h[%n] : tensor<?xf32>", "tensor<?xf32>", "tensor<9xf32>"),
    "splat of an open size": (
        *("tensor.splat %h[%u] : tensor<?xf32>", "tensor<?xf32>"),
        "'tensor.splat' op has a size of dimension 0 that does not follow",
    ),
    "empty of one open size": (
        *("tensor.empty(%n, %u) : tensor<?x2x?xf32>", "tensor<?x2x?xf32>"),
        "has a size of dimension 2 that does not follow",
    ),
    "empty of less than nothing": (
        *("tensor.empty(%less) : tensor<?xf32>", "tensor<?xf32>", "has a size of -1"),
    ),
    "empty of nothing": ("tensor.empty(%c0) : tensor<?xf32>", "tensor<?xf32>", "tensor<0xf32>"),
    "expand by what is left": (
        (
            "tensor.expand_shape %x [[0, 1], [2]] output_shape [%u, 3, 6] : tensor<?x6xf32> "
            "into tensor<?x3x6xf32>"
        ),
        *("tensor<?x3x6xf32>", "tensor<3x3x6xf32>"),
    ),
    "expand by two that are open": (
        (
            "tensor.expand_shape %v [[0, 1, 2]] output_shape [2, %u, %u] : tensor<?xf32> "
            "into tensor<2x?x?xf32>"
        ),
        *("tensor<2x?x?xf32>", "has a size of dimension 1 that does not follow"),
    ),
    "expand by nothing": (
        "tensor.expand_shape %v [[0, 1]] output_shape [%u, 0] : tensor<?xf32> into tensor<?x0xf32>",
        *("tensor<?x0xf32>", "has a size of dimension 0 that does not follow"),
    ),
    "expand by less than nothing": (
        (
            "tensor.expand_shape %v [[0, 1]] output_shape [%less, 2] : tensor<?xf32> "
            "into tensor<?x2xf32>"
        ),
        *("tensor<?x2xf32>", "has a size of -1"),
    ),
    "collapse": (
        "tensor.collapse_shape %m [[0, 1], [2]] : tensor<2x?x3xf32> into tensor<?x3xf32>",
        *("tensor<?x3xf32>", "tensor<10x3xf32>"),
    ),
    "concat": (
        "tensor.concat dim(1) %m, %m : (tensor<2x?x3xf32>, tensor<2x?x3xf32>) -> tensor<2x?x3xf32>",
        *("tensor<2x?x3xf32>", "tensor<2x10x3xf32>"),
    ),
    "insert": ("tensor.insert %h into %v[%c0] : tensor<?xf32>", "tensor<?xf32>", "tensor<4xf32>"),
    "cast to what is known": (
        *("tensor.cast %v : tensor<?xf32> to tensor<4xf32>", "tensor<4xf32>", "tensor<4xf32>"),
    ),
    "cast to what is not": (
        *("tensor.cast %v : tensor<?xf32> to tensor<5xf32>", "tensor<5xf32>"),
        "'tensor.cast' op is 4, but its type says 5",
    ),
    "slice of a known size": (
        "tensor.extract_slice %x[%c1, 0] [%c3, 6] [1, 1] : tensor<?x6xf32> to tensor<?x6xf32>",
        *("tensor<?x6xf32>", "tensor<3x6xf32>"),
    ),
    "slice without a dimension": (
        (
            "tensor.extract_slice %m[0, 0, 0] [1, %c3, 3] [1, 1, 1] : "
            "tensor<2x?x3xf32> to tensor<?x3xf32>"
        ),
        *("tensor<?x3xf32>", "tensor<3x3xf32>"),
    ),
    "slice of an open size": (
        "tensor.extract_slice %x[0, 0] [%u, 6] [1, 1] : tensor<?x6xf32> to tensor<?x6xf32>",
        *("tensor<?x6xf32>", "has a size of dimension 0 that does not follow"),
    ),
    "slice from an open place": (
        "tensor.extract_slice %x[%u, 0] [2, 6] [1, 1] : tensor<?x6xf32> to tensor<2x6xf32>",
        *("tensor<2x6xf32>", "tensor<2x6xf32>"),
    ),
    "slice from before the beginning": (
        "tensor.extract_slice %x[%less, 0] [2, 6] [1, 1] : tensor<?x6xf32> to tensor<2x6xf32>",
        *("tensor<2x6xf32>", "has a offset of -1"),
    ),
    "insertion of an open size": (
        "tensor.insert_slice %v into %x[0, 0] [%u, 1] [1, 1] : tensor<?xf32> into tensor<?x6xf32>",
        *("tensor<?x6xf32>", "has a size of dimension 0 that does not follow"),
    ),
    "insertion of its source's size": (
        (
            "tensor.insert_slice %x into %x[0, 0] [%u, 6] [1, 1] : tensor<?x6xf32> "
            "into tensor<?x6xf32>"
        ),
        *("tensor<?x6xf32>", "tensor<9x6xf32>"),
    ),
    "pad": (
        (
            "tensor.pad %v low[%c1] high[2] { ^bb0(%i: index): tensor.yield %h : f32 } "
            ": tensor<?xf32> to tensor<?xf32>"
        ),
        *("tensor<?xf32>", "tensor<7xf32>"),
    ),
    "pad by an open amount": (
        (
            "tensor.pad %v low[%u] high[2] { ^bb0(%i: index): tensor.yield %h : f32 } "
            ": tensor<?xf32> to tensor<?xf32>"
        ),
        *("tensor<?xf32>", "has a result of dynamic size that no rule binds"),
    ),
    "sum": ("arith.addf %v, %v : tensor<?xf32>", "tensor<?xf32>", "tensor<4xf32>"),
    "size": ("tensor.dim %m, %c1 : tensor<2x?x3xf32>", "index", "index"),
    "size of a dimension that there is not": (
        *("tensor.dim %m, %c3 : tensor<2x?x3xf32>", "index", "index"),
    ),
}


def bound(op: str, result: str) -> str:
    text = TEXT.replace("OP", op).replace("RESULT", result)
    module = read_module(text, "in.mlir")
    BindSizesPass(SIZES).apply(new_context(), module)
    return str(read_module(str(module)))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ops_are_bound(case: tuple[str, str, str]) -> None:
    op, result, expected = case
    if not expected.startswith(("tensor<", "index")):
        with pytest.raises(DiagnosticError) as caught:
            bound(op, result)
        assert expected in str(caught.value)
        assert str(caught.value).startswith("in.mlir:10:")
        return
    assert f" -> {expected} {{" in bound(op, result)


def test_a_size_is_a_constant() -> None:
    text = bound("tensor.dim %m, %c1 : tensor<2x?x3xf32>", "index")
    assert "arith.constant 5 : index" in text
    assert "tensor.dim" not in text


RESHAPED = """
func.func @main(%x: tensor<?x6xf32>) -> tensor<SHAPE> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %x, %c0 : tensor<?x6xf32>
  %less = arith.constant -1 : index
  %l = tensor.from_elements %FIRST, %SECOND : tensor<2xindex>
  %y = tensor.reshape %x(%l) : (tensor<?x6xf32>, tensor<2xindex>) -> tensor<SHAPE>
  return %y : tensor<SHAPE>
}
"""


@pytest.mark.parametrize(
    ("first", "second", "shape", "expected"),
    [
        ("c3", "n", "?x?xf32", "cannot have these sizes"),
        ("n", "n", "?x6xf32", "is 9x9, but its type says ?x6"),
        ("c3", "c3", "3x?xf32", "cannot have these sizes"),
        ("c0", "c3", "?x?xf32", "cannot have these sizes"),
    ],
)
def test_reshapes_that_do_not_fit(first: str, second: str, shape: str, expected: str) -> None:
    text = RESHAPED.replace("FIRST", first).replace("SECOND", second).replace("SHAPE", shape)
    with pytest.raises(DiagnosticError) as caught:
        BindSizesPass(("9x6",)).apply(new_context(), read_module(text, "in.mlir"))
    assert "'tensor.reshape' op" in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("?x3xf32", "tensor<18x3xf32>"),
        ("3x?xf32", "tensor<3x18xf32>"),
        ("?x?xf32", "has a size of dimension 0 that does not follow"),
        ("?x0xf32", "has a size of dimension 0 that does not follow"),
    ],
)
def test_reshapes_by_an_unknown_list(shape: str, expected: str) -> None:
    text = f"""
    func.func @main(%x: tensor<?x6xf32>, %l: tensor<2xindex>) -> tensor<{shape}> {{
      %y = tensor.reshape %x(%l) : (tensor<?x6xf32>, tensor<2xindex>) -> tensor<{shape}>
      return %y : tensor<{shape}>
    }}
    """
    module = read_module(text, "in.mlir")
    if expected.startswith("tensor"):
        BindSizesPass(("9x6", "2")).apply(new_context(), module)
        assert f" -> {expected} {{" in str(module)
        return
    with pytest.raises(DiagnosticError) as caught:
        BindSizesPass(("9x6", "2")).apply(new_context(), module)
    assert expected in str(caught.value)
