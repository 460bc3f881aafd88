"""A backward data convolution whose filter is whole strides long, as one product and a shuffle.

With q * s taps at stride s, a block of s outputs along a dimension meets q elements of the source,
and each output of the block has q taps of its own. One dense convolution with q taps computes all
blocks, its columns the filter's and the places in a block

    T[n, j, f, p] += X[n, j + t, c] * W[f, s * t + p, c]
    Y[n, s * j + s - 1 - p, f] = T[n, j, f, p]

and the shuffle that puts the columns in their places is a transposition; Y is cut to its size.
Where windows touch and do not overlap, q is 1, and the convolution is a matrix product. It reads a
filter that was reversed as it lies before that, and the places are then in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir.affine import AffineMap

from convir.analysis.linear import LinearIndex
from convir.analysis.refusal import Refusal
from convir.analysis.scatter.placement import Placement
from convir.analysis.slices import is_encoded, size_of, sizes_of
from convir.analysis.structured import structured
from convir.analysis.values.zeros import fill_of
from convir.dialects.linalg.generics import rearranging
from convir.passes.builders.structured_rebuild import rebuilt
from convir.passes.builders.tensor_builder import element_type_of
from convir.passes.decompose_strided_dgrad.filter_read import filter_as_it_lies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue
    from xdsl.ir.affine import AffineExpr

    from convir.analysis.scatter.phases import ScatteredWindow
    from convir.analysis.scatter.placement import Digits
    from convir.analysis.slices import Size
    from convir.analysis.structured import Structured
    from convir.analysis.values.scalars import Constant
    from convir.passes.builders.tensor_builder import TensorBuilder
    from convir.passes.decompose_strided_dgrad.filter_read import FilterRead
    from convir.passes.decompose_strided_dgrad.match import ScatteredOperand


@dataclass(frozen=True)
class Blocks:
    """How the outputs of one scattered dimension lie in blocks."""

    size: int
    """Outputs of one block: the stride."""
    taps: int
    """Elements of the source that a block meets, one after the other."""
    count: int
    """How many blocks hold all outputs."""
    cut: int
    """Places in the first block before the first output."""
    base: int
    """The element that the first block meets first; may lie outside."""

    @property
    def reach(self) -> int:
        """How many elements of the source all blocks together meet."""
        return self.count + self.taps - 1


def blocks_of(window: ScatteredWindow) -> Blocks | None:
    """The blocks of a window; None where its taps are not whole strides.

    Output y and tap r meet element i where y + r + constant = offset + spacing * i; with
    y = size * j + p - cut and r = size * t + size - 1 - p, that is i = base + j + t.
    """
    size = window.spacing
    if window.stride != 1 or window.dilation != 1 or window.taps % size:
        return None
    cut = (size - 1 - window.offset + window.constant) % size
    base = (size - 1 - cut + window.constant - window.offset) // size
    count = -(-(window.outputs + cut) // size)
    return Blocks(size, window.taps // size, count, cut, base)


@dataclass(frozen=True)
class PixelShuffle:
    """One rewrite, fully decided."""

    operand: ScatteredOperand
    fill: SSAValue | Constant
    """What the init holds everywhere."""
    blocks: tuple[Blocks, ...]
    """Those of each split dimension."""
    filter: FilterRead
    """The filter as it lies."""

    @property
    def columns(self) -> tuple[int, ...]:
        """The loops of the filter that are columns, in the filter's order."""
        taps = [split.tap.loop for split in self.operand.split if split.tap is not None]
        own = (*_own(self.operand), *taps)
        return tuple(loop for loop in self.filter.loops if loop in own)

    @property
    def overlapping(self) -> bool:
        """Whether some block meets several elements: the places are then columns with the filter's
        own, and taps are left."""
        return any(block.taps > 1 for block in self.blocks)

    @property
    def places(self) -> int:
        """How many outputs a block of all dimensions has."""
        return prod(block.size for block in self.blocks)

    @property
    def result(self) -> tuple[int, ...]:
        """The loops of the product's result, in its order."""
        loops = (index.bare for index in self.operand.dims.out.index)
        found = tuple(loop for loop in loops if loop is not None)
        if self.overlapping:
            return found
        return (*(loop for loop in found if loop not in self.columns), *self.columns)

    @property
    def reason(self) -> str:
        """What is gained, for a remark."""
        taps = prod(block.taps for block in self.blocks)
        left = f" and {taps} left" if taps > 1 else ""
        return (
            f"{self.operand.counter}; one contraction with {self.places} taps as columns{left}, "
            "then a shuffle"
        )

    @property
    def replaced(self) -> tuple[Operation, ...]:
        """The contraction, and what computes each element of the result from one alone."""
        return (self.operand.dims.op, *(view.op for view in _unary_users(self.operand.dims.op)))

    def build(self, builder: TensorBuilder) -> SSAValue:
        """What takes the place of the last op's result."""
        value = _product(self, builder)
        for view in _unary_users(self.operand.dims.op):
            value = _elementwise(view, value, builder)
        value = _shuffled(self, value, builder)
        return builder.cast(value, self.replaced[-1].results[0].type)


