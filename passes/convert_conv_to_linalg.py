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
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from convir.dialects.conv import ConvOp
from convir.dialects.conv_geometry import ROLES, Direction
from convir.dialects.refusal import Refusal
from convir.dialects.zeros import is_zero
from convir.passes import remarks
from convir.passes.named_tensors import GROUP, NamedTensor, TensorBuilder, split_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.builder import Builder
    from xdsl.context import Context
    from xdsl.dialects.builtin import AnyFloat, ModuleOp
    from xdsl.ir import Block, Operation, SSAValue

    from convir.dialects.conv_geometry import Role
    from convir.dialects.layouts import Layout
    from convir.dialects.windows import Window


def static_but_for_the_batch(op: ConvOp) -> Refusal | None:
    """Why `op` cannot be converted, or None if it can."""
    for role, layout in zip(ROLES, op.geometry.layouts, strict=True):
        for letter, size in zip(layout.letters, op.types[role].get_shape(), strict=True):
            if size == DYNAMIC_INDEX and letter != "N":
                return Refusal(f"dimension {letter} of the {role} is dynamic")
    return None


def _names(role: Role, layout: Layout) -> tuple[str, ...]:
    """The names of an operand's dimensions: n c h0 h1, k c r0 r1 or n k p0 p1, as laid out."""
    outer, channel, spatial = {
        "input": ("n", "c", "h"),
        "filter": ("k", "c", "r"),
        "output": ("n", "k", "p"),
    }[role]
    names = {layout.outer: outer, "C": channel}
    names.update({letter: f"{spatial}{i}" for i, letter in enumerate(layout.spatial)})
    return tuple(names[letter] for letter in layout.letters)


_GROUPED_DIMENSION: Mapping[Role, str] = {"input": "c", "filter": "k", "output": "k"}
"""The dimension of each operand that holds all groups."""


@dataclass(frozen=True)
class _Walk:
    """A dimension that moves with two loops: `outer * stride + tap * dilation`."""

    outer: str
    tap: str
    stride: int
    dilation: int


@dataclass(frozen=True)
class _Result:
    """The result's dimensions with groups split, its element type, and the init as it is given."""

    names: tuple[str, ...]
    sizes: Mapping[str, int]
    element: AnyFloat
    init: NamedTensor


