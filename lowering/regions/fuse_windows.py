"""Pools: windows of a tensor, its padding, and what follows each window, as one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import tensor

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.pooling.problem import read_pool
from convir.lowering.regions.op_groups import is_compute, is_reduction, readers_of, wrap
from convir.lowering.regions.placements import placing_ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Block, Operation, SSAValue


def fuse_windows(block: Block) -> list[Operation]:
    """Wrap the pools of `block` in kernel regions; gives the reductions of those."""
    placing = placing_ops(block)
    order = {op: i for i, op in enumerate(block.ops)}
    free = {op for op in order if is_compute(op) and op not in placing}
    found: list[Operation] = []
    for pool in [op for op in order if op in free and is_reduction(op)]:
        pad = _pad_of(pool)
        members = [pad, pool] if pad is not None and pad in free else [pool]
        if isinstance(_read(members), Refusal):
            members = [pool]
            if isinstance(_read(members), Refusal):
                continue
        behind = _only_reader(pool)
        while behind in free - set(members) and not isinstance(_read([*members, behind]), Refusal):
            members.append(behind)
            behind = _only_reader(behind)
        found.append(pool)
        wrap(members, order)
    return found


def _pad_of(pool: Operation) -> Operation | None:
    """The padding that only a pool reads."""
    pads = [x.owner for x in pool.operands if isinstance(x.owner, tensor.PadOp)]
    alone = len(pads) == 1 and set(readers_of(pads[0].results[0])) == {pool}
    return pads[0] if alone else None


def _only_reader(op: Operation) -> Operation:
    """What alone reads an op; the op itself, which is taken, where there is no such."""
    uses = list(op.results[0].uses)
    return uses[0].operation if len(uses) == 1 else op


def _read(members: Sequence[Operation]) -> object:
    arguments: dict[SSAValue, int] = {}

    def argument(value: SSAValue) -> int:
        return arguments.setdefault(value, len(arguments))

    return read_pool(members, [members[-1].results[0]], argument)
