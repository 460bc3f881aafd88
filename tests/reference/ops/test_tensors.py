"""Tensor ops, regions and control flow, static and dynamic, and memory that nothing wrote."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from convir.dialects.context import parse_module
from convir.reference import EvaluationError, evaluate

pytestmark = pytest.mark.fast

Array = npt.NDArray[Any]

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def run(signature: str, results: str, body: str, *args: Any) -> tuple[Array, ...]:
    module = parse_module(f"func.func @main({signature}) -> ({results}) {{\n{body}\n}}")
    return evaluate(module, "main", args)


def one(result: str, operation: str, *args: Any, signature: str = "%x: tensor<2x3x4xf32>") -> Array:
    return run(signature, result, f"%r = {operation}\nfunc.return %r : {result}", *args)[0]


def test_extract_slice_static_dynamic_and_rank_reducing() -> None:
    actual = one(
        "tensor<1x2x2xf32>",
        "tensor.extract_slice %x[1, 0, 1] [1, 2, 2] [1, 2, 2]"
        " : tensor<2x3x4xf32> to tensor<1x2x2xf32>",
        X,
    )
    np.testing.assert_array_equal(actual, X[1:, ::2, 1::2])
    actual = one(
        "tensor<?x?xf32>",
        "tensor.extract_slice %x[1, %o, 0] [1, %n, %n] [1, 1, %s]"
        " : tensor<2x3x4xf32> to tensor<?x?xf32>",
        X,
        np.int64(1),
        np.int64(2),
        np.int64(3),
        signature="%x: tensor<2x3x4xf32>, %o: index, %n: index, %s: index",
    )
    np.testing.assert_array_equal(actual, X[1, 1:, ::3])


def test_insert_slice_keeps_the_holes_of_its_destination() -> None:
    body = (
        "tensor.insert_slice %s into %x[1, 0, 1] [1, 2, 2] [1, 2, 2]"
        " : tensor<2x2xf32> into tensor<2x3x4xf32>"
    )
    before, source = X.copy(), np.full((2, 2), -1, np.float32)
    actual = one(
        "tensor<2x3x4xf32>",
        body,
        X,
        source,
        signature="%x: tensor<2x3x4xf32>, %s: tensor<2x2xf32>",
    )
    expected = X.copy()
    expected[1, ::2, 1::2] = -1
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("offset", "size", "stride"), [(2, 2, 1), (0, 4, 1), (0, 2, 3), (-1, 1, 1)]
)
def test_slices_out_of_bounds_are_errors(offset: int, size: int, stride: int) -> None:
    with pytest.raises(EvaluationError, match="of a dimension #0 of size 3"):
        one(
            "tensor<?xf32>",
            "tensor.extract_slice %x[%o] [%n] [%s] : tensor<3xf32> to tensor<?xf32>",
            np.zeros(3, np.float32),
            *(np.int64(value) for value in (offset, size, stride)),
            signature="%x: tensor<3xf32>, %o: index, %n: index, %s: index",
        )


def test_reshapes_and_casts() -> None:
    text = """
      %c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
      %e = tensor.expand_shape %c [[0], [1, 2]] output_shape [6, 2, 2]
          : tensor<6x4xf32> into tensor<6x2x2xf32>
      %d = tensor.cast %e : tensor<6x2x2xf32> to tensor<?x2x?xf32>
      %zero = arith.constant 0 : index
      %n = tensor.dim %d, %zero : tensor<?x2x?xf32>
      func.return %d, %n : tensor<?x2x?xf32>, index"""
    tensor, size = run("%x: tensor<2x3x4xf32>", "tensor<?x2x?xf32>, index", text, X)
    np.testing.assert_array_equal(tensor, X.reshape(6, 2, 2))
    assert size == 6


def test_pad_with_a_constant_and_with_a_computed_value() -> None:
    text = """
      %p = tensor.pad %x low[1, 0] high[0, 2] {
      ^bb0(%i: index, %j: index):
        %s = arith.addi %i, %j : index
        %t = arith.index_cast %s : index to i32
        tensor.yield %t : i32
      } : tensor<2x2xi32> to tensor<3x4xi32>
      func.return %p : tensor<3x4xi32>"""
    x = np.array([[7, 8], [9, 10]], np.int32)
    (actual,) = run("%x: tensor<2x2xi32>", "tensor<3x4xi32>", text, x)
    expected = np.add.outer(np.arange(3), np.arange(4))
    expected[1:, :2] = x
    np.testing.assert_array_equal(actual, expected)


def test_concat_splat_from_elements_insert_extract_reshape() -> None:
    text = """
      %two = arith.constant 2 : index
      %a = arith.constant 5.0 : f32
      %s = tensor.splat %a[%two] : tensor<?x3xf32>
      %c = tensor.concat dim(0) %s, %x : (tensor<?x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>
      %i = tensor.insert %a into %x[%zero, %two] : tensor<1x3xf32>
      %v = tensor.extract %i[%zero, %two] : tensor<1x3xf32>
      %f = tensor.from_elements %v, %a : tensor<2xf32>
      %shape = arith.constant dense<[3, 1]> : tensor<2xindex>
      %r = tensor.reshape %x(%shape) : (tensor<1x3xf32>, tensor<2xindex>) -> tensor<3x1xf32>
      func.return %c, %f, %r : tensor<?x3xf32>, tensor<2xf32>, tensor<3x1xf32>"""
    x = np.array([[1, 2, 3]], np.float32)
    c, f, r = run(
        "%x: tensor<1x3xf32>, %zero: index",
        "tensor<?x3xf32>, tensor<2xf32>, tensor<3x1xf32>",
        text,
        x,
        np.int64(0),
    )
    np.testing.assert_array_equal(c, [[5, 5, 5], [5, 5, 5], [1, 2, 3]])
    assert f.tolist() == [5, 5]
    np.testing.assert_array_equal(r, x.T)


@pytest.mark.parametrize(
    ("element", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f64", np.float64)]
)
def test_uninitialised_floats_are_nan(element: str, dtype: Any) -> None:
    text = f"%e = tensor.empty() : tensor<3x{element}>\nfunc.return %e : tensor<3x{element}>"
    (actual,) = run("", f"tensor<3x{element}>", text)
    assert actual.dtype == dtype
    assert np.isnan(actual.astype(np.float64)).all()


def test_uninitialised_integers_are_a_pattern() -> None:
    text = "%e = tensor.empty() : tensor<3xi16>\nfunc.return %e : tensor<3xi16>"
    (actual,) = run("", "tensor<3xi16>", text)
    assert actual.view(np.uint16).tolist() == [0xA5A5] * 3


def gather(indices: str) -> str:
    return f"""
      %e = tensor.empty() : tensor<3x2xf32>
      %c2 = arith.constant 2 : index
      %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}} outs(%e : tensor<3x2xf32>) {{
      ^bb0(%out: f32):
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %reversed = arith.subi %c2, %i : index
        %doubled = arith.muli %j, %c2 : index
        %sum = arith.addi %i, %j : index
        %half = arith.shrsi %i, %j : index
        %v = tensor.extract %x[{indices}] : tensor<4x4xf32>
        linalg.yield %v : f32
      }} -> tensor<3x2xf32>
      func.return %r : tensor<3x2xf32>"""


SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4)
ROW, COL = np.meshgrid(np.arange(3), np.arange(2), indexing="ij")


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ("%i, %j", SQUARE[ROW, COL]),
        ("%j, %i", SQUARE[COL, ROW]),
        ("%reversed, %doubled", SQUARE[2 - ROW, 2 * COL]),
        ("%c2, %reversed", SQUARE[2, 2 - ROW]),
        ("%i, %i", SQUARE[ROW, ROW]),
        ("%sum, %half", SQUARE[ROW + COL, ROW >> COL]),
        ("%c2, %c2", np.full((3, 2), SQUARE[2, 2])),
    ],
)
def test_extract_in_a_body(indices: str, expected: Array) -> None:
    (actual,) = run("%x: tensor<4x4xf32>", "tensor<3x2xf32>", gather(indices), SQUARE)
    np.testing.assert_array_equal(actual, expected)


def test_extract_outside_its_tensor_is_an_error_at_the_extract() -> None:
    text = gather("%i, %doubled").replace("muli %j, %c2", "muli %i, %c2")
    with pytest.raises(EvaluationError, match=r"<string>:14:14: error: 'tensor.extract' op reads"):
        run("%x: tensor<4x4xf32>", "tensor<3x2xf32>", text, SQUARE)


def test_control_flow() -> None:
    text = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %x) -> (tensor<2xf32>) {
        %next = arith.addf %acc, %x : tensor<2xf32>
        scf.yield %next : tensor<2xf32>
      }
      %big = arith.cmpi sgt, %n, %c1 : index
      %r = scf.if %big -> (tensor<2xf32>) {
        scf.yield %sum : tensor<2xf32>
      } else {
        %y = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
        scf.yield %y : tensor<2xf32>
      }
      func.return %r : tensor<2xf32>"""
    module = parse_module(f"""
    func.func @main(%x: tensor<2xf32>, %n: index) -> tensor<2xf32> {{ {text} }}
    func.func @twice(%x: tensor<2xf32>) -> tensor<2xf32> {{
      %y = arith.addf %x, %x : tensor<2xf32>
      func.return %y : tensor<2xf32>
    }}""")
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(evaluate(module, "main", [x, np.int64(3)])[0], 4 * x)
    np.testing.assert_array_equal(evaluate(module, "main", [x, np.int64(0)])[0], 2 * x)


