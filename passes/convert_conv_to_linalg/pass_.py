"""`convert-conv-to-linalg`: a convolution as generics, pads and a scatter.

    rewrite: conv.fprop X, W  -->  pad X; Y[n,p,k]  += X[n, p * s + r * d, c] * W[k,r,c]
             conv.wgrad X, dY -->  pad X; dW[k,r,c] += X[n, p * s + r * d, c] * dY[n,p,k]
             conv.dgrad dY, W -->  scatter dY into zeros (or pad it, at stride 1); flip W;
                                   dX[n,h,c] += dY'[n, h + r * d, k] * W'[c,r,k]

Every product is accumulated in the accumulator type, starting from the init, extended if need be;
a zero init of another type or rank is filled anew. A result type narrower than the accumulator is
reached by one more generic. Groups become a loop of their own: the channels of all operands are
split by `tensor.expand_shape`, the result's are merged again. A filter of a single tap is not
flipped, and output gradients that only meet padding (where the padding reaches further than the
filter) are cropped, not scattered.

Preconditions: all sizes but the batch size are static.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from convir.analysis.refusal import Refusal
from convir.dialects.conv.geometry import ROLES, Direction
from convir.dialects.conv.ops import ConvOp
from convir.passes.builders.kinds import WalkerOfKinds
from convir.passes.convert_conv_to_linalg.contraction import ConvLowering, Walk
from convir.passes.convert_conv_to_linalg.named_tensors import NamedTensor
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from xdsl.builder import Builder
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, Operation, SSAValue

    from convir.dialects.conv.windows import Scatter


def static_but_for_the_batch(op: ConvOp) -> Refusal | None:
    """Why `op` cannot be converted, or None if it can."""
    for role, layout in zip(ROLES, op.geometry.layouts, strict=True):
        for letter, size in zip(layout.letters, op.types[role].get_shape(), strict=True):
            if size == DYNAMIC_INDEX and letter != "N":
                return Refusal(f"dimension {letter} of the {role} is dynamic")
    return None


def _lower_windowed(lowering: ConvLowering) -> SSAValue:
    """fprop and wgrad: windows over the padded input, which is the left operand of both."""
    windows = list(enumerate(lowering.windows))
    padded = lowering.builder.pad(
        lowering.lhs,
        {f"h{i}": window.pad_low for i, window in windows},
        {f"h{i}": window.pad_high for i, window in windows},
    )
    walks = {f"h{i}": Walk(f"p{i}", f"r{i}", w.stride, w.dilation) for i, w in windows}
    return lowering.contract(padded, lowering.rhs, walks)


def _scatters(op: ConvOp) -> tuple[Scatter, ...]:
    """How the output gradient of a dgrad is spread along each spatial dimension."""
    input_layout, _, output_layout = op.geometry.layouts
    sizes = op.types["input"].get_shape(), op.types["output"].get_shape()
    return tuple(
        window.scatter(sizes[0][h], sizes[1][p])
        for window, h, p in zip(
            op.windows, input_layout.spatial_axes, output_layout.spatial_axes, strict=True
        )
    )


def _lower_dgrad(lowering: ConvLowering) -> SSAValue:
    """dgrad: a dense correlation of the scattered output gradient with the flipped filter."""
    gradient = _scattered_gradient(lowering)
    flipped = lowering.rhs
    if any(window.taps > 1 for window in lowering.windows):
        flipped = _flipped_filter(lowering)
    walks = {
        f"p{i}": Walk(f"h{i}", f"r{i}", 1, window.dilation)
        for i, window in enumerate(lowering.windows)
    }
    return lowering.contract(gradient, flipped, walks)


def _scattered_gradient(lowering: ConvLowering) -> NamedTensor:
    """The output gradient with its holes and margins of zeros."""
    builder, gradient = lowering.builder, lowering.lhs
    scatters = {f"p{i}": scatter for i, scatter in enumerate(_scatters(lowering.op))}
    counts = {name: scatter.count for name, scatter in scatters.items()}
    offsets = {name: scatter.offset for name, scatter in scatters.items()}
    if any(gradient.sizes[name] != count for name, count in counts.items()):
        first = {name: scatter.first for name, scatter in scatters.items()}
        gradient = builder.slice(gradient, first, counts)
    if all(scatter.stride == 1 for scatter in scatters.values()):
        margins = {name: s.size - s.offset - s.count for name, s in scatters.items()}
        return builder.pad(gradient, offsets, margins)
    sizes = {name: scatter.size for name, scatter in scatters.items()}
    strides = {name: scatter.stride for name, scatter in scatters.items()}
    zeros = builder.constant_zeros(gradient.names, {**gradient.sizes, **sizes}, gradient.element)
    return builder.scatter(gradient, zeros, offsets, strides)


def _flipped_filter(lowering: ConvLowering) -> NamedTensor:
    """The filter with its taps reversed, and c and k in each other's place in the layout."""
    builder, weights = lowering.builder, lowering.rhs
    swap = {"c": "k", "k": "c"}
    names = tuple(swap.get(name, name) for name in weights.names)
    last_taps = {
        f"r{i}": builder.index(window.taps - 1)
        for i, window in enumerate(lowering.windows)
        if window.taps > 1
    }
    empty = builder.empty(names, weights.sizes, weights.element)

    def read_reversed(body: Builder, block: Block) -> SSAValue:
        indices: list[SSAValue] = []
        for name in weights.names:
            position = body.insert(linalg.ops.IndexOp(names.index(name))).result
            if name in last_taps:
                position = body.insert(arith.SubiOp(last_taps[name], position)).result
            indices.append(position)
        return body.insert(tensor.ExtractOp(weights.value, indices, weights.element)).result

    identity = [AffineExpr.dimension(axis) for axis in range(len(names))]
    value = builder.generic([], (empty.value, identity), len(names), 0, read_reversed)
    return NamedTensor(value, names)


def _reason(op: ConvOp) -> str:
    """What becomes of `op`, for the remark."""
    taps = "x".join(str(window.taps) for window in op.windows)
    contraction = f"a contraction with {taps} windows"
    if op.DIRECTION is not Direction.DGRAD or all(w.stride == 1 for w in op.windows):
        return contraction
    strides = "x".join(str(window.stride) for window in op.windows)
    return f"a scatter with stride {strides}, then {contraction}"


@dataclass(frozen=True)
class ConvertConv(RewritePattern):
    """Replace one conv op of any direction."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fires where the op is static but for its batch size."""
        if not isinstance(op, ConvOp):
            return
        refusal = static_but_for_the_batch(op)
        if refusal is not None:
            remarks.refused(ConvertConvToLinalgPass.name, op, refusal.reason)
            return
        if op.DIRECTION is Direction.DGRAD and any(s.count == 0 for s in _scatters(op)):
            remarks.fired(ConvertConvToLinalgPass.name, op, "no output gradient reaches the input")
            rewriter.replace(op, [], [op.init])
            return
        remarks.fired(ConvertConvToLinalgPass.name, op, _reason(op))
        lower = _lower_dgrad if op.DIRECTION is Direction.DGRAD else _lower_windowed
        value = lower(ConvLowering.of(op))
        value.name_hint = op.result.name_hint
        rewriter.replace(op, [], [value])


@dataclass(frozen=True)
class ConvertConvToLinalgPass(ModulePass):
    """Convert every conv op to linalg and tensor ops."""

    name = "convert-conv-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        walker = WalkerOfKinds(ConvertConv(), apply_recursively=False, kinds=(ConvOp,))
        walker.rewrite_module(op)
