"""`convert-filter-to-channels-last`: both operands of a convolution contiguous along channels.

    rewrite: %y = conv ins(%x, %w)      -->  %t = transpose %w to [group, F, taps, C]
                                             %y = conv ins(%x, %t)

F are the filter's output channels, C its input channels, whatever the names: for the contraction
of a backward data convolution the roles of the convolution's own channels are exchanged.

Preconditions: one operand has windows, the other, the filter, none; every dimension of the filter
is one loop; the innermost dimension of the windowed operand is an input channel and the
innermost dimension of the filter is not. Then the products of one output element walk both
operands with stride 1, as vector loads and matrix instructions for other than 16-bit types want
it. A matrix product in convolution's clothing (all taps of bound 1) pays only where it is large
enough for a pass over the filter to vanish beside it: `LayoutRule`.

With `filter-layout=hwfc` the order is [group, taps, F, C].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.slices import sizes_of
from convir.dialects.linalg.moves import TransposeOp
from convir.passes.builders.kinds import WalkerOfKinds
from convir.passes.builders.structured_rebuild import rebuilt
from convir.passes.builders.tensor_builder import TensorBuilder, element_type_of
from convir.passes.manager import remarks
from convir.passes.manager.fixpoint import leaves_unchanged

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from convir.analysis.contraction import ContractionDims, Operand


_LAYOUTS: Final = ("fhwc", "hwfc")


@dataclass(frozen=True)
class LayoutRule:
    """When a transposed filter pays."""

    min_matmul_side: int = 384
    """All of M, N and K of a 1x1 convolution: below, the product reads either layout from cache
    and the transposition is a launch of its own. IREE's pass of this name has the same number."""


@dataclass(frozen=True)
class FilterPlan:
    """How to transpose the filter of one contraction."""

    dims: ContractionDims
    position: int
    """The filter's operand number, 0 or 1."""
    permutation: tuple[int, ...]
    """Dimension i of the transposed filter is dimension `permutation[i]` of the filter."""
    reason: str


def plan_filter(op: Operation, layout: str, rule: LayoutRule) -> FilterPlan | Refusal:
    """The transposition that `op`'s filter needs, or why it is left as it is."""
    dims = contraction_dims(op)
    if isinstance(dims, Refusal):
        return dims
    windowed = {window.operand for window in dims.windows}
    if len(windowed) != 1:
        return Refusal("both operands have windows" if windowed else "no operand has windows")
    (image,) = windowed
    filter_position = 1 - image
    weights = dims.inputs[filter_position]
    loops = [index.bare for index in weights.index]
    if None in loops:
        return Refusal("a dimension of its filter is not one loop")
    taps = {window.offset for window in dims.windows}
    channels = [loop for loop in dims.k if loop not in taps]
    if not channels:
        return Refusal("its filter has no input channels")
    if dims.inputs[image].index[-1].bare not in channels:
        return Refusal("the innermost dimension of its windowed operand is not an input channel")
    if loops[-1] in channels:
        return Refusal("its filter has its channels last")
    reason = _gain(dims, weights, taps, channels, rule)
    if isinstance(reason, Refusal):
        return reason
    permutation = _permutation(dims, [loop for loop in loops if loop is not None], taps, layout)
    return FilterPlan(dims, filter_position, permutation, reason)


def _gain(
    dims: ContractionDims,
    weights: Operand,
    taps: set[int],
    channels: list[int],
    rule: LayoutRule,
) -> str | Refusal:
    """Why a transposition pays."""
    run = f"channels were {_channel_stride(weights, channels)} elements apart in its filter"
    if not all(dims.is_unit(loop) for loop in taps):
        return run
    free = [loop for loop in dims.out.loops if loop not in dims.batch]
    of_filter = [loop for loop in free if loop in weights.loops]
    of_image = [loop for loop in free if loop not in weights.loops]
    for side, loops in (("M", of_image), ("N", of_filter), ("K", channels)):
        bounds = [dims.bounds[loop] for loop in loops]
        known = [bound for bound in bounds if bound is not None]
        if len(known) != len(bounds):
            return Refusal(f"it is a matrix product of dynamic {side}")
        if prod(known) < rule.min_matmul_side:
            return Refusal(
                f"it is a matrix product of {side} = {prod(known)}, below {rule.min_matmul_side}"
            )
    return run