def plan_shuffle(operand: ScatteredOperand) -> PixelShuffle | Refusal:
    """Whether a stride of taps is columns of one product; else why not."""
    blocks: list[Blocks] = []
    for split in operand.split:
        found = blocks_of(split.window) if split.tap is not None else None
        if found is None:
            return Refusal(f"its taps are not whole strides along dimension {split.dim}")
        blocks.append(found)
    fill = fill_of(operand.dims.out.value)
    if fill is None:
        return Refusal("the init has elements of its own")
    read = filter_as_it_lies(operand)
    if read is None:
        return Refusal("a dimension of the filter is not one loop")
    plan = PixelShuffle(operand, fill, tuple(blocks), read)
    if plan.overlapping and [type(_size(operand, loop)) for loop in _own(operand)] != [int]:
        return Refusal("the filter's columns are not one loop of a static size")
    return plan


def _own(operand: ScatteredOperand) -> tuple[int, ...]:
    """The loops of the filter and the result."""
    return operand.dims.n if operand.position == 0 else operand.dims.m


def _product(plan: PixelShuffle, builder: TensorBuilder) -> SSAValue:
    """The contraction with the places in a block as columns."""
    operand = plan.operand
    view, position = operand.dims.view, operand.position
    sizes = _sizes(plan)
    init = builder.fill(plan.fill, [sizes[loop] for loop in plan.result])
    image = list(view.input_maps[position].results)
    iterators = list(view.iterators)
    for split in operand.split:
        steps = {split.output: 1}
        if plan.overlapping and split.tap is not None:
            steps[split.tap.loop] = 1
        elif split.tap is not None:
            iterators[split.tap.loop] = "parallel"
        image[split.dim] = LinearIndex.of(steps).expression()
    loops = len(view.iterators)
    inputs = (_source(plan, builder), _filter(plan, builder))
    weights = _map(loops, [_bare(loop) for loop in plan.filter.loops])
    maps = (_map(loops, image), weights)
    if position == 1:
        inputs, maps = inputs[::-1], maps[::-1]
    maps = (*maps, _map(loops, [_bare(loop) for loop in plan.result]))
    return builder.insert(rebuilt(view, (*inputs, init), maps, iterators))


def _source(plan: PixelShuffle, builder: TensorBuilder) -> SSAValue:
    """The elements that the blocks meet, zeros beyond the ends."""
    operand = plan.operand
    value = builder.source_of(operand.scatter, frozenset(operand.kept))
    low, high = operand.margins
    starts: dict[int, int] = {}
    for split, block in zip(operand.split, plan.blocks, strict=True):
        low[split.dim] = max(0, -block.base)
        high[split.dim] = max(0, block.base + block.reach - split.window.size)
        starts[split.dim] = block.base + low[split.dim]
    value = builder.pad(value, low, high)
    sizes = sizes_of(value)
    read: list[Digits] = [(Placement.whole(size),) for size in sizes]
    for split, block in zip(operand.split, plan.blocks, strict=True):
        start, reach = starts[split.dim], block.reach
        read[split.dim] = (Placement(start, 1, reach, sizes[split.dim], reach),)
    return builder.gather(value, read)


def _filter(plan: PixelShuffle, builder: TensorBuilder) -> SSAValue:
    """The filter; where blocks overlap, the places follow its columns, in one dimension."""
    operand, value = plan.operand, plan.filter.value
    if not plan.overlapping:
        return value
    block_of = {
        split.tap.loop: block
        for split, block in zip(operand.split, plan.blocks, strict=True)
        if split.tap is not None
    }
    apart: list[Size] = []
    kept: list[int] = []
    place_of: dict[int, int] = {}
    mirrored: dict[int, int] = {}
    for dim, loop in enumerate(plan.filter.loops):
        kept.append(len(apart))
        size = size_of(value, dim)
        if (block := block_of.get(loop)) is not None:
            if loop in plan.filter.reversed:
                mirrored[len(apart)] = block.taps - 1
            apart.append(block.taps)
            place_of[loop] = len(apart)
            size = block.size
        apart.append(size)
    (column,) = _own(operand)
    at = plan.filter.loops.index(column) + 1
    order = [*kept[:at], *(place_of[loop] for loop in block_of), *kept[at:]]
    spread = builder.reshape(value, apart)
    empty = builder.uninitialised(element_type_of(value), [apart[dim] for dim in order])
    read = [
        LinearIndex.of({order.index(dim): -1}, mirrored[dim]).expression()
        if dim in mirrored
        else _bare(order.index(dim))
        for dim in range(len(apart))
    ]
    moved = builder.insert(rearranging(spread, read, empty, [_bare(i) for i in range(len(apart))]))
    sizes = _sizes(plan)
    return builder.reshape(moved, [sizes[loop] for loop in plan.filter.loops])


