"""Loop nests of a kernel for a GPU: which elements each thread computes.

A thread writes consecutive elements of a result, as many as fill 16 bytes, where whole rows hold a
multiple of them. Of the widths that are possible the one with the fewest operations an element is
taken, so that a wide store that would pick its operands one by one has to pay for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, ub, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint

from convir.lowering.cuda.accesses import VECTOR_BYTES, element_bytes
from convir.lowering.cuda.lanes import LaneBuilder
from convir.lowering.cuda.scalars import lane_count
from convir.lowering.cuda.vector_evaluate import VectorEvaluator
from convir.lowering.loops.evaluate import static_shape
from convir.lowering.loops.indices import Lanes
from convir.lowering.loops.nests import RANGE_ATTR, pieces_of, range_loop, target_of
from convir.lowering.loops.tensor_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.ir import Attribute, Operation, SSAValue

    from convir.dialects import kernel
    from convir.lowering.loops.indices import Index
    from convir.lowering.loops.nests import Piece

MEMORY_COST = 4
"""What an access to memory costs, in arithmetic operations."""

FREE = (
    arith.ConstantOp,
    scf.YieldOp,
    ub.PoisonOp,
    vector.BroadcastOp,
    vector.ExtractOp,
    vector.InsertOp,
)
"""Ops that only name registers."""


@dataclass(frozen=True)
class Width:
    """How many elements a thread writes."""

    lanes: int
    """Consecutive elements of a thread."""
    rank: int
    """How many of the innermost dimensions they run through."""


@dataclass(frozen=True)
class Nest:
    """The loops of one launch."""

    loops: func.FuncOp
    note: str
    """How many elements a thread writes at once and, where they are few, why."""


def lower_for_gpu(kernel_func: kernel.FuncOp, *, aligned: bool = True) -> list[Nest]:
    """The loops of a kernel, as functions to launch in order.

    Each has the kernel's inputs and its outputs (flat memrefs) as arguments, then `begin` and
    `end` of the range, whose full length is the attribute `convir.range`.

    Args:
        kernel_func: the kernel.
        aligned: whether every buffer begins at a multiple of 16 bytes.

    Raises:
        PassFailedException: an op of the body has no loops, or a size is dynamic.
    """
    return [
        _best_nest(kernel_func, piece, name, aligned=aligned)
        for name, piece in pieces_of(kernel_func)
    ]


def _best_nest(kernel_func: kernel.FuncOp, piece: Piece, name: str, *, aligned: bool) -> Nest:
    shape = static_shape(piece.value)
    size = element_bytes(cast("TensorType[Attribute]", piece.value.type).element_type)
    scalar = _lower(kernel_func, piece, name, Width(1, 1))
    if not aligned:
        return Nest(scalar, "1 element a thread: a buffer is not 16-byte aligned")
    widest = VECTOR_BYTES // size
    best, lanes, cost = scalar, 1, _cost(scalar, 1)
    costs = {1: cost}
    for width in _widths(shape, widest):
        loops = _lower(kernel_func, piece, name, width)
        costs[width.lanes] = _cost(loops, width.lanes)
        if costs[width.lanes] <= cost:
            best, lanes, cost = loops, width.lanes, costs[width.lanes]
    if lanes == widest:
        return Nest(best, f"{lanes} elements a thread, {VECTOR_BYTES} bytes")
    reason = f"no rows are a multiple of {widest} elements"
    if widest in costs:
        reason = f"{widest} would take {costs[widest]:.1f} operations an element, not {cost:.1f}"
    count = f"{lanes} element{'s' if lanes > 1 else ''} a thread"
    return Nest(best, f"{count}, {lanes * size} bytes: {reason}")


def _widths(shape: tuple[int, ...], widest: int) -> Iterator[Width]:
    """The widths that divide whole rows, narrow ones first."""
    lanes = 2
    while lanes <= widest:
        for rank in range(1, len(shape) + 1):
            size = prod(shape[-rank:])
            if size > 0 and size % lanes == 0:
                yield Width(lanes, rank)
                break
        lanes *= 2


def _lower(kernel_func: kernel.FuncOp, piece: Piece, name: str, width: Width) -> func.FuncOp:
    inputs = kernel_func.function_type.inputs.data
    outputs = kernel_func.function_type.outputs.data
    types = [_flat_buffer_type(t) for t in (*inputs, *outputs)]
    entry = Block(arg_types=[*types, IndexType(), IndexType()])
    builder = Builder(InsertPoint.at_end(entry))
    active = tuple(range(width.lanes)) if width.lanes > 1 else ()
    lane = LaneBuilder(builder, entry, active=active)
    arguments = kernel_func.body.block.args
    ev = VectorEvaluator(builder, lane, dict(zip(arguments, entry.args, strict=False)), RULES)
    out = entry.args[len(inputs) + piece.result]
    begin, end = entry.args[-2:]
    size = prod(static_shape(piece.value)) // width.lanes
    out_shape = _shape(outputs[piece.result])

    def body(iteration: SSAValue) -> None:
        lane.ranges.bound(iteration, 0, max(0, size - 1))
        indices = _indices(lane, iteration, static_shape(piece.value), width)
        value = ev.element(piece.value, indices)
        ev.store(value, out, lane.linearize(target_of(ev, piece, indices), out_shape))

    range_loop(ev, begin, end, body)
    builder.insert(func.ReturnOp())
    _erase_dead(entry)
    lowered = func.FuncOp(
        name, FunctionType.from_lists(list(entry.arg_types), []), Region(entry), "public"
    )
    lowered.attributes[RANGE_ATTR] = IntegerAttr(size, i64)
    return lowered


def _indices(
    lane: LaneBuilder, iteration: SSAValue, shape: tuple[int, ...], width: Width
) -> list[Index]:
    """The indices of the elements that an iteration of the range writes."""
    if width.lanes == 1:
        return lane.delinearize(iteration, shape)
    row = prod(shape[len(shape) - width.rank :])
    outer = shape[: len(shape) - width.rank]
    *leading, number = lane.delinearize(iteration, (*outer, row // width.lanes))
    first = lane.mul(number, width.lanes)
    position = lane.add(first, Lanes(lane.active, tuple((None, i) for i in lane.active)))
    indices = [*leading, *lane.delinearize(position, shape[len(outer) :])]
    whole = lane.mul(iteration, width.lanes)
    lane.remember(
        indices, lane.add(whole, Lanes(lane.active, tuple((None, i) for i in lane.active))), shape
    )
    return indices


def _flat_buffer_type(value_type: Attribute) -> Attribute:
    if not isinstance(value_type, TensorType):
        return value_type
    tensor_type = cast("TensorType[Attribute]", value_type)
    return MemRefType(tensor_type.element_type, [prod(_shape(tensor_type))])


def _shape(value_type: Attribute) -> tuple[int, ...]:
    assert isinstance(value_type, TensorType)
    shape = value_type.get_shape()
    return shape if DYNAMIC_INDEX not in shape else ()


def _erase_dead(block: Block) -> None:
    """Erase what is computed and not asked for, as indices are that no access needed."""
    for op in reversed(list(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                _erase_dead(inner)
        if op.results and not op.regions and all(result.first_use is None for result in op.results):
            op.detach()
            op.erase()


def _cost(loops: func.FuncOp, lanes: int) -> float:
    """Operations for each element that is written."""
    return _block_cost(loops.body.block) / lanes


def _block_cost(block: Block) -> float:
    return sum(map(_op_cost, block.ops))


def _op_cost(op: Operation) -> float:
    if isinstance(op, FREE):
        return 0
    if isinstance(op, memref.LoadOp | memref.StoreOp | vector.LoadOp | vector.StoreOp):
        return MEMORY_COST
    inner = sum(_block_cost(block) for region in op.regions for block in region.blocks)
    if isinstance(op, scf.ForOp):
        return inner * _trips(op)
    return inner + (lane_count(op.results[0]) if op.results and not op.regions else 1)


def _trips(op: scf.ForOp) -> int:
    bound = op.ub.owner
    if isinstance(bound, arith.ConstantOp) and isinstance(bound.value, IntegerAttr):
        return bound.value.value.data
    return 1
