"""The conv dialect: forward, backward data and backward weight convolutions on tensors.

All three speak of the same forward convolution: its input X, its filter W and its output Y (or
the gradients dX, dW, dY, which have the same shapes), each in a layout of its own. They differ in
which of the three they compute from the other two. Positions along a spatial dimension are tied by

    h = p * stride + r * dilation - pad_low

with h a position of X, p of Y and r of W; positions outside X are padding and count as 0. With G
groups, output channel k belongs to group k // (K / G) and meets the C / G input channels of that
group, so that the filter has K x taps x C / G elements.

They are destination-passing: the result is `init + sum`, where the sum and the addition to `init`
are done in the accumulator type and rounded once to the result's type. A zero `init` is beta = 0,
any other beta = 1.

Sums in i32 are of forward convolutions alone, of 8-bit integers, unsigned in X and signed in W,
modulo 2^32.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, ClassVar, cast

from xdsl.dialects.builtin import (
    I64,
    AnyFloatConstr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    EqAttrConstraint,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from convir.dialects.conv import assembly as conv_assembly
from convir.dialects.conv import verify as conv_verify
from convir.dialects.conv.constant import BlobAttr, ConstantOp
from convir.dialects.conv.geometry import Direction, Geometry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from xdsl.dialects.builtin import AnyFloat
    from xdsl.ir import SSAValue
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from convir.dialects.conv.geometry import Role
    from convir.dialects.conv.windows import Window

ELEMENT_TYPES: Mapping[str, AnyFloat] = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}
"""The element types of tensors and accumulators, by name."""


class ConvOp(IRDLOperation, ABC):
    """What the three directions have in common: two operands, an init, a geometry.

    `layouts` are those of input, filter and output in this order whatever the direction; one
    stride, dilation and pair of paddings per spatial dimension, in the order D, H, W.
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    init = operand_def(TensorType)
    result = result_def(TensorType)

    input_layout = prop_def(StringAttr)
    filter_layout = prop_def(StringAttr)
    output_layout = prop_def(StringAttr)
    strides = prop_def(DenseArrayBase.constr(i64))
    pad_low = prop_def(DenseArrayBase.constr(i64))
    pad_high = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    groups = prop_def(IntegerAttr[I64])
    accumulator = prop_def(AnyFloatConstr | EqAttrConstraint(i32))

    traits = traits_def(Pure())

    DIRECTION: ClassVar[Direction]

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        init: SSAValue,
        geometry: Geometry,
        accumulator: AnyFloat | IntegerType,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs, init],
            result_types=[init.type],
            properties={
                "input_layout": StringAttr(geometry.input_layout),
                "filter_layout": StringAttr(geometry.filter_layout),
                "output_layout": StringAttr(geometry.output_layout),
                "strides": DenseArrayBase.from_list(i64, geometry.strides),
                "pad_low": DenseArrayBase.from_list(i64, geometry.pad_low),
                "pad_high": DenseArrayBase.from_list(i64, geometry.pad_high),
                "dilations": DenseArrayBase.from_list(i64, geometry.dilations),
                "groups": IntegerAttr(geometry.groups, i64),
                "accumulator": accumulator,
            },
            attributes=attributes,
        )

    @property
    def geometry(self) -> Geometry:
        """Layouts, strides, padding, dilations and groups."""
        return Geometry(
            self.input_layout.data,
            self.filter_layout.data,
            self.output_layout.data,
            tuple(self.strides.get_values()),
            tuple(self.pad_low.get_values()),
            tuple(self.pad_high.get_values()),
            tuple(self.dilations.get_values()),
            self.groups.value.data,
        )

    @property
    def types(self) -> dict[Role, TensorType[Attribute]]:
        """The types of input, filter and output, each an operand's or the result's."""
        values = (self.lhs, self.rhs, self.result)
        return {
            role: cast("TensorType[Attribute]", value.type)
            for role, value in zip(self.DIRECTION.roles, values, strict=True)
        }

    @property
    def windows(self) -> tuple[Window, ...]:
        """The window along each spatial dimension, in the order D, H, W."""
        return self.geometry.windows(self.types["filter"].get_shape())

    def verify_(self) -> None:
        if self.result.type != self.init.type:
            raise VerifyException(
                f"the result has type {self.result.type} but its init has {self.init.type}"
            )
        if self.accumulator == i32 and self.DIRECTION is not Direction.FPROP:
            raise VerifyException("only forward convolutions accumulate in i32")
        conv_verify.verify(self.geometry, self.types, self.accumulator)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        text = conv_assembly.parse(parser)
        return cls(text.lhs, text.rhs, text.init, text.geometry, text.accumulator, text.attributes)

    def print(self, printer: Printer) -> None:
        conv_assembly.print_operation(
            printer,
            conv_assembly.ConvText(
                self.lhs, self.rhs, self.init, self.geometry, self.accumulator, self.attributes
            ),
        )


