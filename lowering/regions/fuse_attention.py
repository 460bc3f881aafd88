"""Attention: passes over rows, and the products that give and take those rows, as one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, Region

from convir.analysis.contraction import contraction_dims
from convir.analysis.dependence import operands_of
from convir.analysis.refusal import Refusal
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.host.attention.problem import read_attention
from convir.lowering.regions.fuse_epilogue import is_addressing
from convir.lowering.regions.op_groups import is_elementwise, readers_of, unwrap, wrap
from convir.lowering.regions.outline_kernels import outlined
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xdsl.ir import SSAValue


def fuse_attention(block: Block, name: str) -> None:
    """Join the kernels of rows of `block` with the products around them.

    Args:
        block: its kernels of rows are regions.
        name: of the pass, for remarks.
    """
    for rows in [op for op in block.ops if isinstance(op, kernel.RegionOp)]:
        members = _members(block, rows)
        if members is None:
            continue
        *_, second = members
        reason = _refusal(block, members, second)
        if reason is not None:
            remarks.refused(name, second, reason.reason)
            continue
        for op in _addressing(block, members):
            if _refusal(block, {*members, op}, second) is None:
                members[op] = None
        remarks.fired(name, second, "attention is one kernel: its scores stay in a cache")
        inside = [each for op in members for each in _ops_of(op)]
        for op in members:
            if isinstance(op, kernel.RegionOp):
                unwrap(op)
        wrap(inside, {op: i for i, op in enumerate(block.ops)})


def _members(block: Block, rows: kernel.RegionOp) -> dict[Operation, None] | None:
    """The product whose result a kernel of rows goes over, what lies between, the kernel, and the
    product of its rows, which alone reads them; None where there are no such."""
    if len(rows.res) != 1 or _product_of(rows) is not None:
        return None
    readers = _readers(block, rows.res[0])
    if len(readers) != 1:
        return None
    (reader,) = readers
    if reader is None or _product_of(reader) is None:
        return None
    for value in operands_of(rows):
        before = _from_product(block, value, {rows})
        if before is not None:
            return dict.fromkeys([*before, rows, reader])
    return None


def _from_product(
    block: Block, value: SSAValue, taken: Collection[Operation]
) -> list[Operation] | None:
    """The product that `value` is computed of and the elementwise ops behind it, which nothing but
    `taken` reads; None where there is none."""
    maker = value.owner
    if not isinstance(maker, Operation) or maker.parent is not block or len(maker.results) != 1:
        return None
    if not _readers(block, value) <= {*taken}:
        return None
    if _product_of(maker) is not None:
        return [maker]
    if not is_elementwise(maker):
        return None
    for operand in maker.operands:
        before = _from_product(block, operand, {*taken, maker})
        if before is not None:
            return [*before, maker]
    return None


def _readers(block: Block, value: SSAValue) -> set[Operation | None]:
    """The ops of `block` that read a value, also inside of them; None among them for others."""
    return {block.find_ancestor_op_in_block(reader) for reader in readers_of(value)}


def _ops_of(op: Operation) -> list[Operation]:
    """The ops that are computed at the place of `op`: those of a region, or itself."""
    if not isinstance(op, kernel.RegionOp):
        return [op]
    return [each for each in op.body.block.ops if not isinstance(each, kernel.YieldOp)]


def _product_of(op: Operation) -> Operation | None:
    """The product that `op` is, or that a region holds among elementwise ops alone; None if there
    is none."""
    ops = _ops_of(op)
    products = [each for each in ops if not isinstance(contraction_dims(each), Refusal)]
    others = [each for each in ops if each not in products]
    return products[0] if len(products) == 1 and all(map(is_elementwise, others)) else None


def _addressing(block: Block, members: Collection[Operation]) -> Iterator[Operation]:
    """What only says where the products find their elements, if nothing else reads it; the last of
    a chain first."""
    found = set(members)
    for op in reversed(list(block.ops)):
        readers = {use.operation for result in op.results for use in result.uses}
        if op not in found and readers and readers <= found and is_addressing(op):
            found.add(op)
            yield op


def _refusal(block: Block, members: Collection[Operation], second: Operation) -> Refusal | None:
    """Why some ops of a block, a kernel of rows and `second` among them, are no attention; None if
    they are."""
    body = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    (result,) = second.results
    for member in block.ops:
        if member not in members:
            continue
        for op in _ops_of(member):
            body.add_op(op.clone(mapping))
        if isinstance(member, kernel.RegionOp) and (last := member.body.block.last_op) is not None:
            pairs = zip(member.results, last.operands, strict=True)
            mapping |= {own: mapping[yielded] for own, yielded in pairs}
    body.add_op(kernel.YieldOp(mapping[result]))
    candidate = kernel.RegionOp(Region(body), [result.type])
    function, _ = outlined(candidate, "candidate")
    candidate.erase()  # Or what it reads of the program would count as read.
    found = read_attention(function)
    return found if isinstance(found, Refusal) else None
