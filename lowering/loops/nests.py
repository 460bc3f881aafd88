"""Loop nests of a kernel: which elements are written, in what order, by whom.

A kernel becomes one function per piece of its results, to be launched one after the other. Each
takes the kernel's inputs and outputs as memrefs and a range of its outermost loop, so that a
launch can be split between threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, inf, prod
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.builder import Builder
from xdsl.dialects import func, memref, scf, tensor
from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from convir.analysis.slices import index_of, slice_view
from convir.analysis.structured import structured
from convir.lowering.buffers.buffer_type import dense_memref
from convir.lowering.loops.crossing_reads import crossing_dim
from convir.lowering.loops.evaluate import Evaluator, static_shape
from convir.lowering.loops.indices import Index, IndexBuilder
from convir.lowering.loops.tensor_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from convir.analysis.slices import SliceView
    from convir.dialects.kernel import ops as kernel

RANGE_ATTR = "convir.range"
"""On a loop function: the number of iterations of its outermost loop, an i64."""

INNER_ELEMENTS = 256
"""What a CPU writes in one outer iteration: enough elements to pay for taking its position apart,
few enough to leave every thread some."""


BLOCKS = (16, 14, 20, 12, 10, 8)
"""Neighbours that are read at a time where a kernel writes along another dimension than it reads,
the best first: so many cache lines are written to in turns."""
NARROW_BLOCKS = (8, 7, 6, 5)
L1_BYTES = 48 * 1024
"""Of a first-level cache, if nothing else is known."""
WAY_BYTES = 4096
"""Of a way of such a cache: lines so far apart share a set."""
WRITTEN_SHARE = 0.75
"""Of the ways: lines that are written, beside those that are read."""

MAX_INSERTIONS = 32
"""So many insertions into one tensor are tested for each element; of more, the last are written
over what is there."""


_Store: TypeAlias = "Callable[[list[Index], SSAValue], None]"
"""Emits the store of an element at an index."""


@dataclass(frozen=True)
class Piece:
    """A part of one result: `value`'s elements, each written at an index of the result."""

    result: int
    value: SSAValue
    slices: tuple[SliceView, ...] = field(default=())
    """The insertions on the way from `value` to the result, innermost first."""


def lower_kernel(
    kernel_func: kernel.FuncOp,
    inner_elements: int = INNER_ELEMENTS,
    reused: Collection[int] = (),
    l1_bytes: int = L1_BYTES,
) -> list[func.FuncOp]:
    """The loops of a kernel, as functions to launch in order.

    Each has the arguments: the kernel's inputs, its outputs (both memrefs where they are tensors),
    `begin` and `end` of the outermost loop's range, whose full length is the attribute
    `convir.range`.

    Args:
        kernel_func: the kernel.
        inner_elements: an iteration of the outermost loop writes at least so many elements, where
            the result has them; 1 for one element each.
        reused: the arguments whose memory is that of a result.
        l1_bytes: of the first-level cache of a core.

    Raises:
        PassFailedException: an op of the body has no loops, or a size is dynamic.
    """
    return [
        _lower_piece(kernel_func, piece, name, inner_elements, l1_bytes)
        for name, piece in pieces_of(kernel_func, reused)
    ]


def pieces_of(kernel_func: kernel.FuncOp, reused: Collection[int]) -> list[tuple[str, Piece]]:
    """The pieces of a kernel's results in the order they are written, with their names; of what is
    inserted into an argument whose memory is reused, only that."""
    returned = kernel_func.body.block.last_op
    assert returned is not None
    pieces = [
        piece
        for result, value in enumerate(returned.operands)
        for piece in _pieces(result, value, (), reused)
    ]
    name = kernel_func.sym_name.data
    return [(f"{name}_{i}" if len(pieces) > 1 else name, piece) for i, piece in enumerate(pieces)]


def range_size(loops: func.FuncOp) -> int:
    """The number of iterations of the outermost loop of a loop function."""
    size = loops.attributes[RANGE_ATTR]
    assert isinstance(size, IntegerAttr)
    return size.value.data


def scalar_work(loops: func.FuncOp) -> float:
    """How many ops all iterations of a loop function execute; infinite where nobody can tell."""
    return _work_of(loops.body.block, range_size(loops))


def _work_of(block: Block, range_trips: int) -> float:
    work = 0.0
    for op in block.ops:
        inside = sum(_work_of(b, range_trips) for region in op.regions for b in region.blocks)
        work += 1 + (_trips(op, range_trips) * inside if inside else 0)
    return work


