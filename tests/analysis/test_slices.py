"""Views of slices and pads, and sizes as symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from convir.analysis.slices import DimOf, SliceView, dropped_dims, index_of, size_of, slice_view
from convir.dialects.context import parse_module

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

pytestmark = pytest.mark.fast


def module_of(arguments: str, body: str) -> ModuleOp:
    return parse_module(f"func.func @main({arguments}) {{\n{body}\nfunc.return\n}}")


def named(module: ModuleOp, name: str) -> Operation:
    (found,) = [op for op in module.walk() if op.results and op.results[0].name_hint == name]
    return found


def view_of(arguments: str, body: str) -> SliceView | None:
    return slice_view(named(module_of(arguments, body), "r"))


def test_insert_slice() -> None:
    view = view_of(
        "%x: tensor<2x3xf32>, %y: tensor<2x9xf32>",
        "%r = tensor.insert_slice %x into %y[0, 1] [2, 3] [1, 3]"
        " : tensor<2x3xf32> into tensor<2x9xf32>",
    )
    assert view is not None
    assert (view.offsets, view.sizes, view.strides) == ((0, 1), (2, 3), (1, 3))
    assert (view.covers(0), view.covers(1), view.strided) == (True, False, True)
    assert view.small is view.source
    assert view.large is view.result


def test_a_rank_reducing_insertion_drops_unit_dimensions() -> None:
    view = view_of(
        "%x: tensor<3x4xf32>, %y: tensor<2x6x4xf32>",
        "%r = tensor.insert_slice %x into %y[1, 0, 0] [1, 3, 4] [1, 2, 1]"
        " : tensor<3x4xf32> into tensor<2x6x4xf32>",
    )
    assert view is not None
    assert view.dropped == {0}
    assert [view.small_dim(dim) for dim in range(3)] == [None, 0, 1]


def test_constant_operands_are_static() -> None:
    view = view_of(
        "%x: tensor<2x9xf32>, %o: index",
        """%c2 = arith.constant 2 : index
        %r = tensor.extract_slice %x[0, %o] [2, 3] [1, %c2] : tensor<2x9xf32> to tensor<2x3xf32>""",
    )
    assert view is not None
    assert (view.offsets, view.strides) == ((0, None), (1, 2))
    assert view.large is view.source


def test_pad() -> None:
    body = """%c = arith.constant 0.0 : f32
    %r = tensor.pad %x low[0, 1] high[0, 2] {
    ^bb0(%i: index, %j: index):
      tensor.yield %c : f32
    } : tensor<?x3xf32> to tensor<?x6xf32>"""
    view = view_of("%x: tensor<?x3xf32>", body)
    assert view is not None
    assert view.fill is not None
    assert (view.offsets, view.strides) == ((0, 1), (1, 1))
    assert view.mixed_sizes == (DimOf(view.source, 0), 3)
    assert view_of("%x: tensor<?x3xf32>", body.replace("low[0, 1]", "low[0, -1]")) is None


def test_contradictions_have_no_view() -> None:
    # Unverified IR: past the end, and a stride of zero.
    for slices in ("[0, 3] [2, 3] [1, 3]", "[0, 0] [2, 3] [1, 0]", "[0, 0] [2, 4] [1, 1]"):
        view = view_of(
            "%x: tensor<2x3xf32>, %y: tensor<2x9xf32>",
            f"%r = tensor.insert_slice %x into %y{slices} : tensor<2x3xf32> into tensor<2x9xf32>",
        )
        assert view is None


def test_sizes_are_followed_to_their_origin() -> None:
    module = module_of(
        "%x: tensor<?x3xf32>, %s: f32",
        """%c0 = arith.constant 0 : index
        %n = tensor.dim %x, %c0 : tensor<?x3xf32>
        %e = tensor.empty(%n) : tensor<?x6xf32>
        %f = linalg.fill ins(%s : f32) outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
        %p = tensor.splat %s[%n] : tensor<?x6xf32>
        %i = tensor.insert_slice %x into %f[0, 0] [%n, 3] [1, 2]
          : tensor<?x3xf32> into tensor<?x6xf32>
        %t = tensor.extract_slice %i[0, 0] [%n, 2] [1, 1] : tensor<?x6xf32> to tensor<?x2xf32>""",
    )
    x = named(module, "n").operands[0]
    assert index_of(named(module, "n").results[0]) == DimOf(x, 0)
    for name in ("e", "f", "p", "i", "t"):
        assert size_of(named(module, name).results[0], 0) == DimOf(x, 0)
    view = slice_view(named(module, "i"))
    assert view is not None
    assert view.covers(0)


def test_dropped_dims() -> None:
    assert dropped_dims([1, 4, 1], [4]) == {0, 2}
    assert dropped_dims([1, 1, 4], [1, 4]) == {1}
    assert dropped_dims([2, 4], [4]) is None
    assert dropped_dims([4], [4, 4]) is None
