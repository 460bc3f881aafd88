"""What cannot be built leaves nothing behind, and is refused with a reason."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.passes.builders.tensor_builder import TensorBuilder
from convir.passes.manager.pass_manager import run
from convir.passes.swap_strided_insert_slice_with_contraction.pass_ import (
    SwapStridedInsertSliceWithContractionPass,
)

SWAP = SwapStridedInsertSliceWithContractionPass.name

pytestmark = pytest.mark.fast

TEXT = """
func.func @main(%a: tensor<2x3xf32>, %b: tensor<?x3xf32>) -> tensor<2x3xf32> {
  return %a : tensor<2x3xf32>
}
"""


def drafted(sizes: tuple[int, ...], *, valid: bool = True) -> tuple[SSAValue | Refusal, bool, bool]:
    """What is drafted of a reshape, whether the module is the same, and the rewriter untouched."""
    module = read_module(TEXT)
    before = str(module)
    function = next(iter(module.ops))
    block = function.regions[0].block
    returned = block.last_op
    assert returned is not None
    rewriter = PatternRewriter(returned)
    builder = TensorBuilder(rewriter, returned)

    def build() -> SSAValue:
        known = builder.uninitialised(f32, (4, 4))
        if not valid:
            return builder.insert(arith.AddfOp(known, block.args[1], result_type=known.type))
        return builder.reshape(block.args[0], sizes)

    return builder.drafted(build), str(module) == before, not rewriter.has_done_action


def test_what_is_built_stays() -> None:
    value, same, untouched = drafted((6,))
    assert isinstance(value, SSAValue)
    assert value.type == TensorType(f32, [6])
    assert isinstance(value.owner, tensor.CollapseShapeOp)
    assert (same, untouched) == (False, False)


def test_an_unprovable_reshape_leaves_nothing() -> None:
    value, *untouched = drafted((7,))
    assert value == Refusal("tensor<2x3xf32> is not provably reshaped to tensor<7xf32>")
    assert untouched == [True, True]


def test_an_invalid_op_leaves_nothing() -> None:
    value, *untouched = drafted((6,), valid=False)
    assert isinstance(value, Refusal)
    assert value.reason.startswith("arith.addf cannot be built: ")
    assert untouched == [True, True]


def chain_of_dynamic_slices(depth: int) -> str:
    """A scatter of the last of many slices, each as long as the one before, and a product of it."""
    rows, wide, product = "tensor<?x8xf32>", "tensor<?x16xf32>", "tensor<?x4xf32>"
    lines = ["%c0 = arith.constant 0 : index", "%zero = arith.constant 0.0 : f32"]
    for i in range(depth):
        slice_ = f"tensor.extract_slice %s{i}[0, 0] [%d{i}, 8] [1, 1]"
        lines.append(f"%d{i} = tensor.dim %s{i}, %c0 : {rows}")
        lines.append(f"%s{i + 1} = {slice_} : {rows} to {rows}")
    lines.append(f"%n = tensor.dim %s{depth}, %c0 : {rows}")
    for name, kind in (("wide", wide), ("init", product)):
        lines.append(f"%{name}_empty = tensor.empty(%n) : {kind}")
        fill = f"linalg.fill ins(%zero : f32) outs(%{name}_empty : {kind}) -> {kind}"
        lines.append(f"%{name} = {fill}")
    scatter = f"tensor.insert_slice %s{depth} into %wide[0, 0] [%n, 8] [1, 2]"
    lines.append(f"%scatter = {scatter} : {rows} into {wide}")
    matmul = f"linalg.matmul ins(%scatter, %w : {wide}, tensor<16x4xf32>) outs(%init : {product})"
    lines.append(f"%y = {matmul} -> {product}")
    body = "".join(f"  {line}\n" for line in lines)
    arguments = f"%s0: {rows}, %w: tensor<16x4xf32>"
    return f"func.func @main({arguments}) -> {product} {{\n{body}  return %y : {product}\n}}\n"


def test_sizes_that_are_not_proved_equal_are_refused() -> None:
    # Past the producers that a size is looked for in, it is another symbol.
    assert [remark.fired for remark in run(chain_of_dynamic_slices(20), SWAP).remarks] == [True]
    text = chain_of_dynamic_slices(330)
    result = run(text, SWAP)
    (remark,) = result.remarks
    assert not remark.fired
    assert remark.reason == "two tensors of type tensor<?x4xf32> are not proved equal in size"
    assert str(result.module) == str(read_module(text))
