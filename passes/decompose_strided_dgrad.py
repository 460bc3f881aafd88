"""`decompose-strided-dgrad`: a strided backward data convolution is several dense ones.

    rewrite: %s = insert_slice %x into zeros [o] [n] [s]       %p  = pad %x with zeros
             %c = contraction(%s, %w) windows of K taps   -->  for each phase a of s:
             %r = elementwise(%c)                                %ca = contraction(slice of %p,
                                                                         slice of %w: its taps)
                                                                 %ra = elementwise(%ca)
                                                                 %y  = insert_slice %ra into %y
                                                                         [a] [.] [s]

Between the elements of the scattered source are zeros. Outputs that are congruent modulo the
stride, one phase, meet elements with the same taps, evenly spaced in the filter; over the source
they are a dense contraction with that subset of the taps (`convir.dialects.phases`). Several
scattered dimensions multiply. A phase without taps is not computed: it holds what the init held,
after the elementwise ops that follow. No product meets a hole; padding is multiplied as before.

Preconditions: the operand traces to an `insert_slice` into zeros, through slices and reshapes; the
reader is a contraction; a scattered dimension of static sizes is read through a window of several
taps, whose two loops index no other dimension of the operand, and whose tap indexes one dimension
of the filter alone. Holes count as zero: 0 · Inf is dropped.

It fires where `phase_costs` says that the phases are cheaper than the scatter and a contraction
that multiplies its holes; with the option `force` always.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final, cast

from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.rewriter import InsertPoint

from convir.dialects.cost import size_in_bytes
from convir.dialects.linear import LinearIndex
from convir.dialects.placement import Placement
from convir.dialects.refusal import Refusal
from convir.dialects.scatter import LostScatter, scatter_of
from convir.dialects.slices import size_of, slice_view
from convir.dialects.structured import structured
from convir.dialects.zeros import fill_of
from convir.passes import remarks
from convir.passes.phase_costs import ASSUMED_SIZE, DEFAULT_COSTS, MAX_PHASES, Product
from convir.passes.scattered_contraction import (
    contraction_of,
    erase_unused,
    followers_of,
    holes_of,
    part_of_init,
    report_unread,
    strided_insertions,
)
from convir.passes.scattered_windows import read_scattered
from convir.passes.structured_rebuild import rebuilt
from convir.passes.tensor_builder import (
    TensorBuilder,
    element_counts,
    element_type_of,
    extents,
    sizes_of,
    tensor_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from convir.dialects.elementwise import Elementwise
    from convir.dialects.phases import Phase
    from convir.dialects.placement import Digits
    from convir.dialects.scalars import Constant
    from convir.dialects.scatter import Scatter
    from convir.dialects.slices import Size, SliceView
    from convir.passes.phase_costs import PhaseCosts
    from convir.passes.scattered_windows import ScatteredOperand

PASS: Final = "decompose-strided-dgrad"


@dataclass(frozen=True)
class Part:
    """One phase of each split dimension: the elements of the result with the same taps."""

    phases: tuple[Phase, ...]
    """In the order of the split dimensions."""
    result: tuple[Digits, ...]
    """The elements of each dimension of the contraction's result."""
    followers: tuple[Elementwise, ...]
    """The elementwise ops after the contraction that run before the insertion from now on."""

    @property
    def stored(self) -> tuple[Digits, ...]:
        """The elements of each dimension of the last op's result."""
        return self.followers[-1].result if self.followers else self.result

    @property
    def taps(self) -> int:
        """How many taps are left."""
        return prod(phase.taps for phase in self.phases)


