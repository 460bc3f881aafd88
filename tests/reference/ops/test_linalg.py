"""Nests of any body, map and iterator against a loop over every element."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.analysis.structured import structured
from convir.dialects.compat.parsing.parser import ConvirParser
from convir.dialects.context import new_context, parse_module, read_module
from convir.reference import EvaluationError, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import AffineMapAttr
    from xdsl.ir.affine import AffineExpr, AffineMap

pytestmark = pytest.mark.fast

Array = npt.NDArray[Any]

WORKSPACES = (1, 200, 1 << 20)


def integers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def nest(maps: str, iterators: str, ins: str, outs: str, body: str, args: str) -> str:
    """`@main` with one generic; `ins` and `outs` are types, `args` the body's argument types."""
    in_types, out_types = ([t for t in text.split(" ") if t] for text in (ins, outs))
    names = [f"%v{i}" for i in range(len(in_types) + len(out_types))]
    signature = ", ".join(f"{n}: {t}" for n, t in zip(names, in_types + out_types, strict=True))
    inputs = ", ".join(names[: len(in_types)])
    outputs = ", ".join(names[len(in_types) :])
    block = ", ".join(f"%b{i}: {t}" for i, t in enumerate(args.split()))
    ins_clause = f"ins({inputs} : {', '.join(in_types)})" if in_types else ""
    results = ", ".join(out_types)
    count = f":{len(out_types)}" if len(out_types) > 1 else ""
    returned = ", ".join(f"%r#{i}" for i in range(len(out_types))) if count else "%r"
    kinds = ", ".join({"p": '"parallel"', "r": '"reduction"'}[kind] for kind in iterators)
    arrow = f"({results})" if count else results
    return f"""
    func.func @main({signature}) -> {arrow} {{
      %r{count} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
          {ins_clause} outs({outputs} : {results}) {{
      ^bb0({block}):
        {body}
      }} -> {arrow}
      func.return {returned} : {results}
    }}"""


def affine(*maps: str) -> str:
    return ", ".join(f"affine_map<{text}>" for text in maps)


def run(text: str, *args: Array) -> tuple[Array, ...]:
    """The results, which must not depend on the workspace."""
    module = parse_module(text)
    first, *others = (evaluate(module, "main", args, workspace_bytes=w) for w in WORKSPACES)
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)
    return first


@st.composite
def contractions(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """Bounds, iterators and linear maps of two inputs and a permuted output."""
    count = draw(st.integers(1, 5))
    bounds = tuple(draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)))
    kinds = "".join(draw(st.lists(st.sampled_from("pr"), min_size=count, max_size=count)))
    loops = [f"d{i}" for i in range(count)]
    header = f"({', '.join(loops)}) -> "
    out = draw(st.permutations([d for d, kind in zip(loops, kinds, strict=True) if kind == "p"]))

    def operand() -> str:
        dims: list[str] = []
        for _ in range(draw(st.integers(0, 3))):
            terms = [
                f"{d} * {draw(st.integers(1, 3))}"
                for d in draw(st.lists(st.sampled_from(loops), max_size=2, unique=True))
            ]
            dims.append(" + ".join([*terms, str(draw(st.integers(0, 2)))]))
        return f"{header}({', '.join(dims)})"

    bare = f"{header}({', '.join(loops)})"
    return kinds, bounds, (operand(), operand(), bare, f"{header}({', '.join(out)})")


BODIES = {
    "multiply-add": "%m = arith.muli %b0, %b1 : i32\n%t = arith.addi %b3, %m : i32",
    "max": "%m = arith.subi %b0, %b1 : i32\n%t = arith.maxsi %m, %b3 : i32",
    "unrecognised": "%m = arith.subi %b3, %b0 : i32\n%t = arith.muli %m, %b1 : i32",
}
SCALARS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "multiply-add": lambda a, b, c, o: o + a * b,
    "max": lambda a, b, c, o: max(a - b, o),
    "unrecognised": lambda a, b, c, o: (o - a) * b,
}


def affine_map(text: str) -> AffineMap:
    return cast(
        "AffineMapAttr", ConvirParser(new_context(), f"affine_map<{text}>").parse_attribute()
    ).data


def extent(expression: AffineExpr, bounds: tuple[int, ...]) -> int:
    return expression.eval([bound - 1 for bound in bounds], []) + 1


@pytest.mark.parametrize("body", BODIES)
@given(drawn=contractions())
@settings(max_examples=40, deadline=None)
def test_any_linear_nest_equals_loops_over_elements(
    body: str, drawn: tuple[str, tuple[int, ...], tuple[str, ...]]
) -> None:
    kinds, bounds, texts = drawn
    maps = [affine_map(text) for text in texts]
    shapes = [tuple(extent(e, bounds) for e in m.results) for m in maps]
    types = [f"tensor<{''.join(f'{n}x' for n in shape)}i32>" for shape in shapes]
    text = nest(
        affine(*texts),
        kinds,
        " ".join(types[:3]),
        types[3],
        f"{BODIES[body]}\nlinalg.yield %t : i32",
        "i32 i32 i32 i32",
    )
    arrays = [integers(shape, np.int32, seed) for seed, shape in enumerate(shapes)]
    expected = arrays[3].copy()
    with np.errstate(over="ignore"):  # integers wrap around
        for index in product(*map(range, bounds)):
            a, b, c, o = (tuple(m.eval(index, [])) for m in maps)
            expected[o] = SCALARS[body](arrays[0][a], arrays[1][b], arrays[2][c], expected[o])
    (actual,) = run(text, *arrays)
    np.testing.assert_array_equal(actual, expected)


