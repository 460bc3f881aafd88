"""`fold-constants` executed: random functions of constants keep every bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from hypothesis import HealthCheck, given, settings
from random_programs.graphs import functions
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.context import new_context, read_module
from convir.dialects.conv.constant import ConstantOp
from convir.passes import run
from convir.passes.fold_constants import FoldConstantsPass
from convir.reference import evaluate, find_function

if TYPE_CHECKING:
    import numpy.typing as npt
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation

    Case: TypeAlias = tuple[str, tuple[npt.NDArray[np.generic], ...]]


def constant(value: npt.NDArray[np.generic], declared: Attribute) -> Operation:
    """A constant op that holds an argument."""
    if isinstance(declared, TensorType):
        tensor_type = TensorType(f32, value.shape)
        return ConstantOp(
            DenseIntOrFPElementsAttr(tensor_type, BytesAttr(value.tobytes())), tensor_type
        )
    if value.dtype.kind == "f":
        return arith.ConstantOp(FloatAttr(float(value), f32))
    return arith.ConstantOp(IntegerAttr(int(value), IndexType()))


def closed(case: Case) -> ModuleOp:
    """The function with its arguments in it, as constants."""
    text, arguments = case
    module = read_module(text, "random.mlir")
    function = find_function(module, "main")
    block = function.body.block
    for argument, value in zip(list(block.args), arguments, strict=True):
        op = constant(value, argument.type)
        Rewriter.insert_op(op, InsertPoint.at_start(block))
        argument.replace_all_uses_with(op.results[0])
        block.erase_arg(argument)
    function.update_function_type()
    return module


def bits(module: ModuleOp) -> tuple[bytes, ...]:
    """The bytes of every result, NaN being one number."""
    with np.errstate(all="ignore"):
        results = evaluate(module, "main", [])
    return tuple(np.where(np.isnan(r), np.float32(np.nan), r).tobytes() for r in results)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=functions())
def test_every_bit_stays(case: Case) -> None:
    module = closed(case)
    before = bits(module)
    FoldConstantsPass().apply(new_context(), module)
    module.verify()
    assert bits(module) == before


def test_a_network_of_constants_is_one_constant() -> None:
    text = """
      func.func @main(%x: tensor<2x4x5xf32>, %w: tensor<3x4x2xf32>) -> tensor<2x3x4xf32> {
        %zero = arith.constant 0.0 : f32
        %empty = tensor.empty() : tensor<2x3x4xf32>
        %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
        %y = conv.fprop layouts(NCW, KCS, NCW) ins(%x, %w : tensor<2x4x5xf32>, tensor<3x4x2xf32>)
               outs(%init : tensor<2x3x4xf32>)
        return %y : tensor<2x3x4xf32>
      }"""
    rng = np.random.default_rng(0)
    shapes = ((2, 4, 5), (3, 4, 2))
    module = closed((text, tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)))
    FoldConstantsPass().apply(new_context(), module)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    assert [op.name for op in function.body.block.ops] == ["conv.constant", "func.return"]


FOLDED_ALIKE = """
  func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %a = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %b = arith.constant dense<[0.0, 1.0, 2.0]> : tensor<3xf32>
    %c = arith.constant dense<1.0> : tensor<3xf32>
    %d = arith.addf %b, %c : tensor<3xf32>
    %e = arith.subf %a, %b : tensor<3xf32>
    %f = arith.mulf %d, %e : tensor<3xf32>
    %g = arith.mulf %a, %e : tensor<3xf32>
    %y = arith.addf %x, %f : tensor<3xf32>
    %z = arith.addf %x, %g : tensor<3xf32>
    return %y, %z : tensor<3xf32>, tensor<3xf32>
  }"""


def test_what_was_folded_alike_is_computed_once() -> None:
    once = run(FOLDED_ALIKE, "default")
    additions = [op for op in once.module.walk() if isinstance(op, arith.AddfOp)]
    assert len(additions) == 1
    again = run(once.module, "default")
    assert not any(remark.fired for remark in again.remarks), again.remarks
    assert is_equivalent(once.module, again.module)


def test_bits_fold_to_the_constant_that_their_text_reads_as() -> None:
    """An element of one bit is held as its text is: all of its byte alike."""
    text = """
      func.func @main() -> tensor<2xi1> {
        %a = arith.constant dense<[true, false]> : tensor<2xi1>
        %b = arith.constant dense<[true, true]> : tensor<2xi1>
        %c = arith.xori %a, %b : tensor<2xi1>
        return %c : tensor<2xi1>
      }"""
    folded = run(text, "fold-constants").module
    (found,) = (op for op in folded.walk() if isinstance(op, ConstantOp))
    assert isinstance(found.value, DenseIntOrFPElementsAttr)
    assert found.value.data.data == bytes([0, 0xFF])
    assert is_equivalent(folded, read_module(str(folded)))