@dataclass(frozen=True)
class Decomposition:
    """One rewrite, fully decided."""

    operand: ScatteredOperand
    fill: SSAValue | Constant | None
    """What the init holds everywhere; None if it is not uniform."""
    parts: tuple[Part, ...]
    """What is computed: the phases that have taps."""
    untouched: int
    """How many phases have none."""
    store: SliceView | None
    """An insertion of all phases behind them, which each phase's own insertion takes in."""

    @property
    def followers(self) -> tuple[Elementwise, ...]:
        """The elementwise ops that run on each phase, as the first phase has them."""
        return self.parts[0].followers if self.parts else ()

    @property
    def last(self) -> Operation:
        """The op whose result the insertions take over."""
        if self.store is not None:
            return self.store.op
        return self.followers[-1].view.op if self.followers else self.operand.dims.op

    @property
    def whole(self) -> bool:
        """True if one contraction computes everything, and nothing is inserted."""
        return len(self.parts) == 1 and not self.untouched

    @property
    def reason(self) -> str:
        """What is gained, for a remark."""
        windows = [split.window for split in self.operand.split]
        pairs = prod(window.outputs * window.taps for window in windows)
        left = prod(window.products for window in windows)
        outside = left - prod(window.products_on_elements for window in windows)
        flops = self.operand.dims.flops
        gain = f"{pairs / left:.4g}x fewer" if left else "none left"
        if flops is not None:
            counted = f"{flops} -> {flops * left // pairs} FLOPs ({gain})"
            padding = f"{flops * outside // pairs} on padding"
        else:
            counted = f"{gain} FLOPs"
            padding = f"{outside / max(1, left):.0%} on padding"
        holes = "none on a hole" if not self.operand.kept else _kept(self.operand.kept)
        return f"{counted}, {holes}, {padding}; {self._phases}"

    @property
    def _phases(self) -> str:
        taps = sorted({part.taps for part in self.parts})
        untouched = f"{self.untouched} of no tap" if self.untouched else ""
        if not taps:
            return f"{untouched} hold the init" if untouched else "no phase is left"
        counts = str(taps[0]) if len(taps) == 1 else f"{taps[0]} to {taps[-1]}"
        noun = "phase" if len(self.parts) == 1 else "phases"
        computed = f"{len(self.parts)} {noun} of {counts} tap{'' if taps == [1] else 's'}"
        return f"{computed} and {untouched}" if untouched else computed


def _kept(kept: dict[int, str]) -> str:
    """What still multiplies holes."""
    return "; ".join(f"but dimension {dim} keeps its holes: {kept[dim]}" for dim in kept)


def plan_decomposition(
    op: Operation, position: int, scatter: Scatter, costs: PhaseCosts | None
) -> Decomposition | Refusal:
    """Decide how the contraction `op` is split by the phases of its input number `position`.

    Args:
        op: what reads the scatter.
        position: 0 or 1, the scattered input.
        scatter: that input.
        costs: the rates that decide whether it pays; None if it is rewritten whatever it costs.
    """
    dims = contraction_of(op, scatter)
    if isinstance(dims, Refusal):
        return dims
    operand = read_scattered(dims, position, scatter)
    if isinstance(operand, Refusal):
        return Refusal(f"in {op.name}, which reads it, {operand}")
    combinations = list(product(*(split.window.phases for split in operand.split)))
    computed = [phases for phases in combinations if all(phase.taps for phase in phases)]
    if costs is not None:
        refusal = _too_dear(operand, computed, costs)
        if refusal is not None:
            return refusal
    fill = fill_of(dims.out.value)
    parts = tuple(_part(operand, phases, fill) for phases in computed)
    plan = Decomposition(operand, fill, parts, len(combinations) - len(computed), None)
    return replace(plan, store=_store(plan))


def _store(plan: Decomposition) -> SliceView | None:
    """The insertion that alone uses the result of `plan`, if phases can be inserted there."""
    user = plan.last.results[0].get_user_of_unique_use()
    view = slice_view(user) if user is not None and user.parent is plan.last.parent else None
    if view is None or view.dest is None or view.source is not plan.last.results[0]:
        return None
    if plan.whole or view.dropped or None in (*view.offsets, *view.strides):
        return None
    if not plan.untouched:
        return view
    hole = plan.followers[-1].hole if plan.followers else plan.fill
    return view if hole is not None and fill_of(view.dest) == hole else None


def _part(
    operand: ScatteredOperand,
    phases: tuple[Phase, ...],
    fill: SSAValue | Constant | None,
) -> Part:
    dims = operand.dims
    result: list[Digits] = [
        (Placement.whole(size_of(dims.out.value, dim)),) for dim in range(len(dims.out.index))
    ]
    for split, phase in zip(operand.split, phases, strict=True):
        outputs = split.window.outputs
        # A dimension of one element has no distance; all others have one and the same stride.
        stride = 1 if outputs == 1 else split.window.period
        dim = next(i for i, index in enumerate(dims.out.index) if index.bare == split.output)
        result[dim] = (Placement(phase.first, stride, phase.count, outputs, phase.count),)
    return Part(phases, tuple(result), followers_of(dims.op, tuple(result), fill))