def test_negative_strides_and_remainders() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    text = nest(
        affine("(i, j) -> (2 - i, j mod 2)", "(i, j) -> (i, j)"),
        "pp",
        "tensor<3x4xf32>",
        "tensor<3x5xf32>",
        "linalg.yield %b0 : f32",
        "f32 f32",
    )
    (actual,) = run(text, x, np.zeros((3, 5), np.float32))
    np.testing.assert_array_equal(actual, x[::-1][:, [0, 1, 0, 1, 0]])


def test_indexing_outside_an_operand_is_an_error() -> None:
    text = nest(
        affine("(i) -> (i + 2)", "(i) -> (i)"),
        "p",
        "tensor<?xf32>",
        "tensor<?xf32>",
        "linalg.yield %b0 : f32",
        "f32 f32",
    )
    x = np.arange(5, dtype=np.float32)
    (actual,) = run(text, x, np.zeros(3, np.float32))
    np.testing.assert_array_equal(actual, x[2:])
    with pytest.raises(EvaluationError, match="indexes 2 to 5 of a dimension #0 of size 5"):
        run(text, x, np.zeros(4, np.float32))


def test_operands_that_disagree_on_a_loop() -> None:
    text = nest(
        affine("(i) -> (i)", "(i) -> (i)"),
        "p",
        "tensor<?xf32>",
        "tensor<?xf32>",
        "linalg.yield %b0 : f32",
        "f32 f32",
    )
    with pytest.raises(EvaluationError, match="has a loop d0 of both 2 and 3"):
        run(text, np.zeros(2, np.float32), np.zeros(3, np.float32))


def test_several_results_and_their_own_inits() -> None:
    text = nest(
        affine("(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (i)"),
        "pr",
        "tensor<4x6xi32>",
        "tensor<4xi32> tensor<4xi32>",
        "%s = arith.addi %b0, %b1 : i32\n%m = arith.maxsi %b0, %b2 : i32\n"
        "linalg.yield %s, %m : i32, i32",
        "i32 i32 i32",
    )
    x = integers((4, 6), np.int32)
    total, largest = run(text, x, np.ones(4, np.int32), np.full(4, 2, np.int32))
    np.testing.assert_array_equal(total, x.sum(1) + 1)
    np.testing.assert_array_equal(largest, np.maximum(x.max(1), 2))


def test_results_that_swap_their_inits() -> None:
    text = nest(
        affine("(i) -> (i)", "(i) -> (i)"),
        "p",
        "",
        "tensor<3xi32> tensor<3xi32>",
        "linalg.yield %b1, %b0 : i32, i32",
        "i32 i32",
    )
    a, b = np.array([1, 2, 3], np.int32), np.array([4, 5, 6], np.int32)
    swapped = run(text, a, b)
    np.testing.assert_array_equal(swapped, (b, a))


def test_argmax_steps_through_the_reduction() -> None:
    text = nest(
        affine("(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (i)"),
        "pr",
        "tensor<5x7xf32>",
        "tensor<5xf32> tensor<5xindex>",
        "%j = linalg.index 1 : index\n%c = arith.cmpf ogt, %b0, %b1 : f32\n"
        "%m = arith.select %c, %b0, %b1 : f32\n%k = arith.select %c, %j, %b2 : index\n"
        "linalg.yield %m, %k : f32, index",
        "f32 f32 index",
    )
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    largest, position = run(text, x, np.full(5, -np.inf, np.float32), np.zeros(5, np.int64))
    np.testing.assert_array_equal(largest, x.max(1))
    np.testing.assert_array_equal(position, x.argmax(1))


def test_a_sum_in_16_bits_rounds_at_every_step() -> None:
    text = nest(
        affine("(i) -> (i)", "(i) -> ()"),
        "r",
        "tensor<3xf16>",
        "tensor<f16>",
        "%s = arith.addf %b1, %b0 : f16\nlinalg.yield %s : f16",
        "f16 f16",
    )
    (actual,) = run(text, np.array([2048, 1, 1], np.float16), np.zeros((), np.float16))
    assert actual == 2048


