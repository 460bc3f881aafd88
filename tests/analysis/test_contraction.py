"""ContractionDims on matrix products, convolutions in several layouts, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from convir.analysis.contraction import ContractionDims, contraction_dims
from convir.analysis.linear import LinearIndex
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.dialects.context import parse_module

pytestmark = pytest.mark.fast


@dataclass(frozen=True)
class Generic:
    """A linalg.generic on function arguments, as text."""

    maps: tuple[str, str, str]
    iterators: str
    """One letter per loop: p or r."""
    types: tuple[str, str, str]
    body: str
    elements: tuple[str, str, str] = ("f32", "f32", "f32")

    def text(self) -> str:
        loops = ", ".join(f"d{i}" for i in range(len(self.iterators)))
        maps = ", ".join(f"affine_map<({loops}) -> ({m})>" for m in self.maps)
        names = {"p": '"parallel"', "r": '"reduction"'}
        iterators = ", ".join(names[letter] for letter in self.iterators)
        tensors = [f"tensor<{t}x{e}>" for t, e in zip(self.types, self.elements, strict=True)]
        a, b, o = tensors
        ea, eb, eo = self.elements
        return f"""
        func.func @main(%a: {a}, %b: {b}, %o: {o}, %f: f32) -> {o} {{
          %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
            ins(%a, %b : {a}, {b}) outs(%o : {o}) {{
          ^bb0(%x: {ea}, %y: {eb}, %acc: {eo}):
            {self.body}
          }} -> {o}
          func.return %r : {o}
        }}"""


MAC = """%p = arith.mulf %x, %y : f32
%s = arith.addf %acc, %p : f32
linalg.yield %s : f32"""

MATMUL_MAPS = ("d0, d2", "d2, d1", "d0, d1")
MATMUL_TYPES = ("4x6", "6x5", "4x5")


def analyse(text: str) -> ContractionDims | Refusal:
    module = parse_module(text)
    (op,) = [op for op in module.walk() if structured(op) is not None]
    return contraction_dims(op)


def dims(text: str) -> ContractionDims:
    answer = analyse(text)
    assert isinstance(answer, ContractionDims), answer
    return answer


def reason(text: str) -> str:
    answer = analyse(text)
    assert isinstance(answer, Refusal)
    return answer.reason


def matmul(body: str, elements: tuple[str, str, str] = ("f32", "f32", "f32")) -> str:
    return Generic(MATMUL_MAPS, "ppr", MATMUL_TYPES, body, elements).text()


def test_matmul_roles_and_flops() -> None:
    found = dims(matmul(MAC))
    assert (found.batch, found.m, found.n, found.k) == ((), (0,), (1,), (2,))
    assert found.windows == ()
    assert found.flops == 2 * 4 * 5 * 6
    assert [found.role(loop) for loop in range(3)] == ["m", "n", "k"]
    assert str(found.multiply_type) == str(found.accumulate_type) == "f32"


@pytest.mark.parametrize(
    "body",
    [
        "%p = arith.mulf %y, %x : f32\n%s = arith.addf %acc, %p : f32\nlinalg.yield %s : f32",
        "%p = arith.mulf %x, %y : f32\n%s = arith.addf %p, %acc : f32\nlinalg.yield %s : f32",
        "%p = arith.mulf %y, %x : f32\n%s = arith.addf %p, %acc : f32\nlinalg.yield %s : f32",
    ],
)
def test_operands_of_the_body_may_be_commuted(body: str) -> None:
    found = dims(matmul(body))
    assert (found.m, found.n, found.k) == ((0,), (1,), (2,))


def test_casts_belong_to_their_operand() -> None:
    body = """%xe = arith.extf %x : bf16 to f32
    %ye = arith.extf %y : f16 to f32
    %p = arith.mulf %ye, %xe : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32"""
    found = dims(matmul(body, ("bf16", "f16", "f32")))
    assert [str(op.operands[0].type) for op in found.lhs.casts] == ["bf16"]
    assert [str(op.operands[0].type) for op in found.rhs.casts] == ["f16"]
    assert found.product_casts == ()


def test_the_product_may_be_converted() -> None:
    body = """%p = arith.mulf %x, %y : f16
    %w = arith.extf %p : f16 to f32
    %s = arith.addf %acc, %w : f32
    linalg.yield %s : f32"""
    found = dims(matmul(body, ("f16", "f16", "f32")))
    assert [op.name for op in found.product_casts] == ["arith.extf"]
    assert (str(found.multiply_type), str(found.accumulate_type)) == ("f16", "f32")


def test_integers_accumulate_wide() -> None:
    body = """%xe = arith.extsi %x : i8 to i32
    %ye = arith.extui %y : i8 to i32
    %p = arith.muli %xe, %ye : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32"""
    found = dims(matmul(body, ("i8", "i8", "i32")))
    assert [op.name for op in (*found.lhs.casts, *found.rhs.casts)] == [
        "arith.extsi",
        "arith.extui",
    ]


def test_grouped_convolution_nhwgc() -> None:
    maps = ("d0, d1 * 2 + d5 * 3, d2 + d6, d3, d7", "d3, d4, d5, d6, d7", "d0, d1, d2, d3, d4")
    types = ("2x11x8x3x4", "3x5x3x2x4", "2x3x7x3x5")
    found = dims(Generic(maps, "ppppprrr", types, MAC).text())
    assert (found.batch, found.m, found.n, found.k) == ((3,), (0, 1, 2), (4,), (5, 6, 7))
    height, width = found.windows
    assert (height.operand, height.dim, height.output, height.offset) == (0, 1, 1, 5)
    assert (height.stride, height.dilation, height.constant) == (2, 3, 0)
    assert (width.output, width.offset, width.stride, width.dilation) == (2, 6, 1, 1)
    assert found.lhs.index[1] == LinearIndex(((1, 2), (5, 3)))
    assert found.flops == 2 * (2 * 3 * 7 * 3 * 5) * (3 * 2 * 4)


def test_filter_first_puts_the_window_on_the_rhs() -> None:
    maps = ("d1, d4, d3", "d0, d3, d2 + d4", "d0, d1, d2")
    found = dims(Generic(maps, "ppprr", ("5x3x4", "2x4x9", "2x5x7"), MAC).text())
    assert (found.m, found.n, found.k) == ((1,), (0, 2), (3, 4))
    assert [window.operand for window in found.windows] == [1]
    assert found.windows_of(0) == ()


def test_depthwise_channels_are_batch() -> None:
    maps = ("d0, d1 + d3, d2", "d3, d2", "d0, d1, d2")
    found = dims(Generic(maps, "pppr", ("2x9x4", "3x4", "2x7x4"), MAC).text())
    assert (found.batch, found.m, found.n, found.k) == ((2,), (0, 1), (), (3,))


def test_backward_weight_swaps_stride_and_dilation() -> None:
    # dW[r, c, k] += X[n, 2 p + r, c] dY[n, p, k]
    maps = ("d3, d4 * 2 + d0, d1", "d3, d4, d2", "d0, d1, d2")
    found = dims(Generic(maps, "ppprr", ("2x9x4", "2x4x5", "3x4x5"), MAC).text())
    (window,) = found.windows
    assert (window.output, window.offset, window.stride, window.dilation) == (0, 4, 1, 2)
    assert (found.m, found.n, found.k) == ((0, 1), (2,), (3, 4))


def test_dynamic_bounds_leave_flops_unknown() -> None:
    text = Generic(MATMUL_MAPS, "ppr", ("?x6", "6x5", "?x5"), MAC).text()
    found = dims(text)
    assert found.bounds == (None, 5, 6)
    assert found.flops is None


def test_named_matmul() -> None:
    found = dims(
        """func.func @main(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>, %o: tensor<4x5xf32>) {
          %r = linalg.matmul ins(%a, %b : tensor<4x6xf32>, tensor<6x5xf32>)
            outs(%o : tensor<4x5xf32>) -> tensor<4x5xf32>
          func.return
        }"""
    )
    assert (found.m, found.n, found.k) == ((0,), (1,), (2,))


def test_named_convolution() -> None:
    found = dims(
        """func.func @main(%a: tensor<2x9x9x3xf32>, %b: tensor<3x3x3x8xf32>,
                           %o: tensor<2x4x4x8xf32>) {
          %r = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>,
                                         dilations = dense<1> : tensor<2xi64>}
            ins(%a, %b : tensor<2x9x9x3xf32>, tensor<3x3x3x8xf32>)
            outs(%o : tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>
          func.return
        }"""
    )
    assert [window.stride for window in found.windows] == [2, 2]
    assert found.flops == 2 * (2 * 4 * 4 * 8) * (3 * 3 * 3)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            """%c = math.cos %x : f32
            %p = arith.mulf %c, %y : f32
            %s = arith.addf %acc, %p : f32
            linalg.yield %s : f32""",
            "the body multiplies the result of math.cos, not an input",
        ),
        (
            """%p = arith.mulf %x, %y : f32
            %s = arith.maximumf %acc, %p : f32
            linalg.yield %s : f32""",
            "the body yields arith.maximumf, not a sum",
        ),
        (
            """%p = arith.mulf %x, %x : f32
            %s = arith.addf %acc, %p : f32
            linalg.yield %s : f32""",
            "the body multiplies an input by itself",
        ),
        (
            """%p = arith.mulf %x, %f : f32
            %s = arith.addf %acc, %p : f32
            linalg.yield %s : f32""",
            "the body multiplies a value from outside it",
        ),
        (
            """%p = arith.mulf %x, %y : f32
            %s = arith.addf %y, %p : f32
            linalg.yield %s : f32""",
            "the body does not add to the result's own element",
        ),
        (
            """%p = arith.mulf %x, %y : f32
            %s = arith.addf %acc, %p : f32
            %e = math.exp %s : f32
            linalg.yield %e : f32""",
            "the body yields math.exp, not a sum",
        ),
        (
            """%e = math.exp %y : f32
            %p = arith.mulf %x, %y : f32
            %s = arith.addf %acc, %p : f32
            linalg.yield %s : f32""",
            "the body also computes math.exp",
        ),
        (
            """%s = arith.addf %acc, %x : f32
            linalg.yield %s : f32""",
            "the body adds a value that is not a product",
        ),
        ("linalg.yield %x : f32", "the body yields a value it does not compute"),
    ],
)
def test_refuses_other_bodies(body: str, expected: str) -> None:
    assert reason(matmul(body)) == expected


@pytest.mark.parametrize(
    ("maps", "iterators", "types", "expected"),
    [
        (
            ("d0, d2", "d1", "d0, d1"),
            "ppr",
            ("4x6", "5", "4x5"),
            "loop d2 is reduction and indexes one input only",
        ),
        (
            ("d0, d2", "d2, d1", "d0, d1"),
            "ppp",
            MATMUL_TYPES,
            "loop d2 is parallel and does not index the result",
        ),
        (
            ("d0 + d1 + d2", "d1, d2", "d0"),
            "prr",
            ("9", "3x2", "6"),
            "dimension 0 of input 0 is indexed by 3 loops",
        ),
        (
            ("d0 floordiv 2, d2", "d2, d1", "d0, d1"),
            "ppr",
            ("2x6", "6x5", "4x5"),
            "an indexing map is not linear in the loops",
        ),
        (
            ("d0 + d1, d2", "d1, d2", "d0, d1"),
            "ppr",
            ("8x6", "5x6", "4x5"),
            "both loops that index dimension 0 of input 0 are parallel",
        ),
    ],
)
def test_refuses_other_loops(
    maps: tuple[str, str, str], iterators: str, types: tuple[str, str, str], expected: str
) -> None:
    assert reason(Generic(maps, iterators, types, MAC).text()) == expected


def test_refuses_ops_without_loops() -> None:
    module = parse_module("func.func @main(%a: f32) { func.return }")
    answer = contraction_dims(next(iter(module.ops)))
    assert answer == Refusal("it is not a linalg structured op")