def _too_dear(
    operand: ScatteredOperand, computed: Sequence[tuple[Phase, ...]], costs: PhaseCosts
) -> Refusal | None:
    """Why scatter and holes are cheaper than the phases, if they are."""
    if len(computed) > MAX_PHASES:
        return Refusal(f"it has {len(computed)} phases, more than {MAX_PHASES}")
    element_type = element_type_of(operand.operand.value)
    scattered = size_in_bytes(operand.operand.value.type, ASSUMED_SIZE)
    holes_us = costs.scatter_us(scattered) + costs.products_us([_product(operand)], element_type)
    phases_us = costs.products_us([_product(operand, p) for p in computed], element_type)
    if phases_us < holes_us:
        return None
    return Refusal(
        f"its {len(computed)} phases take {phases_us:.1f} us, the scatter and its holes"
        f" {holes_us:.1f} us"
    )


def _product(operand: ScatteredOperand, phases: tuple[Phase, ...] = ()) -> Product:
    """The contraction of one phase as a matrix product, or the whole one with its holes."""
    dims = operand.dims
    bounds = [ASSUMED_SIZE if bound is None else bound for bound in dims.bounds]
    for split, phase in zip(operand.split, phases, strict=False):
        bounds[split.output] = phase.count
        if split.tap is not None:
            bounds[split.tap.loop] = phase.taps
    rows, columns = (prod(bounds[loop] for loop in loops) for loops in (dims.m, dims.n))
    if operand.position == 1:
        rows, columns = columns, rows
    depth, groups = (prod(bounds[loop] for loop in loops) for loops in (dims.k, dims.batch))
    return Product(rows, columns, depth, groups)


@dataclass(frozen=True)
class DecomposeContraction(RewritePattern):
    """Contract the source of a scatter once for each phase."""

    costs: PhaseCosts | None
    decided: set[Operation] = field(default_factory=set["Operation"])
    """The ops of every scatter that a contraction reads."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite `op` if it is a contraction of a scatter with windows."""
        view = structured(op)
        if view is None or all(iterator == "parallel" for iterator in view.iterators):
            return
        for position, value in enumerate(view.inputs):
            scatter = scatter_of(value)
            if isinstance(scatter, LostScatter):
                self.decided.update(scatter.path)
                remarks.refused(PASS, scatter.op, scatter.reason)
            if isinstance(scatter, Refusal):
                continue
            self.decided.update(scatter.path)
            if not scatter.strided:
                continue
            plan = plan_decomposition(op, position, scatter, self.costs)
            if isinstance(plan, Refusal):
                remarks.refused(PASS, scatter.op, plan.reason)
                continue
            remarks.fired(PASS, scatter.op, plan.reason)
            rewrite(plan, rewriter)
            return


def rewrite(plan: Decomposition, rewriter: PatternRewriter) -> None:
    """Carry out `plan`. Every new op stands where the op it replaces stood."""
    operand, last = plan.operand, plan.last
    op = operand.dims.op
    builder = TensorBuilder(rewriter, InsertPoint.before(op), op)
    source = builder.source_of(operand.scatter, frozenset(operand.kept))
    low, high = _margins(operand)
    source = builder.pad(source, low, high)
    values = [_contract(plan, part, source, builder) for part in plan.parts]
    for number, part in enumerate(plan.parts):
        for follower in part.followers:
            step = follower.view.op
            step_builder = TensorBuilder(rewriter, InsertPoint.before(step), step)
            values[number] = step_builder.elementwise(follower, values[number])
    builder = TensorBuilder(rewriter, InsertPoint.before(last), last)
    value = values[0] if plan.whole else _stored(plan, values, builder)
    value = builder.cast(value, last.results[0].type)
    value.name_hint = last.results[0].name_hint
    rewriter.replace_all_uses_with(last.results[0], value)
    stores = [] if plan.store is None else [plan.store.op]
    replaced = [op, *(follower.view.op for follower in plan.followers), *stores]
    erase_unused(rewriter, [*reversed(replaced), *reversed(operand.scatter.path)])


def _margins(operand: ScatteredOperand) -> tuple[list[int], list[int]]:
    """The zeros before and after each dimension of the source that some phase reads."""
    margins = [(0, 0)] * len(operand.operand.index)
    for dim, margin in operand.padded.items():
        margins[dim] = margin
    for split in operand.split:
        margins[split.dim] = split.window.margins
    return [before for before, _ in margins], [after for _, after in margins]


def _contract(
    plan: Decomposition, part: Part, source: SSAValue, builder: TensorBuilder
) -> SSAValue:
    """The contraction of one phase."""
    operand, dims = plan.operand, plan.operand.dims
    image = builder.gather(source, _read_source(operand, part, sizes_of(source)))
    weights = builder.gather(operand.other.value, _read_taps(operand, part))
    init = part_of_init(builder, dims.out.value, plan.fill, part.result)
    inputs = (image, weights) if operand.position == 0 else (weights, image)
    result_type = tensor_type(element_type_of(init), element_counts(part.result))
    return builder.insert(rebuilt(dims.view, (*inputs, init), result_type, _maps(operand)))