def test_a_product_in_16_bits_rounds_before_it_is_added() -> None:
    text = nest(
        affine("(i) -> (i)", "(i) -> (i)", "(i) -> ()"),
        "r",
        "tensor<1xf16> tensor<1xf16>",
        "tensor<f32>",
        "%m = arith.mulf %b0, %b1 : f16\n%w = arith.extf %m : f16 to f32\n"
        "%s = arith.addf %b2, %w : f32\nlinalg.yield %s : f32",
        "f16 f16 f32",
    )
    x = np.array([1 + 2**-10], np.float16)
    (actual,) = run(text, x, x, np.zeros((), np.float32))
    assert actual == 1 + 2**-9


def test_overlapping_writes_accumulate() -> None:
    """A transposed convolution as a scatter: the result is indexed by a sum of loops."""
    text = nest(
        affine("(i, k) -> (i)", "(i, k) -> (k)", "(i, k) -> (i * 2 + k)"),
        "rr",
        "tensor<4xi32> tensor<3xi32>",
        "tensor<9xi32>",
        "%m = arith.muli %b0, %b1 : i32\n%s = arith.addi %b2, %m : i32\nlinalg.yield %s : i32",
        "i32 i32 i32",
    )
    x, w = integers((4,), np.int32), integers((3,), np.int32, 1)
    expected = np.zeros(9, np.int32)
    for i in range(4):
        expected[2 * i : 2 * i + 3] += x[i] * w
    (actual,) = run(text, x, w, np.zeros(9, np.int32))
    np.testing.assert_array_equal(actual, expected)


def test_integer_products_wrap() -> None:
    text = nest(
        affine("(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"),
        "ppr",
        "tensor<3x4xi64> tensor<4x2xi64>",
        "tensor<3x2xi64>",
        "%m = arith.muli %b0, %b1 : i64\n%s = arith.addi %b2, %m : i64\nlinalg.yield %s : i64",
        "i64 i64 i64",
    )
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-(2**62), 2**62, shape) for shape in ((3, 4), (4, 2)))
    with np.errstate(over="ignore"):
        expected = a @ b
    np.testing.assert_array_equal(run(text, a, b, np.zeros((3, 2), np.int64))[0], expected)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
UNARY = "ins(%x : tensor<2x3xf32>) outs(%e : {0})"


@pytest.mark.parametrize(
    ("operation", "result", "expected"),
    [
        (f"linalg.transpose {UNARY} permutation = [1, 0]", "tensor<3x2xf32>", X.T),
        (
            f"linalg.broadcast {UNARY} dimensions = [1]",
            "tensor<2x4x3xf32>",
            np.broadcast_to(X[:, None], (2, 4, 3)),
        ),
        (f"linalg.exp {UNARY} -> {{0}}", "tensor<2x3xf32>", np.exp(X)),
        (f"linalg.copy {UNARY} -> {{0}}", "tensor<2x3xf32>", X),
        ("linalg.add ins(%x, %x : {0}, {0}) outs(%e : {0}) -> {0}", "tensor<2x3xf32>", X + X),
    ],
)
def test_named_operations(operation: str, result: str, expected: Array) -> None:
    module = parse_module(f"""
    func.func @main(%x: tensor<2x3xf32>) -> {result} {{
      %e = tensor.empty() : {result}
      %r = {operation.format(result)}
      func.return %r : {result}
    }}""")
    (actual,) = evaluate(module, "main", [X])
    np.testing.assert_array_equal(actual, expected)
    assert not np.may_share_memory(actual, X)


def test_reduce() -> None:
    module = parse_module("""
    func.func @main(%x: tensor<2x3x4xf32>, %i: tensor<3xf32>) -> tensor<3xf32> {
      %r = linalg.reduce ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<3xf32>) dimensions = [0, 2]
        (%a: f32, %b: f32) {
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
        }
      func.return %r : tensor<3xf32>
    }""")
    x = integers((2, 3, 4), np.float32)
    (actual,) = evaluate(module, "main", [x, np.ones(3, np.float32)])
    np.testing.assert_array_equal(actual, x.sum((0, 2)) + 1)


def test_empty_iteration_spaces_give_the_init() -> None:
    text = nest(
        affine("(i, k) -> (i, k)", "(i, k) -> (i)"),
        "pr",
        "tensor<3x0xf32>",
        "tensor<3xf32>",
        "%s = arith.addf %b1, %b0 : f32\nlinalg.yield %s : f32",
        "f32 f32",
    )
    (actual,) = run(text, np.zeros((3, 0), np.float32), np.full(3, 7, np.float32))
    assert actual.tolist() == [7, 7, 7]


def test_structured_views_of_matmuls_evaluate() -> None:
    module = read_module("""
    func.func @main(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>, %c: tensor<3x5xf32>)
        -> tensor<3x5xf32> {
      %r = linalg.matmul ins(%a, %b : tensor<3x4xf32>, tensor<4x5xf32>)
                         outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
      func.return %r : tensor<3x5xf32>
    }""")
    assert any(structured(op) is not None for op in module.walk())
    a, b, c = (integers(s, np.float32, i) for i, s in enumerate(((3, 4), (4, 5), (3, 5))))
    np.testing.assert_array_equal(evaluate(module, "main", [a, b, c])[0], c + a @ b)
    assert prod(c.shape) == c.size
