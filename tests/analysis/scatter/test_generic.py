"""Scatters spelled out as generics are read back by what they compute, not by how."""

from __future__ import annotations

import pytest

from convir.analysis.refusal import Refusal
from convir.analysis.scatter.generic import scatter_generic
from convir.analysis.slices import SliceView
from convir.analysis.values.scalars import scalar_constant
from convir.dialects.context import read_module

pytestmark = pytest.mark.fast

CONSTANTS = """
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
"""


def read(body: str, shape: str = "9", source: str = "4") -> SliceView | Refusal:
    """What a generic with this body over a tensor of `shape` is read as."""
    rank = shape.count("x") + 1
    loops = ", ".join(f"d{loop}" for loop in range(rank))
    module = read_module(f"""
    func.func @f(%x: tensor<{source}xf32>, %y: tensor<{shape}xf32>, %t: i1)
        -> tensor<{shape}xf32> {{
      {CONSTANTS}
      %r = linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({loops})>],
          iterator_types = [{", ".join(['"parallel"'] * rank)}]}} outs(%y : tensor<{shape}xf32>) {{
      ^bb0(%out: f32):
        {body}
      }} -> tensor<{shape}xf32>
      return %r : tensor<{shape}xf32>
    }}""")
    (generic,) = [op for op in module.walk() if op.name == "linalg.generic"]
    return scatter_generic(generic)


def reason(body: str, shape: str = "9", source: str = "4") -> str:
    found = read(body, shape, source)
    assert isinstance(found, Refusal)
    return found.reason


EVERY_TEST = """
  %i = linalg.index 0 : index
  %p = arith.subi %i, %c1 : index
  %r0 = arith.remsi %p, %c2 : index
  %q = arith.divsi %p, %c2 : index
  %sign = arith.cmpi sge, %p, %c0 : index
  %even = arith.cmpi eq, %r0, %c0 : index
  %end = arith.cmpi slt, %q, %c4 : index
  %v0 = arith.andi %sign, %even : i1
  %v = arith.andi %v0, %end : i1
  %q0 = arith.maxsi %q, %c0 : index
  %q1 = arith.minsi %q0, %c3 : index
"""
"""Offset 1, stride 2, 4 elements, in the order and with the tests that IREE writes."""


def test_every_test_and_clamp() -> None:
    view = read(
        EVERY_TEST
        + """
        %e = tensor.extract %x[%q1] : tensor<4xf32>
        %s = arith.select %v, %e, %zero : f32
        linalg.yield %s : f32"""
    )
    assert isinstance(view, SliceView)
    assert (view.kind, view.offsets, view.sizes, view.strides) == ("generic", (1,), (4,), (2,))
    assert view.dest is None
    constant = scalar_constant(view.fill) if view.fill is not None else None
    assert constant is not None
    assert constant.value.data == 0.0


def test_other_arithmetic_with_the_same_values() -> None:
    view = read("""
      %i = linalg.index 0 : index
      %p = arith.addi %i, %c1 : index
      %q = arith.floordivsi %p, %c2 : index
      %q0 = arith.subi %q, %c1 : index
      %back = arith.muli %q, %c2 : index
      %odd = arith.cmpi eq, %back, %p : index
      %last = arith.cmpi sle, %q0, %c3 : index
      %v = arith.andi %last, %odd : i1
      %low = arith.maxsi %q0, %c0 : index
      %j = arith.minsi %low, %c3 : index
      %e = tensor.extract %x[%j] : tensor<4xf32>
      %s = arith.select %v, %e, %zero : f32
      linalg.yield %s : f32""")
    assert isinstance(view, SliceView)
    assert (view.offsets, view.sizes, view.strides) == ((1,), (4,), (2,))


def test_background_is_the_init() -> None:
    view = read(
        EVERY_TEST
        + """
        %e = tensor.extract %x[%q1] : tensor<4xf32>
        %s = arith.select %v, %e, %out : f32
        linalg.yield %s : f32"""
    )
    assert isinstance(view, SliceView)
    assert view.fill is None
    assert view.dest is not None
    assert view.dest.name_hint == "y"


def test_dropped_and_unit_dimensions() -> None:
    view = read(
        """
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %k = linalg.index 2 : index
        %first = arith.cmpi eq, %i, %c2 : index
        %second = arith.cmpi eq, %j, %c1 : index
        %v = arith.andi %first, %second : i1
        %e = tensor.extract %x[%c0, %k] : tensor<1x5xf32>
        %s = arith.select %v, %e, %zero : f32
        linalg.yield %s : f32""",
        shape="3x2x5",
        source="1x5",
    )
    assert isinstance(view, SliceView)
    assert (view.offsets, view.sizes, view.strides) == ((2, 1, 0), (1, 1, 5), (1, 1, 1))
    assert view.dropped == {1}


