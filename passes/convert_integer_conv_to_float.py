"""`convert-integer-conv-to-float`: sums of bytes by products of floats, which hold them exactly.

    rewrite: conv.fprop accumulate(i32) X, W : i8
             --> fptosi(conv.fprop accumulate(f32) float(X), float(W) : bf16)

For a device without kernels that multiply bytes. Bytes are exact in bf16, and so are sums of their
products in f32 as long as none passes 2^24; then tensor cores multiply them. Larger sums are those
of f64. The image's bytes are unsigned, the filter's signed, as `conv.fprop` says.

Preconditions: the device is no CPU; shapes are static; no sum passes 2^31, judged by the filter's
elements where these are constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, bf16, f32, f64, i32
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from convir.analysis.refusal import Refusal
from convir.analysis.values.scalars import zero_of
from convir.analysis.values.zeros import is_zero
from convir.dialects.conv.constant import ConstantOp
from convir.dialects.conv.ops import FpropOp
from convir.dialects.linalg.generics import generic
from convir.passes.builders.tensor_builder import TensorBuilder, element_type_of
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType
    from xdsl.ir import Attribute, SSAValue

_Extension: TypeAlias = "arith.ExtUIOp | arith.ExtSIOp"

_MOST_UNSIGNED: Final = 255
_MOST_SIGNED: Final = 128
_EXACT_IN_F32: Final = 1 << 24
_EXACT_IN_I32: Final = 1 << 31


def factors_of(op: FpropOp) -> AnyFloat | Refusal:
    """The type that factors of a convolution of bytes become: bf16 or f64."""
    if op.accumulator != i32:
        return Refusal("it multiplies floats")
    if any(DYNAMIC_INDEX in kind.get_shape() for kind in op.types.values()):
        return Refusal("a size is dynamic")
    largest = _largest_sum(op)
    if largest >= _EXACT_IN_I32:
        return Refusal(f"sums of up to {largest} may pass i32")
    return bf16 if largest <= _EXACT_IN_F32 else f64


def _largest_sum(op: FpropOp) -> int:
    """What no sum of products passes."""
    filters, layout = op.rhs, op.geometry.layouts[1]
    shape = op.types["filter"].get_shape()
    outer = layout.letters.index(layout.outer)
    source = filters.owner
    if not isinstance(source, ConstantOp | arith.ConstantOp):
        return prod(shape) // max(1, shape[outer]) * _MOST_UNSIGNED * _MOST_SIGNED
    from convir.reference import evaluate_ops  # noqa: PLC0415  (brings NumPy along)

    weights = evaluate_ops([source], [filters])[filters]
    if isinstance(weights, Exception):
        raise weights
    rest = tuple(axis for axis in range(weights.ndim) if axis != outer)
    return int(abs(weights.astype("int64")).sum(axis=rest).max(initial=0)) * _MOST_UNSIGNED


@dataclass(frozen=True)
class ConvertIntegerConv(RewritePattern):
    """Replace one convolution of bytes."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fires on sums that floats hold exactly."""
        if not isinstance(op, FpropOp) or op.accumulator != i32:
            return
        element = factors_of(op)
        if isinstance(element, Refusal):
            remarks.refused(ConvertIntegerConvToFloatPass.name, op, element.reason)
            return
        total = f32 if element == bf16 else f64
        reason = f"products of {element}, which are exact in {total}"
        remarks.fired(ConvertIntegerConvToFloatPass.name, op, reason)
        builder = TensorBuilder(rewriter, op)
        x = _floats(builder, op.lhs, arith.ExtUIOp, element)
        w = _floats(builder, op.rhs, arith.ExtSIOp, element)
        init = builder.constant(zero_of(total), op.types["output"].get_shape())
        sums = builder.insert(FpropOp(x, w, init, op.geometry, total))
        result = _integers(builder, sums, op.init)
        result.name_hint = op.result.name_hint
        rewriter.replace(op, [], [result])


def _floats(
    builder: TensorBuilder, source: SSAValue, extend: type[_Extension], element: AnyFloat
) -> SSAValue:
    """A tensor of bytes as floats."""
    wide = f32 if element == bf16 else element

    def body(block: Block) -> SSAValue:
        value = _add(block, arith.SIToFPOp(_add(block, extend(block.args[0], i32)), wide))
        return value if wide == element else _add(block, arith.TruncFOp(value, element))

    return _elementwise(builder, [source], element, body)


def _integers(builder: TensorBuilder, sums: SSAValue, init: SSAValue) -> SSAValue:
    """Sums of floats as integers, plus `init`."""
    operands = [sums] if is_zero(init) else [sums, init]

    def body(block: Block) -> SSAValue:
        value = _add(block, arith.FPToSIOp(block.args[0], i32))
        return value if len(operands) == 1 else _add(block, arith.AddiOp(value, block.args[1]))

    return _elementwise(builder, operands, i32, body)


def _elementwise(
    builder: TensorBuilder,
    operands: Sequence[SSAValue],
    element: Attribute,
    body: Callable[[Block], SSAValue],
) -> SSAValue:
    shape = cast("TensorType[Attribute]", operands[0].type).get_shape()
    init = builder.uninitialised(element, shape)
    inner = Block(arg_types=[element_type_of(value) for value in (*operands, init)])
    inner.add_op(YieldOp(body(inner)))
    index = [AffineExpr.dimension(axis) for axis in range(len(shape))]
    return builder.insert(generic([(x, index) for x in (*operands, init)], inner, len(shape)))


def _add(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


@dataclass(frozen=True)
class ConvertIntegerConvToFloatPass(ModulePass):
    """Compute convolutions of bytes by floats where the device multiplies no bytes."""

    name = "convert-integer-conv-to-float"

    device: str = "host"
    """Whose kernels compute the convolutions."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module.

        Raises:
            PassFailedException: there is no such device.
        """
        check_device(self.device)
        if self.device == "host":
            for found in op.walk():
                if isinstance(found, FpropOp) and found.accumulator == i32:
                    remarks.refused(self.name, found, "the host multiplies bytes")
            return
        PatternRewriteWalker(ConvertIntegerConv(), apply_recursively=False).rewrite_module(op)