def _channel_stride(weights: Operand, channels: list[int]) -> str:
    """The distance of neighbouring channels in memory, in elements."""
    innermost = max(dim for dim, index in enumerate(weights.index) if index.bare in channels)
    inner = weights.shape[innermost + 1 :]
    return "?" if DYNAMIC_INDEX in inner else str(prod(inner))


def _permutation(
    dims: ContractionDims, loops: list[int], taps: set[int], layout: str
) -> tuple[int, ...]:
    """Groups first, then F and taps as the layout says, channels last; each in its old order."""
    kinds = {"f": 1, "h": 2} if layout == "fhwc" else {"h": 1, "f": 2}

    def rank(dim: int) -> int:
        loop = loops[dim]
        if loop in dims.batch:
            return 0
        if loop in taps:
            return kinds["h"]
        return kinds["f"] if loop in dims.out.loops else max(kinds.values()) + 1

    return tuple(sorted(range(len(loops)), key=rank))


@dataclass(frozen=True)
class TransposeFilter(RewritePattern):
    """Transposes the filter of one contraction."""

    layout: str
    rule: LayoutRule = LayoutRule()

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite `op`, or say why not; ops that are no contractions are passed over."""
        plan = plan_filter(op, self.layout, self.rule)
        if isinstance(plan, Refusal):
            if not isinstance(contraction_dims(op), Refusal):
                remarks.refused(ConvertFilterToChannelsLastPass.name, op, plan.reason)
            return
        builder = TensorBuilder(rewriter, op)
        value = builder.drafted(lambda: _with_transposed_filter(plan, builder))
        if isinstance(value, Refusal):
            remarks.refused(ConvertFilterToChannelsLastPass.name, op, value.reason)
            return
        remarks.fired(ConvertFilterToChannelsLastPass.name, op, plan.reason)
        rewriter.replace(op, (), (value,))


def _with_transposed_filter(plan: FilterPlan, builder: TensorBuilder) -> SSAValue:
    """The contraction on the transposed filter."""
    view = plan.dims.view
    weights = builder.known(plan.dims.inputs[plan.position].value)
    sizes = sizes_of(weights)
    permuted = [sizes[dim] for dim in plan.permutation]
    empty = builder.uninitialised(element_type_of(weights), permuted)
    operands = list(view.operands)
    operands[plan.position] = builder.insert(TransposeOp.of(weights, empty, plan.permutation))
    maps = list(view.maps)
    old = maps[plan.position]
    results = tuple(old.results[dim] for dim in plan.permutation)
    maps[plan.position] = AffineMap(old.num_dims, old.num_symbols, results)
    return builder.insert(rebuilt(view, operands, maps))


@dataclass(frozen=True)
class ConvertFilterToChannelsLastPass(ModulePass):
    """Transposes filters so that the reduction walks both operands with stride 1."""

    name = "convert-filter-to-channels-last"

    filter_layout: str = "fhwc"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every convolution of the module that gains by it.

        Raises:
            PassFailedException: `filter-layout` is neither `fhwc` nor `hwfc`.
        """
        if self.filter_layout not in _LAYOUTS:
            known = " or ".join(_LAYOUTS)
            raise PassFailedException(f"filter-layout is {known}, not '{self.filter_layout}'")
        pattern = TransposeFilter(self.filter_layout)
        walker = WalkerOfKinds(pattern, apply_recursively=False, kinds=(LinalgStructuredOperation,))
        if not walker.rewrite_module(op):
            leaves_unchanged(op)
