"""Loop nests of a kernel for a GPU: which elements each thread computes.

A thread writes consecutive elements of a result, as many as fill 16 bytes, where whole rows hold a
multiple of them. Of the widths that are possible the one with the fewest operations an element is
taken, so that a wide store that would pick its operands one by one has to pay for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal, cast

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
from xdsl.utils.exceptions import PassFailedException

from convir.lowering.loops.cuda.accesses import VECTOR_BYTES, element_bytes
from convir.lowering.loops.cuda.lanes import LaneBuilder
from convir.lowering.loops.cuda.scalars import lane_count
from convir.lowering.loops.cuda.team_nests import WARP, shared_reduction
from convir.lowering.loops.cuda.teams import TeamEvaluator
from convir.lowering.loops.cuda.vector_evaluate import VectorEvaluator
from convir.lowering.loops.evaluate import static_shape
from convir.lowering.loops.indices import Lanes
from convir.lowering.loops.nests import RANGE_ATTR, is_expensive, pieces_of, range_loop, target_of
from convir.lowering.loops.tensor_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xdsl.ir import Attribute, Operation, OpResult, SSAValue

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.loops.cuda.team_nests import SharedReduction
    from convir.lowering.loops.cuda.teams import Team
    from convir.lowering.loops.indices import Index
    from convir.lowering.loops.nests import Piece

MEMORY_COST = 4
"""What an access to memory costs, in arithmetic operations."""

TILES_ACROSS = 8
"""Tiles side by side along the rows that a warp writes: 128 bytes at 16 bytes a tile."""

TILE_ROWS = (8, 4, 7, 5, 3, 2)
"""Rows of a tile, as vectors of the source or whole short rows of it."""

RUN_COST = 4
"""What a run of consecutive elements costs, in accesses."""

MAX_TILES = 12
"""Tiles that are tried for one result."""

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
    rows: int = 1
    """How many such runs, in neighbouring positions of other dimensions."""
    group: tuple[int, int] = (0, 0)
    """The first of these dimensions, and the one after the last."""

    @property
    def elements(self) -> int:
        """How many elements a thread writes in all."""
        return self.lanes * self.rows


@dataclass(frozen=True)
class Nest:
    """The loops of one launch."""

    loops: func.FuncOp
    note: str
    """How many elements a thread writes at once and, where they are few, why."""
    team: Team | None = None
    """The threads that compute an iteration of the range; None for one alone."""
    parts_bytes: int = 0
    """The size of a further buffer behind the outputs, which the launches of a kernel share."""


@dataclass(frozen=True)
class _Counted:
    loops: func.FuncOp
    runs: int
    """How many runs of consecutive elements a thread reads and writes."""
    strides: bool
    """Whether elements of an access all lie the same distance apart, but not 1."""


def lower_for_gpu(
    kernel_func: kernel.FuncOp, *, aligned: bool = True, reused: Collection[int] = ()
) -> list[Nest]:
    """The loops of a kernel, as functions to launch in order.

    Each has the kernel's inputs and its outputs (flat memrefs) as arguments, then `begin` and
    `end` of the range, whose full length is the attribute `convir.range`.

    Args:
        kernel_func: the kernel.
        aligned: whether every buffer begins at a multiple of 16 bytes.
        reused: the arguments whose memory is that of a result.

    Raises:
        PassFailedException: an op of the body has no loops, or a size is dynamic.
    """
    return [
        nest
        for name, piece in pieces_of(kernel_func, reused)
        for nest in _nests(kernel_func, piece, name, aligned=aligned)
    ]


def _nests(kernel_func: kernel.FuncOp, piece: Piece, name: str, *, aligned: bool) -> list[Nest]:
    shared = shared_reduction(piece.value) if aligned else None
    if shared is None:
        return [_best_nest(kernel_func, piece, name, aligned=aligned)]
    try:
        return _team_nests(kernel_func, piece, name, shared)
    except PassFailedException:
        # It lies behind a condition that threads of a block may differ in.
        return [_best_nest(kernel_func, piece, name, aligned=aligned)]


def _team_nests(
    kernel_func: kernel.FuncOp, piece: Piece, name: str, shared: SharedReduction
) -> list[Nest]:
    """A launch in which teams compute the reduction, or one for its parts and one to join them."""
    team, size = shared.team, shared.parts_bytes
    whole = f"{team.members} threads an element"
    if not size:
        return [Nest(_lower_shared(kernel_func, piece, name, shared, "whole"), whole, team)]
    note = f"{whole} and part, {team.splits} parts"
    parts = _lower_shared(kernel_func, piece, f"{name}_parts", shared, "parts")
    joining = shared.joining()
    joined = _lower_shared(kernel_func, piece, name, joining, "join")
    return [
        Nest(parts, note, team, size),
        Nest(joined, f"{joining.team.members} threads join the parts", joining.team, size),
    ]


def _lower_shared(
    kernel_func: kernel.FuncOp,
    piece: Piece,
    name: str,
    shared: SharedReduction,
    phase: Literal["whole", "parts", "join"],
) -> func.FuncOp:
    function = _Function(kernel_func, None if phase == "whole" else shared.value)
    value = shared.value if phase == "parts" else piece.value
    shape = static_shape(value)
    lanes = shared.width if shape and shape[-1] % shared.width == 0 else 1
    width = Width(lanes, 1)
    lane = LaneBuilder(
        function.builder, function.entry, active=tuple(range(lanes)) if lanes > 1 else ()
    )
    ev = TeamEvaluator(function.builder, lane, function.buffers, RULES, shared.team)
    if phase == "join":
        ev.parts = function.parts
    units = prod(shape) // lanes
    splits = shared.team.splits if phase == "parts" else 1

    def body(iteration: SSAValue) -> None:
        lane.ranges.bound(iteration, 0, units * splits - 1)
        unit: Index = iteration
        if phase == "parts":
            ev.part, unit = lane.delinearize(iteration, (splits, units))
        indices = _indices(lane, lane.value(unit), shape, width)
        element = ev.element(value, indices)
        if phase == "parts":
            assert function.parts is not None
            assert ev.part is not None
            at = lane.linearize([ev.part, *indices], [splits, *shape])
            ev.store(element, function.parts, at)
        else:
            at = lane.linearize(target_of(ev, piece, indices), function.output_shape(piece))
            ev.store(element, function.output(piece), at)

    range_loop(ev, *function.range, body)
    return function.finish(name, units * splits)


def _best_nest(kernel_func: kernel.FuncOp, piece: Piece, name: str, *, aligned: bool) -> Nest:
    shape = static_shape(piece.value)
    size = element_bytes(cast("TensorType[Attribute]", piece.value.type).element_type)
    best = _lower_counted(kernel_func, piece, name, Width(1, 1))
    if not aligned:
        return Nest(best.loops, "1 element a thread: a buffer is not 16-byte aligned")
    widest = VECTOR_BYTES // size
    lanes, cost = 1, _cost(best.loops, 1)
    costs = {1: cost}
    for width in _widths(shape, widest):
        counted = _lower_counted(kernel_func, piece, name, width)
        costs[width.lanes] = _cost(counted.loops, width.lanes)
        if costs[width.lanes] <= cost:
            best, lanes, cost = counted, width.lanes, costs[width.lanes]
    tile = _transposing(kernel_func, piece, name, best, lanes)
    if tile is not None:
        return tile
    if lanes == widest:
        return Nest(best.loops, f"{lanes} elements a thread, {VECTOR_BYTES} bytes")
    reason = f"no rows are a multiple of {widest} elements"
    if widest in costs:
        reason = f"{widest} would take {costs[widest]:.1f} operations an element, not {cost:.1f}"
    count = f"{lanes} element{'s' if lanes > 1 else ''} a thread"
    return Nest(best.loops, f"{count}, {lanes * size} bytes: {reason}")


def _transposing(
    kernel_func: kernel.FuncOp, piece: Piece, name: str, plain: _Counted, lanes: int
) -> Nest | None:
    """A nest in which a thread transposes a tile; None if the plain one, of so many lanes, reads
    rows already.

    What is contiguous where it is read, but not where it is written, takes as many accesses as
    elements: a tile of rows of both takes one for each row.
    """
    shape = static_shape(piece.value)
    if lanes == 1 or not plain.strides or is_expensive(piece.value):
        return None
    best, chosen = _tile_score(plain, lanes) / 2, None
    for tile in _tiles(shape, lanes):
        counted = _lower_counted(kernel_func, piece, name, tile)
        score = _tile_score(counted, tile.elements)
        if score < best:
            best, chosen = score, (counted.loops, tile)
    if chosen is None:
        return None
    return Nest(chosen[0], f"tiles of {chosen[1].rows} by {lanes} elements a thread")


def _tile_score(counted: _Counted, elements: int) -> float:
    """What the accesses of a tile cost for each element: every run may be a sector of its own."""
    kinds = (memref.LoadOp, memref.StoreOp, vector.LoadOp, vector.StoreOp)
    return (
        sum(isinstance(op, kinds) for op in counted.loops.walk()) + RUN_COST * counted.runs
    ) / elements


def _tiles(shape: tuple[int, ...], lanes: int) -> Iterator[Width]:
    """Tiles of rows of `lanes` elements, along the innermost dimensions and groups of others.

    Those come first whose neighbours in a warp read and write the longest runs.
    """
    found: list[tuple[int, Width]] = []
    for rank in range(1, len(shape)):
        if prod(shape[-rank:]) % lanes != 0:
            continue
        for last in range(1, len(shape) - rank + 1):
            for first in range(last):
                size = prod(shape[first:last])
                for rows in TILE_ROWS:
                    if size > 0 and size % rows == 0:
                        tile = Width(lanes, rank, rows, (first, last))
                        across, down = _warp_of(shape, tile)
                        found.append((min(across * lanes, down * rows), tile))
    found.sort(key=lambda entry: -entry[0])
    return iter([tile for _, tile in found[:MAX_TILES]])


def _warp_of(shape: tuple[int, ...], tile: Width) -> tuple[int, int]:
    """How many tiles of a warp lie side by side, and how many below one another."""
    first, last = tile.group
    across = _divisor(prod(shape[len(shape) - tile.rank :]) // tile.lanes, TILES_ACROSS)
    return across, _divisor(prod(shape[first:last]) // tile.rows, WARP // across)


def _divisor(size: int, largest: int) -> int:
    """The largest divisor of `size` up to `largest`."""
    return next(divisor for divisor in range(min(size, largest), 0, -1) if size % divisor == 0)


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


def _lower_counted(kernel_func: kernel.FuncOp, piece: Piece, name: str, width: Width) -> _Counted:
    function = _Function(kernel_func)
    active = tuple(range(width.elements)) if width.elements > 1 else ()
    lane = LaneBuilder(function.builder, function.entry, active=active)
    ev = VectorEvaluator(function.builder, lane, function.buffers, RULES)
    shape = static_shape(piece.value)
    size = prod(shape) // width.elements

    def body(iteration: SSAValue) -> None:
        lane.ranges.bound(iteration, 0, max(0, size - 1))
        indices = _indices(lane, iteration, shape, width)
        value = ev.element(piece.value, indices)
        at = lane.linearize(target_of(ev, piece, indices), function.output_shape(piece))
        ev.store(value, function.output(piece), at)

    range_loop(ev, *function.range, body)
    return _Counted(function.finish(name, size), ev.runs, ev.strides)


class _Function:
    """A loop function being built: its arguments are buffers and a range."""

    def __init__(self, kernel_func: kernel.FuncOp, parts_of: OpResult | None = None) -> None:
        """Begin the function; with `parts_of`, a buffer for parts of that value stands last."""
        self._inputs = kernel_func.function_type.inputs.data
        self._outputs = kernel_func.function_type.outputs.data
        types = [_flat_buffer_type(t) for t in (*self._inputs, *self._outputs)]
        if parts_of is not None:
            tensor_type = cast("TensorType[Attribute]", parts_of.type)
            types.append(MemRefType(tensor_type.element_type, [DYNAMIC_INDEX]))
        self.entry = Block(arg_types=[*types, IndexType(), IndexType()])
        self.builder = Builder(InsertPoint.at_end(self.entry))
        arguments = kernel_func.body.block.args
        self.buffers: dict[SSAValue, SSAValue] = dict(zip(arguments, self.entry.args, strict=False))
        self.range = (self.entry.args[-2], self.entry.args[-1])
        self.parts = self.entry.args[-3] if parts_of is not None else None

    def output(self, piece: Piece) -> SSAValue:
        """The buffer that a piece is written to."""
        return self.entry.args[len(self._inputs) + piece.result]

    def output_shape(self, piece: Piece) -> tuple[int, ...]:
        """The shape of what lies there."""
        return _shape(self._outputs[piece.result])

    def finish(self, name: str, size: int) -> func.FuncOp:
        """The function over a range of `size`."""
        self.builder.insert(func.ReturnOp())
        _erase_dead(self.entry)
        function_type = FunctionType.from_lists(list(self.entry.arg_types), [])
        lowered = func.FuncOp(name, function_type, Region(self.entry), "public")
        lowered.attributes[RANGE_ATTR] = IntegerAttr(size, i64)
        return lowered


def _indices(
    lane: LaneBuilder, iteration: SSAValue, shape: tuple[int, ...], width: Width
) -> list[Index]:
    """The indices of the elements that an iteration of the range writes."""
    if width.rows > 1:
        return _tile_indices(lane, iteration, shape, width)
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


def _tile_indices(
    lane: LaneBuilder, iteration: SSAValue, shape: tuple[int, ...], width: Width
) -> list[Index]:
    """The indices of a tile; the tiles of a warp lie side by side in both directions."""
    first, last = width.group
    inner = len(shape) - width.rank
    rows, columns = prod(shape[first:last]) // width.rows, prod(shape[inner:]) // width.lanes
    across, down = _warp_of(shape, width)
    grid = (*shape[:first], rows // down, *shape[last:inner], columns // across, down, across)
    *outer, row, column = lane.delinearize(iteration, grid)
    row = lane.add(lane.mul(outer[first], down), row)
    column = lane.add(lane.mul(outer[-1], across), column)
    row_lanes = tuple((None, i // width.lanes) for i in lane.active)
    column_lanes = tuple((None, i % width.lanes) for i in lane.active)
    row = lane.add(lane.mul(row, width.rows), Lanes(lane.active, row_lanes))
    column = lane.add(lane.mul(column, width.lanes), Lanes(lane.active, column_lanes))
    return [
        *outer[:first],
        *lane.delinearize(row, shape[first:last]),
        *outer[first + 1 : -1],
        *lane.delinearize(column, shape[inner:]),
    ]


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