@irdl_op_definition
class FpropOp(ConvOp):
    """The forward convolution, a cross-correlation (the filter is not flipped).

        Y[n, p, k] = init[n, p, k] + sum over taps r and channels c of the group of k:
                     X[n, p * stride + r * dilation - pad_low, c] * W[k, r, c]

    Shapes (in the default layouts, 2-D): X is N x H x W x C, W is K x R x S x C/G, Y and init are
    N x P x Q x K with P = (H + pad_low + pad_high - dilation * (R - 1) - 1) // stride + 1.
    With `accumulate(i32)` X holds unsigned bytes and W signed ones, both i8, and Y is i32.

        %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32)
               ins(%x, %w : tensor<2x50x50x8xf16>, tensor<16x3x3x8xf16>)
               outs(%init : tensor<2x25x25x16xf16>)
    """

    name = "conv.fprop"
    DIRECTION: ClassVar[Direction] = Direction.FPROP


@irdl_op_definition
class DgradOp(ConvOp):
    """The gradient of a forward convolution's input, which is also the transposed convolution.

        dX[n, h, c] = init[n, h, c] + sum over taps r and the output channels k of the group of c:
                      dY[n, p, k] * W[k, r, c]  for p with p * stride + r * dilation - pad_low = h

    Shapes (2-D): dY is N x P x Q x K, W is K x R x S x C/G, dX and init are N x H x W x C. H is
    not determined by P where the stride is above 1 (50 and 49 both give 25 at stride 2), so it is
    given by `init` and must be one for which the forward convolution infers P.

        %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32)
                ins(%dy, %w : tensor<2x25x25x16xf16>, tensor<16x3x3x8xf16>)
                outs(%init : tensor<2x50x50x8xf16>)
    """

    name = "conv.dgrad"
    DIRECTION: ClassVar[Direction] = Direction.DGRAD


@irdl_op_definition
class WgradOp(ConvOp):
    """The gradient of a forward convolution's filter.

        dW[k, r, c] = init[k, r, c] + sum over n and p:
                      X[n, p * stride + r * dilation - pad_low, c] * dY[n, p, k]

    Shapes (2-D): X is N x H x W x C, dY is N x P x Q x K, dW and init are K x R x S x C/G. R is
    given by `init` and must be one for which the forward convolution infers P.

        %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32)
                ins(%x, %dy : tensor<2x50x50x8xf16>, tensor<2x25x25x16xf16>)
                outs(%init : tensor<16x3x3x8xf16>)
    """

    name = "conv.wgrad"
    DIRECTION: ClassVar[Direction] = Direction.WGRAD


CONV_OPS: Mapping[Direction, type[ConvOp]] = {
    op.DIRECTION: op for op in (FpropOp, DgradOp, WgradOp)
}
"""The op of each direction."""

Conv = Dialect("conv", [*CONV_OPS.values(), ConstantOp], [BlobAttr])