def _shuffled(plan: PixelShuffle, value: SSAValue, builder: TensorBuilder) -> SSAValue:
    """The blocks' places where they belong, and what is beyond the result cut off."""
    operand, sizes = plan.operand, _sizes(plan)
    split_of = {
        split.output: (split, block)
        for split, block in zip(operand.split, plan.blocks, strict=True)
    }
    taps = [split.tap.loop for split in operand.split if split.tap is not None]
    apart = [
        part
        for loop in plan.result
        for part in ((loop, *taps) if plan.overlapping and loop in _own(operand) else (loop,))
    ]
    for split, block in zip(operand.split, plan.blocks, strict=True):
        if split.tap is not None:
            sizes[split.tap.loop] = block.size
    if plan.overlapping:
        (column,) = _own(operand)
        sizes[column] = _size(operand, column)
        value = builder.reshape(value, [sizes[loop] for loop in apart])
    places: dict[int, LinearIndex] = {}
    out: list[Size] = []
    whole: list[Size] = []
    cut: list[Digits] = []
    for loop in (index.bare for index in operand.dims.out.index):
        if loop is None:
            continue
        places[loop] = LinearIndex.of({len(out): 1})
        out.append(sizes[loop])
        whole.append(sizes[loop])
        cut.append((Placement.whole(sizes[loop]),))
        if loop not in split_of:
            continue
        split, block = split_of[loop]
        if split.tap is not None:
            in_order = split.tap.loop in plan.filter.reversed
            step, first = (1, 0) if in_order else (-1, block.size - 1)
            places[split.tap.loop] = LinearIndex.of({len(out): step}, first)
            out.append(block.size)
            whole[-1] = block.count * block.size
            outputs = split.window.outputs
            cut[-1] = (Placement(block.cut, 1, outputs, whole[-1], outputs),)
    moving = [places[loop].bare for loop in apart if sizes[loop] != 1]
    if moving != sorted(place for place in moving if place is not None):
        empty = builder.uninitialised(element_type_of(value), out)
        read = [places[loop].expression() for loop in apart]
        dims = [_bare(dim) for dim in range(len(out))]
        value = builder.insert(rearranging(value, read, empty, dims))
    return builder.gather(builder.reshape(value, whole), cut)


def _unary_users(op: Operation) -> tuple[Structured, ...]:
    """The elementwise ops of one input that alone use the result of `op`, such as a cast.

    They run before the shuffle, which then moves what they narrow it to.
    """
    found: list[Structured] = []
    while True:
        user = op.results[0].get_user_of_unique_use()
        view = structured(user) if user is not None and user.parent is op.parent else None
        if view is None or not _is_unary(view):
            return tuple(found)
        found.append(view)
        op = view.op


def _is_unary(view: Structured) -> bool:
    if len(view.op.operands) != 2 or len(view.inits) != 1 or len(view.op.results) != 1:
        return False
    if any(is_encoded(operand) for operand in view.operands):
        return False
    if any(isinstance(inner, IndexOp) for inner in view.body.ops):
        return False
    identity = AffineMap.identity(len(view.iterators))
    return view.maps == (identity, identity) and view.body.args[1].first_use is None


def _elementwise(view: Structured, value: SSAValue, builder: TensorBuilder) -> SSAValue:
    """The op of `view` on a tensor of another shape."""
    sizes = sizes_of(value)
    init = builder.uninitialised(element_type_of(view.inits[0]), sizes)
    maps = (AffineMap.identity(len(sizes)),) * 2
    return builder.insert(rebuilt(view, (value, init), maps, ["parallel"] * len(sizes)))


def _sizes(plan: PixelShuffle) -> dict[int, Size]:
    """How often each loop of the product runs that is not a channel reduced over."""
    operand = plan.operand
    found: dict[int, Size] = {}
    for tensor in (operand.dims.out, operand.other):
        for dim, index in enumerate(tensor.index):
            if index.bare is not None:
                found[index.bare] = size_of(tensor.value, dim)
    for split, block in zip(operand.split, plan.blocks, strict=True):
        found[split.output] = block.count
        if split.tap is not None:
            found[split.tap.loop] = block.taps if plan.overlapping else block.size
    if plan.overlapping:
        (column,) = _own(operand)
        size = found[column]
        found[column] = size * plan.places if isinstance(size, int) else size
    return found


def _size(operand: ScatteredOperand, loop: int) -> Size:
    """The size of the result along a loop."""
    out = operand.dims.out
    dim = next(dim for dim, index in enumerate(out.index) if index.bare == loop)
    return size_of(out.value, dim)


def _bare(loop: int) -> AffineExpr:
    return LinearIndex.of({loop: 1}).expression()


def _map(loops: int, results: Sequence[AffineExpr]) -> AffineMap:
    return AffineMap(loops, 0, tuple(results))