def test_a_gather_is_no_scatter() -> None:
    body = """
      %i = linalg.index 0 : index
      %e = tensor.extract %x[%i] : tensor<9xf32>
      linalg.yield %e : f32"""
    assert reason(body, source="9") == "its body selects nothing"


def test_a_condition_on_two_loops_at_once_is_refused() -> None:
    body = """
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %v = arith.cmpi eq, %i, %j : index
      %e = tensor.extract %x[%i, %j] : tensor<3x3xf32>
      %s = arith.select %v, %e, %zero : f32
      linalg.yield %s : f32"""
    assert "one test per dimension" in reason(body, shape="3x3", source="3x3")


def test_a_condition_from_outside_is_refused() -> None:
    body = """
      %i = linalg.index 0 : index
      %e = tensor.extract %x[%i] : tensor<9xf32>
      %s = arith.select %t, %e, %zero : f32
      linalg.yield %s : f32"""
    assert "one test per dimension" in reason(body, source="9")


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("arith.subi %c3, %q1", "the source is not read in order"),
        ("arith.remsi %q1, %c0", "its index cannot be evaluated"),
        ("arith.addi %c0, %c0", "is one constant"),
    ],
)
def test_other_indices_are_refused(index: str, expected: str) -> None:
    body = f"""{EVERY_TEST}
      %j = {index} : index
      %e = tensor.extract %x[%j] : tensor<4xf32>
      %s = arith.select %v, %e, %zero : f32
      linalg.yield %s : f32"""
    assert expected in reason(body)


def test_unevenly_spaced_positions_are_refused() -> None:
    body = """
      %i = linalg.index 0 : index
      %b = arith.andi %i, %c2 : index
      %v = arith.cmpi eq, %b, %c0 : index
      %e = tensor.extract %x[%i] : tensor<9xf32>
      %s = arith.select %v, %e, %zero : f32
      linalg.yield %s : f32"""
    assert "not evenly spaced" in reason(body, source="9")


def test_a_source_that_is_not_read_to_its_end_is_refused() -> None:
    body = f"""{EVERY_TEST}
      %e = tensor.extract %x[%q1] : tensor<5xf32>
      %s = arith.select %v, %e, %zero : f32
      linalg.yield %s : f32"""
    assert "leaves out elements" in reason(body, source="5")


def test_a_transposed_source_is_refused() -> None:
    body = """
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %v = arith.cmpi slt, %i, %c2 : index
      %k = arith.minsi %i, %c1 : index
      %e = tensor.extract %x[%j, %k] : tensor<3x2xf32>
      %s = arith.select %v, %e, %zero : f32
      linalg.yield %s : f32"""
    assert "permutes" in reason(body, shape="3x3", source="3x2")


def test_holes_that_differ_are_refused() -> None:
    body = f"""{EVERY_TEST}
      %e = tensor.extract %x[%q1] : tensor<4xf32>
      %twice = arith.addf %out, %out : f32
      %s = arith.select %v, %e, %twice : f32
      linalg.yield %s : f32"""
    assert reason(body) == "what its holes hold depends on the position"


MAP = "affine_map<(i, j) -> (i, j)>"
OTHER_LOOPS = """
func.func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %d: tensor<?x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %r = linalg.generic {indexing_maps = [MAP], iterator_types = ["parallel", "parallel"]}
      outs(%y : tensor<4x4xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %v = arith.cmpi sge, %i, %c1 : index
    %e = tensor.extract %x[%i, %j] : tensor<4x4xf32>
    %s = arith.select %v, %e, %zero : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return
}
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"MAP": "affine_map<(i, j) -> (j, i)>"}, "it permutes its result"),
        ({"MAP": MAP, '"parallel", "parallel"': '"parallel", "reduction"'}, "it reduces"),
        (
            {"[MAP]": f"[{MAP}, {MAP}]", "outs(%y": "ins(%x : tensor<4x4xf32>) outs(%y"}
            | {"bb0(": "bb0(%a: f32, "},
            "it has inputs, or not one init",
        ),
        (
            {"MAP": MAP, "%y : tensor<4x4xf32>": "%d : tensor<?x4xf32>"}
            | {"-> tensor<4x4xf32>": "-> tensor<?x4xf32>"},
            "its shape is dynamic",
        ),
        ({"MAP": MAP, "[%i, %j]": "[%i, %c1]"}, "index 1 of the element it reads is one constant"),
    ],
)
def test_other_loops_are_refused(change: dict[str, str], expected: str) -> None:
    text = OTHER_LOOPS
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    generic = next(op for op in read_module(text).walk() if op.name == "linalg.generic")
    found = scatter_generic(generic)
    assert isinstance(found, Refusal)
    assert expected in found.reason
    refusal = scatter_generic(generic.parent_op())
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "it is not a linalg.generic"