def _trips(op: Operation, range_trips: int) -> float:
    """How often the body of `op` runs; the outermost loop goes over the function's range."""
    if not isinstance(op, scf.ForOp):
        return 1
    if isinstance(op.ub, BlockArgument) and isinstance(op.ub.owner.parent_op(), func.FuncOp):
        return range_trips
    begin, end, step = index_of(op.lb), index_of(op.ub), index_of(op.step)
    if isinstance(begin, int) and isinstance(end, int) and isinstance(step, int):
        return max(0, -(-(end - begin) // step))
    return inf


def is_expensive(value: SSAValue) -> bool:
    """Whether an element of `value` costs a reduction, so that none may be computed in vain."""
    pending, seen = [value], {value}
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, Operation):
            continue
        view = structured(owner)
        if view is not None and view.loops_of("reduction"):
            return True
        read = {x for x in owner.operands if isinstance(x.type, TensorType)} - seen
        pending += read
        seen |= read
    return False


def _pieces(
    result: int, value: SSAValue, outer: tuple[SliceView, ...], reused: Collection[int]
) -> list[Piece]:
    """Insertions of expensive values are written destination first, each by a nest of its own; so
    are those that stand on many others, which would each be a condition."""
    chain = _insertions(value)
    pieces: list[Piece] = []  # The last insertion first.
    for number, view in enumerate(chain):
        is_there = isinstance(view.dest, BlockArgument) and view.dest.index in reused
        is_short = len(chain) - number <= MAX_INSERTIONS
        if not is_there and is_short and not is_expensive(view.source):
            break
        pieces += reversed(_pieces(result, view.source, (view, *outer), reused))
        assert view.dest is not None
        value = view.dest
        if is_there:
            return pieces[::-1]
    return [Piece(result, value, outer), *reversed(pieces)]


def _insertions(value: SSAValue) -> list[SliceView]:
    """The insertions that `value` is made by, one into the other, the last one first."""
    found: list[SliceView] = []
    while isinstance(value.owner, Operation):
        view = slice_view(value.owner)
        if view is None or view.dest is None:
            break
        found.append(view)
        value = view.dest
    return found


def _lower_piece(
    kernel_func: kernel.FuncOp, piece: Piece, name: str, inner_elements: int, l1_bytes: int
) -> func.FuncOp:
    inputs = kernel_func.function_type.inputs.data
    outputs = kernel_func.function_type.outputs.data
    types = [_buffer_type(t) for t in (*inputs, *outputs)]
    entry = Block(arg_types=[*types, IndexType(), IndexType()])
    builder = Builder(InsertPoint.at_end(entry))
    at = IndexBuilder(builder, entry)
    arguments = kernel_func.body.block.args
    ev = Evaluator(builder, at, dict(zip(arguments, entry.args, strict=False)), RULES)
    out = entry.args[len(inputs) + piece.result]
    begin, end = entry.args[-2:]

    def store(indices: list[Index], element: SSAValue) -> None:
        target = [at.value(index) for index in target_of(ev, piece, indices)]
        builder.insert(memref.StoreOp.get(element, out, target))

    shape = static_shape(piece.value)
    crossing, block = crossing_dim(piece.value), 1
    if crossing is None:
        outer = shape[: _outer_rank(shape, inner_elements)]
    else:
        between = (size for dim, size in enumerate(shape[:-1]) if dim != crossing)
        block = block_of(shape, crossing, l1_bytes)
        outer = (*between, -(-shape[crossing] // block))

    def inside(position: SSAValue) -> None:
        indices = at.delinearize(position, outer)
        if crossing is None:
            _inner_loops(ev, indices, piece.value, store)
        else:
            _crossing_loops(ev, indices, piece.value, (crossing, block), store)

    range_loop(ev, begin, end, inside)
    builder.insert(func.ReturnOp())
    lowered = func.FuncOp(
        name, FunctionType.from_lists(list(entry.arg_types), []), Region(entry), "public"
    )
    lowered.attributes[RANGE_ATTR] = IntegerAttr(prod(outer), i64)
    return lowered


def _outer_rank(shape: tuple[int, ...], inner_elements: int) -> int:
    """How many leading dimensions make up the range that a launch is split by."""
    inner = 1
    for rank in range(len(shape), 0, -1):
        if inner >= inner_elements:
            return rank
        inner *= shape[rank - 1]
    return min(1, len(shape))


def _inner_loops(
    ev: Evaluator,
    outer: list[Index],
    value: SSAValue,
    store: _Store,
) -> None:
    """Loops over the dimensions of `value` that `outer` has no index of. Along one that tensors are
    joined along, each has a loop of its own: LLVM makes no vectors of elements of one or another.
    """
    dim = len(outer)
    if dim == len(static_shape(value)):
        store(outer, ev.element(value, outer))
        return
    begin = 0
    for part in _parts_along(value, dim):

        def store_behind(indices: list[Index], element: SSAValue, begin: int = begin) -> None:
            store([*indices[:dim], ev.at.add(indices[dim], begin), *indices[dim + 1 :]], element)

        def inside(index: SSAValue, part: SSAValue = part, store: _Store = store_behind) -> None:
            _inner_loops(ev, [*outer, index], part, store)

        size = static_shape(part)[dim]
        range_loop(ev, ev.at.constant(0), ev.at.constant(size), inside)
        begin += size


def _crossing_loops(
    ev: Evaluator, outer: list[Index], value: SSAValue, blocks: tuple[int, int], store: _Store
) -> None:
    """Loops over the last dimension of `value` and, inside, over a block of another one: `blocks`
    is this dimension and how long a block is. `outer` has the indices of all other dimensions, and
    behind them the block's."""
    *between, number = outer
    crossing, block = blocks
    shape = static_shape(value)
    first, count = ev.at.mul(number, block), block
    if shape[crossing] % block:
        count = ev.at.least(ev.at.sub(shape[crossing], first), block)

    def inside(last: SSAValue) -> None:
        def store_one(index: SSAValue) -> None:
            along = ev.at.add(first, index)
            indices = [*between[:crossing], along, *between[crossing:], last]
            store(indices, ev.element(value, indices))

        range_loop(ev, ev.at.constant(0), ev.at.value(count), store_one)

    range_loop(ev, ev.at.constant(0), ev.at.constant(shape[-1]), inside)


def block_of(shape: Sequence[int], crossing: int, l1_bytes: int) -> int:
    """How many neighbours along a dimension are read at a time: a number that divides its size, if
    one may; few where what they are written to falls into the same sets of the first-level cache,
    elements of f32 at least."""
    size, apart = shape[crossing], 4 * prod(shape[crossing + 1 :])
    longest, *others = BLOCKS
    sets = WAY_BYTES // gcd(apart, WAY_BYTES)
    if longest > sets * WRITTEN_SHARE * (l1_bytes // WAY_BYTES):
        longest, *others = NARROW_BLOCKS
    if size <= longest:
        return size
    return next((n for n in (longest, *others) if size % n == 0), longest)


def _parts_along(value: SSAValue, dim: int) -> Sequence[SSAValue]:
    """The tensors that `value` joins along `dim`, or itself."""
    owner = value.owner
    if isinstance(owner, tensor.ConcatOp) and owner.dim.value.data == dim:
        return owner.inputs
    return (value,)


def target_of(ev: Evaluator, piece: Piece, indices: list[Index]) -> list[Index]:
    """The index of the result that the element of a piece at `indices` goes to."""
    for view in piece.slices:
        indices = _slice_target(ev, view, indices)
    return indices


def _slice_target(ev: Evaluator, view: SliceView, indices: list[Index]) -> list[Index]:
    """The index of a destination that an element of an inserted source goes to."""
    kept = iter(indices)
    target: list[Index] = []
    for dim, (offset, stride) in enumerate(zip(view.offsets, view.strides, strict=True)):
        index = 0 if dim in view.dropped else next(kept)
        target.append(ev.at.add(ev.at.mul(index, cast("int", stride)), cast("int", offset)))
    return target


def range_loop(
    ev: Evaluator, begin: SSAValue, end: SSAValue, body: Callable[[SSAValue], None]
) -> None:
    """A loop over [begin, end)."""
    block = Block(arg_types=[IndexType()])
    outer = ev.builder.insertion_point
    ev.builder.insertion_point = InsertPoint.at_end(block)
    with ev.at.numbers.scope():
        body(block.args[0])
    ev.builder.insert(scf.YieldOp())
    ev.builder.insertion_point = outer
    ev.builder.insert(scf.ForOp(begin, end, ev.at.constant(1), [], block))


def _buffer_type(value_type: Attribute) -> Attribute:
    if not isinstance(value_type, TensorType):
        return value_type
    return dense_memref(cast("TensorType[Attribute]", value_type))