def _read_source(
    operand: ScatteredOperand, part: Part, sizes: Sequence[Size]
) -> tuple[Digits, ...]:
    """What a phase reads of each dimension of the padded source."""
    read: list[Digits] = [(Placement.whole(size),) for size in sizes]
    for split, phase in zip(operand.split, part.phases, strict=True):
        span, before = split.window.span(phase), split.window.margins[0]
        extent, count = sizes[split.dim], len(span)
        read[split.dim] = (Placement(span.start + before, 1, count, extent, count),)
    return tuple(read)


def _read_taps(operand: ScatteredOperand, part: Part) -> tuple[Digits, ...]:
    """What a phase reads of each dimension of the filter."""
    sizes = sizes_of(operand.other.value)
    read: list[Digits] = [(Placement.whole(size),) for size in sizes]
    for split, phase in zip(operand.split, part.phases, strict=True):
        tap = split.tap
        if tap is None:
            continue
        offset = tap.first + tap.step * phase.first_tap
        stride = 1 if phase.taps == 1 else tap.step * split.window.tap_period
        read[tap.dim] = (Placement(offset, stride, phase.taps, sizes[tap.dim], phase.taps),)
    return tuple(read)


def _maps(operand: ScatteredOperand) -> tuple[AffineMap, AffineMap, AffineMap]:
    """The indexing maps of every phase's contraction."""
    view = operand.dims.view
    image = list(view.input_maps[operand.position].results)
    weights = list(view.input_maps[1 - operand.position].results)
    for split in operand.split:
        steps = {split.output: split.window.source_stride}
        if split.tap is not None:
            steps[split.tap.loop] = split.window.source_dilation
            weights[split.tap.dim] = LinearIndex.of({split.tap.loop: 1}).expression()
        image[split.dim] = LinearIndex.of(steps).expression()
    loops = len(view.iterators)
    own, other = AffineMap(loops, 0, tuple(image)), AffineMap(loops, 0, tuple(weights))
    pair = (own, other) if operand.position == 0 else (other, own)
    return (*pair, view.init_maps[0])


def _stored(plan: Decomposition, values: Sequence[SSAValue], builder: TensorBuilder) -> SSAValue:
    """The results of all phases, side by side."""
    value = _destination(plan, values, builder)
    for part, computed in zip(plan.parts, values, strict=True):
        placed = part.stored if plan.store is None else _inside(part.stored, plan.store)
        value = builder.scatter(computed, value, placed)
    return value


def _destination(
    plan: Decomposition, values: Sequence[SSAValue], builder: TensorBuilder
) -> SSAValue:
    """What the phases are inserted into."""
    if plan.store is not None and plan.store.dest is not None:
        return plan.store.dest
    init = plan.operand.dims.out.value
    result = plan.parts[0].stored if plan.parts else _whole(init)
    if plan.untouched or plan.fill is None:
        return holes_of(builder, init, plan.fill, plan.followers, result)
    return builder.uninitialised(element_type_of(values[0]), extents(result))


def _inside(part: tuple[Digits, ...], store: SliceView) -> tuple[Digits, ...]:
    """Where a part of what `store` inserts lies in the destination."""
    placed: list[Digits] = []
    for dim, (inner,) in enumerate(part):
        offset, stride = store.mixed_offsets[dim], store.mixed_strides[dim]
        extent = size_of(store.result, dim)
        if inner.covers:
            placed.append((replace(inner, offset=offset, stride=stride, extent=extent),))
            continue
        numbers = (offset, stride, inner.offset, inner.stride)
        start, step, first, period = (cast("int", number) for number in numbers)
        moved = replace(inner, offset=start + step * first, stride=step * period, extent=extent)
        placed.append((moved,))
    return tuple(placed)


def _whole(value: SSAValue) -> tuple[Digits, ...]:
    return tuple((Placement.whole(size),) for size in sizes_of(value))


@dataclass(frozen=True)
class DecomposeStridedDgradPass(ModulePass):
    """Computes strided backward data convolutions phase by phase, without their holes."""

    name = PASS

    force: bool = False
    """Whatever it costs."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        scatters = strided_insertions(op)
        pattern = DecomposeContraction(None if self.force else DEFAULT_COSTS)
        PatternRewriteWalker(pattern).rewrite_module(op)
        report_unread(PASS, scatters, pattern.decided)
