"""Loop coalescing: two loops, one in the other, whose indices only stand side by side in addresses,
are one loop. A long loop has fewer ends, and no rest of a vector at each of them.

    for i < 56 { for j < 56 { … a[c, i, j] … } }  -->  for k < 3136 { … a'[c, k] … }

`a'` is `a` with the two dimensions collapsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import BlockArgument
from xdsl.rewriter import Rewriter

from convir.analysis.slices import index_of

if TYPE_CHECKING:
    from xdsl.dialects import func
    from xdsl.ir import Attribute, Block, Operation, SSAValue


class _Access(NamedTuple):
    """A load or a store whose last two of the indices that vary are those of both loops."""

    op: memref.LoadOp | memref.StoreOp
    dim: int
    """Of the outer loop's index; the inner one's is behind it."""


def coalesce(loops: func.FuncOp) -> None:
    """Make one loop of two, wherever that holds, the innermost first."""
    nests = [op for op in loops.body.walk() if isinstance(op, scf.ForOp)]
    collapsed: dict[tuple[SSAValue, int], SSAValue] = {}
    for outer in reversed(nests):
        inner = _only_loop(outer)
        if inner is None:
            continue
        accesses = _accesses(outer, inner)
        if accesses is not None:
            _merge(loops, outer, inner, accesses, collapsed)


def _only_loop(outer: scf.ForOp) -> scf.ForOp | None:
    """The loop that is all of a loop's body, where both are over constant sizes."""
    inner = outer.body.block.first_op
    if not isinstance(inner, scf.ForOp) or inner.next_op is not outer.body.block.last_op:
        return None
    whole = all(_size(loop) is not None and not loop.iter_args for loop in (outer, inner))
    return inner if whole else None


def _size(loop: scf.ForOp) -> int | None:
    begin, end, step = index_of(loop.lb), index_of(loop.ub), index_of(loop.step)
    return end if (begin, step) == (0, 1) and isinstance(end, int) else None


def _accesses(outer: scf.ForOp, inner: scf.ForOp) -> list[_Access] | None:
    """What both indices stand in, side by side; None if one stands anywhere else."""
    first, second = outer.body.block.args[0], inner.body.block.args[0]
    found: list[_Access] = []
    uses = {use.operation for index in (first, second) for use in index.uses}
    for op in uses:
        if not isinstance(op, memref.LoadOp | memref.StoreOp):
            return None
        indices, sizes = list(op.indices), _type_of(op.memref).get_shape()
        if isinstance(op, memref.StoreOp) and op.value in (first, second):
            return None
        if indices.count(first) != 1 or indices.count(second) != 1:
            return None
        dim = indices.index(first)
        if indices.index(second) != dim + 1 or sizes[dim + 1] != _size(inner):
            return None
        found.append(_Access(op, dim))
    return found


def _merge(
    loops: func.FuncOp,
    outer: scf.ForOp,
    inner: scf.ForOp,
    accesses: list[_Access],
    collapsed: dict[tuple[SSAValue, int], SSAValue],
) -> None:
    """One loop in the place of two; what is not read is dropped."""
    entry = loops.body.block
    for op, dim in accesses:
        key = (op.memref, dim)
        if key not in collapsed:
            collapse = _collapse(op.memref, dim)
            if isinstance(op.memref, BlockArgument):
                entry.insert_op_before(collapse, cast("Operation", entry.first_op))
            else:
                entry.insert_op_after(collapse, cast("Operation", op.memref.owner))
            collapsed[key] = collapse.result
        indices = [each for number, each in enumerate(op.indices) if number != dim]
        stored = [op.value] if isinstance(op, memref.StoreOp) else []
        op.operands = [*stored, collapsed[key], *indices]
    size = cast("int", _size(outer)) * cast("int", _size(inner))
    end = arith.ConstantOp(IntegerAttr(size, IndexType()))
    entry.insert_op_before(end, cast("Operation", entry.first_op))
    body = inner.detach_region(inner.body)
    merged = scf.ForOp(inner.lb, end.result, inner.step, [], body)
    parent = cast("Block", outer.parent)
    parent.insert_op_before(merged, outer)
    Rewriter.erase_op(outer)


def _collapse(buffer: SSAValue, dim: int) -> memref.CollapseShapeOp:
    """A buffer with the dimensions `dim` and the one behind it as one."""
    kind = _type_of(buffer)
    sizes = kind.get_shape()
    rest = range(len(sizes))
    groups = [[each] for each in rest if each != dim + 1]
    groups[dim].append(dim + 1)
    shape = [*sizes[:dim], sizes[dim] * sizes[dim + 1], *sizes[dim + 2 :]]
    return memref.CollapseShapeOp(
        operands=[buffer],
        result_types=[MemRefType(kind.element_type, shape)],
        properties={
            "reassociation": ArrayAttr(
                ArrayAttr(IntegerAttr(each, i64) for each in group) for group in groups
            )
        },
    )


def _type_of(buffer: SSAValue) -> MemRefType[Attribute]:
    return cast("MemRefType[Attribute]", buffer.type)