def test_affine_maps_of_indices() -> None:
    text = """
      %a = affine.apply affine_map<(d0)[s0] -> (d0 floordiv 4 + s0 mod 3)> (%i)[%i]
      %b = affine.min affine_map<(d0) -> (d0, 5)> (%i)
      func.return %a, %b : index, index"""
    assert run("%i: index", "index, index", text, np.int64(11)) == (4, 5)


def test_results_are_the_callers_own() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    same, splat = run(
        "%x: tensor<2x3x4xf32>",
        "tensor<2x3x4xf32>, tensor<4xf32>",
        "%s = arith.constant dense<1.0> : tensor<4xf32>\n"
        "func.return %x, %s : tensor<2x3x4xf32>, tensor<4xf32>",
        x,
    )
    same += 1
    splat[0] = 3
    assert not x.any()
    assert splat.tolist() == [3, 1, 1, 1]


def test_a_large_splat_takes_no_memory() -> None:
    text = """
      %s = arith.constant dense<1.0> : tensor<1000000x1000000xf32>
      %c = arith.constant 999999 : index
      %v = tensor.extract %s[%c, %c] : tensor<1000000x1000000xf32>
      func.return %v : f32"""
    assert run("", "f32", text) == (1,)


def test_kernel_regions_and_calls_are_transparent() -> None:
    module = parse_module("""
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = kernel.region {
        %0 = arith.addf %x, %x : tensor<2xf32>
        kernel.yield %0 : tensor<2xf32>
      } -> tensor<2xf32>
      %z = kernel.call @k(%y) : (tensor<2xf32>) -> tensor<2xf32>
      func.return %z : tensor<2xf32>
    }
    kernel.func @k(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = arith.mulf %a, %a : tensor<2xf32>
      kernel.return %0 : tensor<2xf32>
    }""")
    (actual,) = evaluate(module, "main", [np.array([1, 2], np.float32)])
    assert actual.tolist() == [4, 16]


def test_results_that_lie_in_arguments_are_copies() -> None:
    module = parse_module("""
    func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %e: tensor<0xf32>)
        -> (tensor<4xf32>, tensor<2xf32>, tensor<0xf32>, tensor<4xf32>) {
      %part = tensor.extract_slice %x[2] [2] [1] : tensor<4xf32> to tensor<2xf32>
      %own = arith.negf %y : tensor<4xf32>
      func.return %y, %part, %e, %own : tensor<4xf32>, tensor<2xf32>, tensor<0xf32>, tensor<4xf32>
    }""")
    memory = np.arange(6, dtype=np.float32)
    before = memory.copy()
    results = evaluate(module, "main", (memory[2:], memory[:4], memory[:0]))
    for result in results:
        assert not np.may_share_memory(result, memory)
        result[...] = 9
    assert np.array_equal(memory, before)