@dataclass(frozen=True)
class _Lowering:
    """One conv op being lowered: its operands with named, group-split dimensions."""

    op: ConvOp
    builder: TensorBuilder
    groups: int
    windows: tuple[Window, ...]
    lhs: NamedTensor
    rhs: NamedTensor
    result: _Result

    @staticmethod
    def of(op: ConvOp) -> _Lowering:
        """Name the dimensions of `op`'s operands and split the grouped ones."""
        builder, geometry = TensorBuilder(op), op.geometry
        layouts = dict(zip(ROLES, geometry.layouts, strict=True))
        lhs, rhs, init = (
            NamedTensor(value, _names(role, layouts[role]))
            for role, value in zip(op.DIRECTION.roles, (op.lhs, op.rhs, op.init), strict=True)
        )
        for operand in (lhs, rhs, init):
            builder.bind_dynamic(operand)
        groups = geometry.groups
        names, sizes = init.names, init.sizes
        if groups > 1:
            in_lhs, in_rhs, in_result = (_GROUPED_DIMENSION[role] for role in op.DIRECTION.roles)
            lhs = builder.split(lhs, in_lhs, groups)
            rhs = builder.split(rhs, in_rhs, groups)
            names = split_names(names, in_result)
            sizes = {**sizes, GROUP: groups, in_result: sizes[in_result] // groups}
        result = _Result(names, sizes, init.element, init)
        return _Lowering(op, builder, groups, op.windows, lhs, rhs, result)

    def contract(self, lhs: NamedTensor, rhs: NamedTensor, walks: Mapping[str, _Walk]) -> SSAValue:
        """Accumulate products into the init, round once, merge the groups.

        Loops are the result's dimensions, then the remaining ones of `rhs`; a dimension in
        `walks` is not a loop but moves with two.
        """
        reductions = tuple(name for name in rhs.names if name not in self.result.names)
        loops = (*self.result.names, *reductions)
        start = self._start()
        value = self.builder.generic(
            [(operand.value, _expressions(operand, loops, walks)) for operand in (lhs, rhs)],
            (start.value, _expressions(start, loops, walks)),
            len(self.result.names),
            len(reductions),
            _multiply_add,
        )
        total = self.builder.cast(NamedTensor(value, self.result.names), self.result.element)
        return total.value if self.groups == 1 else self.builder.merge_groups(total).value

    def _start(self) -> NamedTensor:
        """What the accumulation starts from."""
        result, accumulator = self.result, self.op.accumulator
        init, is_split = result.init, self.groups > 1
        if (is_split or init.element != accumulator) and is_zero(init.value):
            return self.builder.zeros(result.names, result.sizes, accumulator)
        if is_split:
            grouped = _GROUPED_DIMENSION[self.op.DIRECTION.roles[2]]
            init = self.builder.split(init, grouped, self.groups)
        return self.builder.cast(init, accumulator)

    def padded(self, source: NamedTensor) -> NamedTensor:
        """An input with its padding."""
        low = {f"h{i}": window.pad_low for i, window in enumerate(self.windows)}
        high = {f"h{i}": window.pad_high for i, window in enumerate(self.windows)}
        return self.builder.pad(source, low, high)

    def window_walks(self) -> dict[str, _Walk]:
        """How the (padded) input's dimensions move with output positions and taps."""
        return {
            f"h{i}": _Walk(f"p{i}", f"r{i}", window.stride, window.dilation)
            for i, window in enumerate(self.windows)
        }


def _expressions(
    operand: NamedTensor, loops: Sequence[str], walks: Mapping[str, _Walk]
) -> list[AffineExpr]:
    """The indexing map of an operand, as one expression per dimension."""

    def scaled(loop: str, step: int) -> AffineExpr:
        position = AffineExpr.dimension(loops.index(loop))
        return position if step == 1 else position * step

    expressions: list[AffineExpr] = []
    for name in operand.names:
        walk = walks.get(name)
        if walk is None:
            expressions.append(scaled(name, 1))
        else:
            expressions.append(scaled(walk.outer, walk.stride) + scaled(walk.tap, walk.dilation))
    return expressions


def _multiply_add(builder: Builder, block: Block) -> SSAValue:
    """The body of a contraction: factors are extended to the accumulator's type."""
    left, right, total = block.args
    factors = [
        value
        if value.type == total.type
        else builder.insert(arith.ExtFOp(value, total.type)).result
        for value in (left, right)
    ]
    product = builder.insert(arith.MulfOp(factors[0], factors[1]))
    return builder.insert(arith.AddfOp(total, product)).result


def _lower_windowed(lowering: _Lowering) -> SSAValue:
    """fprop and wgrad: windows over the padded input, which is the left operand of both."""
    padded = lowering.padded(lowering.lhs)
    return lowering.contract(padded, lowering.rhs, lowering.window_walks())


def _lower_dgrad(lowering: _Lowering) -> SSAValue:
    """dgrad: a dense correlation of the scattered output gradient with the flipped filter."""
    gradient, weights = lowering.lhs, lowering.rhs
    scattered = _scattered_gradient(lowering, gradient)
    if scattered is None:
        return lowering.op.init
    flipped = weights
    if any(window.taps > 1 for window in lowering.windows):
        flipped = _flipped_filter(lowering, weights)
    walks = {
        f"p{i}": _Walk(f"h{i}", f"r{i}", 1, window.dilation)
        for i, window in enumerate(lowering.windows)
    }
    return lowering.contract(scattered, flipped, walks)


def _scattered_gradient(lowering: _Lowering, gradient: NamedTensor) -> NamedTensor | None:
    """The output gradient with its holes and margins of zeros; None if nothing of it is used."""
    names = [f"p{i}" for i in range(len(lowering.windows))]
    scatters = {
        name: window.scatter(lowering.result.sizes[f"h{i}"], gradient.sizes[name])
        for i, (name, window) in enumerate(zip(names, lowering.windows, strict=True))
    }
    if any(scatter.count == 0 for scatter in scatters.values()):
        return None
    counts = {name: scatter.count for name, scatter in scatters.items()}
    offsets = {name: scatter.offset for name, scatter in scatters.items()}
    sizes = {name: scatter.size for name, scatter in scatters.items()}
    strides = {name: scatter.stride for name, scatter in scatters.items()}
    builder = lowering.builder
    kept = gradient
    if any(gradient.sizes[name] != count for name, count in counts.items()):
        first = {name: scatter.first for name, scatter in scatters.items()}
        kept = builder.slice(gradient, first, counts)
    if all(stride == 1 for stride in strides.values()):
        margins = {name: sizes[name] - offsets[name] - counts[name] for name in names}
        return builder.pad(kept, offsets, margins)
    zeros = builder.constant_zeros(kept.names, {**kept.sizes, **sizes}, kept.element)
    return builder.scatter(kept, zeros, offsets, strides)


def _flipped_filter(lowering: _Lowering, weights: NamedTensor) -> NamedTensor:
    """The filter with its taps reversed, and c and k in each other's place in the layout."""
    builder = lowering.builder
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
        remarks.fired(ConvertConvToLinalgPass.name, op, _reason(op))
        lower = _lower_dgrad if op.DIRECTION is Direction.DGRAD else _lower_windowed
        value = lower(_Lowering.of(op))
        value.name_hint = op.result.name_hint if value is not op.init else value.name_hint
        rewriter.replace(op, [], [value])


@dataclass(frozen=True)
class ConvertConvToLinalgPass(ModulePass):
    """Convert every conv op to linalg and tensor ops."""

    name: ClassVar[str] = "convert-conv-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        PatternRewriteWalker(ConvertConv(), apply_recursively=False).rewrite_module(op)
