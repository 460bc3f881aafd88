"""`convert-integer-conv-to-float`: sums of bytes by products of floats, which hold them exactly.

    rewrite: conv.fprop accumulate(i32) X, W : i8
             --> fptosi(conv.fprop accumulate(f32) float(X), float(W) : bf16)

For a device without kernels that multiply bytes. Bytes are exact in bf16, and so are sums of their
products in f32 as long as none passes 2^24; then tensor cores multiply them. Larger sums are those
of f64. The image's bytes are unsigned, the filter's signed, as `conv.fprop` says.

An image that is padded with its zero point is one that is padded with zeros, minus the zero point,
whose product with a constant filter is one constant a channel:

    Σ pad(X, z) * W  =  Σ pad(X - z, 0) * W  +  z * Σ W

Preconditions: the device is no CPU; shapes are static; no sum passes 2^31, judged by the filter's
elements where these are constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, bf16, f32, f64, i32
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from convir.analysis.refusal import Refusal
from convir.analysis.slices import slice_view
from convir.analysis.values.scalars import scalar_constant, zero_of
from convir.analysis.values.zeros import is_zero
from convir.dialects.compat.parsing.literals import dense_from_bytes
from convir.dialects.conv.constant import ConstantOp
from convir.dialects.conv.ops import FpropOp
from convir.dialects.linalg.generics import generic
from convir.passes.builders.tensor_builder import TensorBuilder, element_type_of
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import AnyFloat, ModuleOp
    from xdsl.ir import Attribute, SSAValue

    from convir.dialects.conv.geometry import Geometry

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
    largest = _largest_sum(op, _sums_of_weights(op, magnitudes=True))
    if largest >= _EXACT_IN_I32:
        return Refusal(f"sums of up to {largest} may pass i32")
    return bf16 if largest <= _EXACT_IN_F32 else f64


def _largest_sum(op: FpropOp, magnitudes: Any) -> int:
    """What no sum of products passes."""
    if magnitudes is not None:
        return int(magnitudes.max(initial=0)) * _MOST_UNSIGNED
    outputs = op.types["filter"].get_shape()[op.geometry.layouts[1].outer_axis]
    products = prod(op.types["filter"].get_shape()) // max(1, outputs)
    return products * _MOST_UNSIGNED * _MOST_SIGNED


def _sums_of_weights(op: FpropOp, *, magnitudes: bool) -> Any:
    """The sum of each output channel's weights, or of their magnitudes; None if they are not
    constants."""
    source = op.rhs.owner
    if not isinstance(source, ConstantOp | arith.ConstantOp):
        return None
    from convir.reference import evaluate_ops  # noqa: PLC0415  (brings NumPy along)

    weights = evaluate_ops([source], [op.rhs])[op.rhs]
    if isinstance(weights, Exception):
        raise weights
    rest = tuple(x for x in range(weights.ndim) if x != op.geometry.layouts[1].outer_axis)
    wide = weights.astype("int64")
    return (abs(wide) if magnitudes else wide).sum(axis=rest)


@dataclass(frozen=True)
class Image:
    """What a convolution reads."""

    value: SSAValue
    zero: int
    """Its zero point, an unsigned byte, which its padding stands for."""
    geometry: Geometry
    """Of the convolution of it."""


def image_of(op: FpropOp) -> Image:
    """The image of a convolution before it is padded, if its weights are constants."""
    plain = Image(op.lhs, 0, op.geometry)
    layout, owner = op.geometry.layouts[0], op.lhs.owner
    view = slice_view(owner) if isinstance(owner, Operation) else None
    known = isinstance(op.rhs.owner, ConstantOp | arith.ConstantOp)
    if view is None or view.kind != "pad" or view.fill is None or not known:
        return plain
    fill = scalar_constant(view.fill)
    sizes = [(tensor_type(x).get_shape()) for x in (view.source, view.result)]
    low = [-1 if offset is None else offset for offset in view.offsets]
    high = [after - before - first for before, after, first in zip(*sizes, low, strict=True)]
    outer = (layout.outer_axis, layout.channel_axis)
    if fill is None or any((*op.geometry.pad_low, *op.geometry.pad_high)) or min(low) < 0:
        return plain
    if any(low[axis] or high[axis] for axis in outer):
        return plain
    padded = replace(
        op.geometry,
        pad_low=tuple(low[axis] for axis in layout.spatial_axes),
        pad_high=tuple(high[axis] for axis in layout.spatial_axes),
    )
    return Image(view.source, int(fill.value.data) & _MOST_UNSIGNED, padded)


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
        builder, image = TensorBuilder(rewriter, op), image_of(op)
        x = _floats(builder, image.value, arith.ExtUIOp, image.zero, element)
        w = _floats(builder, op.rhs, arith.ExtSIOp, 0, element)
        init = builder.constant(zero_of(total), op.types["output"].get_shape())
        sums = builder.insert(FpropOp(x, w, init, image.geometry, total))
        result = _integers(builder, sums, op, image.zero)
        result.name_hint = op.result.name_hint
        rewriter.replace(op, [], [result])


def _floats(
    builder: TensorBuilder,
    source: SSAValue,
    extend: type[_Extension],
    zero: int,
    element: AnyFloat,
) -> SSAValue:
    """A tensor of bytes minus a zero point as floats."""
    wide = f32 if element == bf16 else element

    def body(block: Block) -> SSAValue:
        value = _add(block, extend(block.args[0], i32))
        if zero:
            offset = _add(block, arith.ConstantOp(IntegerAttr(-zero, i32)))
            value = _add(block, arith.AddiOp(value, offset))
        value = _add(block, arith.SIToFPOp(value, wide))
        return value if wide == element else _add(block, arith.TruncFOp(value, element))

    index = _identity(source)
    return _elementwise(builder, [(source, index)], element, body)


def _integers(builder: TensorBuilder, sums: SSAValue, op: FpropOp, zero: int) -> SSAValue:
    """Sums of floats as integers, plus the init and what the zero point takes from them."""
    index = _identity(sums)
    operands = [(sums, index)]
    if not is_zero(op.init):
        operands.append((op.init, index))
    if zero:
        channels = (zero * _sums_of_weights(op, magnitudes=False)).astype("int32")
        kind = TensorType(i32, channels.shape)
        constant = builder.insert(ConstantOp(dense_from_bytes(channels.tobytes(), kind), kind))
        operands.append((constant, [index[op.geometry.layouts[2].channel_axis]]))

    def body(block: Block) -> SSAValue:
        value = _add(block, arith.FPToSIOp(block.args[0], i32))
        for addend in block.args[1 : len(operands)]:
            value = _add(block, arith.AddiOp(value, addend))
        return value

    return _elementwise(builder, operands, i32, body)


def _identity(value: SSAValue) -> list[AffineExpr]:
    return [AffineExpr.dimension(axis) for axis in range(len(tensor_type(value).get_shape()))]


def _elementwise(
    builder: TensorBuilder,
    operands: Sequence[tuple[SSAValue, list[AffineExpr]]],
    element: Attribute,
    body: Callable[[Block], SSAValue],
) -> SSAValue:
    """`body` of the elements of tensors, the first of which has the result's shape."""
    (first, index), *_ = operands
    init = builder.uninitialised(element, tensor_type(first).get_shape())
    given = [*operands, (init, index)]
    inner = Block(arg_types=[element_type_of(value) for value, _ in given])
    inner.add_op(YieldOp(body(inner)))
    return builder.insert(generic(given, inner, len(index)))


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The type of a tensor."""
    return cast("TensorType[Attribute]", value.type)


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
