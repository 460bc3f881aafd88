"""A backward data convolution with as many taps as its stride, as one product and a shuffle.

Where windows touch and do not overlap, every element of the source makes a block of s outputs
along each dimension, each with a tap of its own. The taps are then columns of one matrix product

    T[n, j, f, r] += X[n, j, c] * W[f, r, c]        Y[n, s * j + s - 1 - r, f] = T[n, j, f, r]

and the shuffle that puts the columns in their places is a transposition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir.affine import AffineMap

from convir.analysis.linear import LinearIndex
from convir.analysis.refusal import Refusal
from convir.analysis.slices import size_of, sizes_of
from convir.analysis.values.zeros import fill_of
from convir.dialects.linalg.generics import rearranging
from convir.passes.builders.structured_rebuild import rebuilt
from convir.passes.builders.tensor_builder import element_type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue
    from xdsl.ir.affine import AffineExpr

    from convir.analysis.slices import Size
    from convir.analysis.values.scalars import Constant
    from convir.passes.builders.tensor_builder import TensorBuilder
    from convir.passes.decompose_strided_dgrad.match import ScatteredOperand, SplitDim


@dataclass(frozen=True)
class PixelShuffle:
    """One rewrite, fully decided."""

    operand: ScatteredOperand
    fill: SSAValue | Constant
    """What the init holds everywhere."""
    columns: tuple[int, ...]
    """The loops of the filter that are columns, its taps among them, in the filter's order."""

    @property
    def rows(self) -> tuple[int, ...]:
        """The other loops of the result, in its order."""
        loops = (index.bare for index in self.operand.dims.out.index)
        return tuple(loop for loop in loops if loop is not None and loop not in self.columns)

    @property
    def reason(self) -> str:
        """What is gained, for a remark."""
        count = len(self.operand.combinations)
        return (
            f"{self.operand.counter}; one contraction with {count} taps as columns, then a shuffle"
        )

    @property
    def replaced(self) -> tuple[Operation]:
        """The contraction."""
        return (self.operand.dims.op,)

    def build(self, builder: TensorBuilder) -> SSAValue:
        """What takes the place of the contraction's result."""
        dims = self.operand.dims
        value = _shuffled(self, _product(self, builder), builder)
        value = builder.reshape(value, sizes_of(dims.out.value))
        return builder.cast(value, dims.op.results[0].type)


def plan_shuffle(operand: ScatteredOperand) -> PixelShuffle | Refusal:
    """Whether every tap is a column of one product; else why not."""
    for split in operand.split:
        refusal = _overlap(operand, split)
        if refusal is not None:
            return refusal
    fill = fill_of(operand.dims.out.value)
    if fill is None:
        return Refusal("the init has elements of its own")
    if any(index.bare is None for index in operand.other.index):
        return Refusal("a dimension of the filter is not one loop")
    of_filter = operand.dims.n if operand.position == 0 else operand.dims.m
    taps = [split.tap.loop for split in operand.split if split.tap is not None]
    loops = (index.bare for index in operand.other.index)
    columns = tuple(loop for loop in loops if loop is not None and loop in (*of_filter, *taps))
    return PixelShuffle(operand, fill, columns)


def _overlap(operand: ScatteredOperand, split: SplitDim) -> Refusal | None:
    """Why the windows over one dimension do not lie side by side."""
    window, where = split.window, f"along dimension {split.dim}"
    if split.tap is None or window.stride != 1 or window.taps != window.spacing:
        return Refusal(f"there are not as many taps as the stride {where}")
    if window.outputs % window.period:
        return Refusal(f"a block is cut off {where}")
    last = window.taps - 1
    reversed_taps = all(
        (phase.taps, phase.first_tap, phase.base) == (1, last - phase.first, window.phases[0].base)
        for phase in window.phases
    )
    return None if reversed_taps else Refusal(f"blocks are shifted {where}")


def _product(plan: PixelShuffle, builder: TensorBuilder) -> SSAValue:
    """The contraction with the taps as columns: the rows' dimensions, then the columns'."""
    operand = plan.operand
    view, position = operand.dims.view, operand.position
    source = builder.source_of(operand.scatter, frozenset(operand.kept))
    source = builder.pad(source, *operand.margins)
    source = builder.gather(source, operand.reads(operand.combinations[0], sizes_of(source)))
    init = builder.fill(plan.fill, [_size(plan, loop) for loop in (*plan.rows, *plan.columns)])
    image = list(view.input_maps[position].results)
    for split in operand.split:
        image[split.dim] = _bare(split.output)
    loops = len(view.iterators)
    own, result = _map(loops, image), [_bare(loop) for loop in (*plan.rows, *plan.columns)]
    other = view.input_maps[1 - position]
    inputs, maps = (source, operand.other.value), (own, other)
    if position == 1:
        inputs, maps = inputs[::-1], maps[::-1]
    iterators = [
        "parallel" if loop in plan.columns else kind for loop, kind in enumerate(view.iterators)
    ]
    maps = (*maps, _map(loops, result))
    return builder.insert(rebuilt(view, (*inputs, init), maps, iterators))


def _shuffled(plan: PixelShuffle, value: SSAValue, builder: TensorBuilder) -> SSAValue:
    """The result with a dimension for the block and one for the output in it, where it is split."""
    splits = {split.output: split for split in plan.operand.split}
    places: dict[int, AffineExpr] = {}
    sizes: list[Size] = []
    for (loop,) in (index.loops for index in plan.operand.dims.out.index):
        places[loop] = _bare(len(sizes))
        sizes.append(_size(plan, loop))
        split = splits.get(loop)
        if split is not None and split.tap is not None:
            taps = split.window.taps
            places[split.tap.loop] = LinearIndex.of({len(sizes): -1}, taps - 1).expression()
            sizes.append(taps)
    empty = builder.uninitialised(element_type_of(value), sizes)
    read = [places[loop] for loop in (*plan.rows, *plan.columns)]
    out = [_bare(dim) for dim in range(len(sizes))]
    return builder.insert(rearranging(value, read, empty, out))


def _size(plan: PixelShuffle, loop: int) -> Size:
    """How often a loop of the product runs."""
    for split in plan.operand.split:
        if split.output == loop:
            return split.window.outputs // split.window.period
        if split.tap is not None and split.tap.loop == loop:
            return split.window.taps
    out = plan.operand.dims.out
    dim = next(dim for dim, index in enumerate(out.index) if index.bare == loop)
    return size_of(out.value, dim)


def _bare(loop: int) -> AffineExpr:
    return LinearIndex.of({loop: 1}).expression()


def _map(loops: int, results: Sequence[AffineExpr]) -> AffineMap:
    return AffineMap(loops, 0, tuple(results))
