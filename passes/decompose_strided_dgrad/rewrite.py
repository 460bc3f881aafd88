"""A strided backward data convolution as one dense contraction for each phase.

Every phase reads its own slices of the source, padded once, and of the filter; its result is
inserted into the whole one, a stride apart. What no phase computes holds what the init held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.ir.affine import AffineMap

from convir.analysis.linear import LinearIndex
from convir.analysis.scatter.placement import Placement
from convir.analysis.slices import size_of, sizes_of, slice_view
from convir.analysis.values.zeros import fill_of
from convir.passes.builders.scattered_contraction import followers_of, holes_of, part_of_init
from convir.passes.builders.structured_rebuild import rebuilt
from convir.passes.builders.tensor_builder import element_type_of, extents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.analysis.scatter.elementwise import Elementwise
    from convir.analysis.scatter.phases import Phase
    from convir.analysis.scatter.placement import Digits
    from convir.analysis.slices import SliceView
    from convir.analysis.values.scalars import Constant
    from convir.passes.builders.tensor_builder import TensorBuilder
    from convir.passes.decompose_strided_dgrad.match import ScatteredOperand


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
    def replaced(self) -> list[Operation]:
        """The contraction and what follows it; the insertions take over the last one's result."""
        stores = [] if self.store is None else [self.store.op]
        return [self.operand.dims.op, *(step.view.op for step in self.followers), *stores]

    @property
    def whole(self) -> bool:
        """True if one contraction computes everything, and nothing is inserted."""
        return len(self.parts) == 1 and not self.untouched

    @property
    def reason(self) -> str:
        """What is gained, for a remark."""
        return f"{self.operand.counter}; {self._phases}"

    def build(self, builder: TensorBuilder) -> SSAValue:
        """What takes the place of the last op's result."""
        operand, last = self.operand, self.replaced[-1]
        source = builder.source_of(operand.scatter, frozenset(operand.kept))
        source = builder.pad(source, *operand.margins)
        values = [_contract(self, part, source, builder) for part in self.parts]
        for number, part in enumerate(self.parts):
            for step in part.followers:
                values[number] = builder.at(step.view.op).elementwise(step, values[number])
        builder = builder.at(last)
        value = values[0] if self.whole else _stored(self, values, builder)
        return builder.cast(value, last.results[0].type)

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


def plan_phases(operand: ScatteredOperand) -> Decomposition:
    """The decomposition of the contraction that reads `operand`; it is always possible."""
    fill = fill_of(operand.dims.out.value)
    combinations = operand.combinations
    computed = [phases for phases in combinations if all(phase.taps for phase in phases)]
    parts = tuple(_part(operand, phases, fill) for phases in computed)
    plan = Decomposition(operand, fill, parts, len(combinations) - len(computed), None)
    return replace(plan, store=_store(plan))


def _store(plan: Decomposition) -> SliceView | None:
    """The insertion that alone uses the result of `plan`, if phases can be inserted there."""
    last = plan.replaced[-1]
    user = last.results[0].get_user_of_unique_use()
    view = slice_view(user) if user is not None and user.parent is last.parent else None
    if view is None or view.dest is None or view.source is not last.results[0]:
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


def _contract(
    plan: Decomposition, part: Part, source: SSAValue, builder: TensorBuilder
) -> SSAValue:
    """The contraction of one phase."""
    operand, dims = plan.operand, plan.operand.dims
    image = builder.gather(source, operand.reads(part.phases, sizes_of(source)))
    weights = builder.gather(operand.other.value, _read_taps(operand, part))
    init = part_of_init(builder, dims.out.value, plan.fill, part.result)
    inputs = (image, weights) if operand.position == 0 else (weights, image)
    return builder.insert(rebuilt(dims.view, (*inputs, init), _maps(operand)))


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
