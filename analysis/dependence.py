"""What an op reads, and what it is computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xdsl.ir import Block, SSAValue


def operands_of(op: Operation) -> Iterator[SSAValue]:
    """What `op` reads: its operands, and what its regions take from around it."""
    yield from op.operands
    for region in op.regions:
        for inner in region.walk():
            for operand in inner.operands:
                owner = operand.owner
                inside = owner if isinstance(owner, Operation) else owner.parent_op()
                if inside is None or (inside is not op and not op.is_ancestor(inside)):
                    yield operand


def backward_slice(block: Block, last: Collection[Operation]) -> list[Operation]:
    """Those ops of `block` that the ops `last` of it are computed from, and they, in order."""
    needed: set[SSAValue] = set()
    found: list[Operation] = []
    for op in reversed(list(block.ops)):
        if op in last or not needed.isdisjoint(op.results):
            needed.update(operands_of(op))
            found.append(op)
    return found[::-1]
