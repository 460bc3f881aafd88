"""What is added to xDSL's classes: effects, corrected methods, and nothing on import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.traits import MemoryEffectKind, get_effects

from convir.dialects.compat import install
from convir.dialects.context import read_module

pytestmark = pytest.mark.fast

PURE = """
func.func @f(%t: tensor<4xf32>, %c: i8, %x: f32) {
  %e = tensor.empty() : tensor<f32>
  %fill = linalg.fill ins(%x : f32) outs(%t : tensor<4xf32>) -> tensor<4xf32>
  %dot = linalg.dot ins(%t, %t : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<f32>) -> tensor<f32>
  %map = linalg.map { math.exp } ins(%t : tensor<4xf32>) outs(%t : tensor<4xf32>)
  %loop = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      outs(%t : tensor<4xf32>) {
  ^bb0(%a: f32):
    %l = linalg.index 0 : index
    %b = tensor.extract %t[%l] : tensor<4xf32>
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %wide = arith.extsi %c : i8 to i32
  func.return
}
"""


def test_ops_on_tensors_have_no_effects():
    function = next(op for op in read_module(PURE).walk() if op.name == "func.func")
    block = function.regions[0].block
    impure = [op.name for op in block.ops if get_effects(op) != set() and op is not block.last_op]
    assert not impure


READ, WRITE = MemoryEffectKind.READ, MemoryEffectKind.WRITE
MEMORY = """
func.func @f(%t: tensor<4xf32>, %m: memref<4xf32>, %i: index, %x: f32) {
  linalg.fill {reads_and_writes} ins(%x : f32) outs(%m : memref<4xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      outs(%m : memref<4xf32>) attrs = {reads_and_writes} {
  ^bb0(%a: f32):
    linalg.yield %a : f32
  }
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      outs(%t : tensor<4xf32>) attrs = {writes} {
  ^bb0(%a: f32):
    memref.store %a, %m[%i] : memref<4xf32>
    linalg.yield %a : f32
  } -> tensor<4xf32>
  func.return
}
"""


@pytest.mark.parametrize(
    ("mark", "kinds"), [("reads_and_writes", {READ, WRITE}), ("writes", {WRITE})]
)
def test_ops_that_touch_memory_say_so(mark: str, kinds: set[MemoryEffectKind]):
    marked = [op for op in read_module(MEMORY).walk() if mark in op.attributes]
    assert marked
    for op in marked:
        assert {effect.kind for effect in get_effects(op) or ()} == kinds


def test_installing_twice_adds_nothing():
    install()
    before = tensor.InsertSliceOp.traits.traits
    install()
    assert tensor.InsertSliceOp.traits.traits == before


def test_importing_convir_changes_no_class_of_xdsl():
    script = (
        "import convir.dialects.context, convir.dialects.linalg.ops\n"
        "from xdsl.dialects.linalg.ops import GenericOp\n"
        "from xdsl.traits import MemoryEffect\n"
        "print(len(GenericOp.get_traits_of_type(MemoryEffect)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"


def test_zeros_of_both_signs_are_no_splat():
    install()
    both = DenseIntOrFPElementsAttr(TensorType(f32, [2]), BytesAttr(f32.pack((0.0, -0.0))))
    assert not both.is_splat()


def test_a_slice_of_lower_rank_keeps_all_its_sizes():
    install()
    source = tensor.EmptyOp((), TensorType(f32, [4, 6]))
    op = tensor.ExtractSliceOp.from_static_parameters(source, [1, 0], [1, 6], reduce_rank=True)
    op.verify()
    assert op.static_sizes.get_values() == (1, 6)
    assert op.result.type == TensorType(f32, [6])


PRINTED = """
func.func @f(%t: tensor<4xf32>, %e: tensor<f32>, %i: index, %b: i1) {
  %0 = tensor.empty(%i) : tensor<?xf32>
  %1 = affine.apply affine_map<(d0) -> (d0 + 1)>(%i)
  %2 = linalg.transpose ins(%t : tensor<4xf32>) outs(%t : tensor<4xf32>) permutation = [0]
  %3 = linalg.reduce { arith.addf } ins(%t : tensor<4xf32>) outs(%e : tensor<f32>) dimensions = [0]
  %4 = linalg.dot ins(%t, %t : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<f32>) -> tensor<f32>
  %5 = linalg.elementwise <exp> ins(%t : tensor<4xf32>) outs(%t : tensor<4xf32>) -> tensor<4xf32>
  %6 = linalg.square ins(%t : tensor<4xf32>) outs(%t : tensor<4xf32>) -> tensor<4xf32>
  %7 = linalg.map { math.exp } ins(%t : tensor<4xf32>) outs(%t : tensor<4xf32>)
  %8 = arith.select %b, %t, %t : tensor<4xf32>
  func.return
}
"""


def test_attributes_survive_printing():
    module = read_module(PRINTED)
    function = next(op for op in module.walk() if op.name == "func.func")
    block = function.regions[0].block
    for op in block.ops:
        op.attributes["convir.note"] = StringAttr(op.name)
    again = read_module(str(module))
    assert str(again) == str(module)
    noted = [op for op in again.walk() if op.attributes.get("convir.note") == StringAttr(op.name)]
    assert len(noted) == len(list(block.ops))


def test_casts_take_tensors():
    module = read_module("""
func.func @f(%t: tensor<4xf32>) {
  %0 = arith.fptosi %t : tensor<4xf32> to tensor<4xi8>
  func.return
}
""")
    assert any(isinstance(op, arith.FPToSIOp) for op in module.walk())
