"""Ops that will be one launch, as disjoint groups; wrapping one in a kernel region."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free

from convir.analysis.structured import structured
from convir.analysis.values.zeros import constant_fill_of
from convir.dialects.conv.constant import ConstantOp
from convir.dialects.kernel import ops as kernel
from convir.lowering.loops.pointwise import is_pointwise
from convir.lowering.regions.recomputation import KernelSize, Positions, Read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from convir.analysis.refusal import Refusal
    from convir.lowering.regions.recomputation import Reshapes

ALIASES = frozenset({"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"})
"""Ops whose result is their operand's memory under another type."""

FREE = frozenset({"tensor.empty", "tensor.splat", "arith.constant", "linalg.fill", "tensor.dim"})
"""Ops that every kernel which needs them repeats, rather than reads from memory."""


def is_reduction(op: Operation) -> bool:
    """Whether an element of the op's results costs a loop."""
    view = structured(op)
    return view is not None and bool(view.loops_of("reduction"))


def is_elementwise(op: Operation) -> bool:
    """Whether `op` computes each element of its results at one index of its operands."""
    view = structured(op)
    if view is None:
        return is_pointwise(op)
    return set(view.iterators) <= {"parallel"}


@dataclass
class Groups:
    """Disjoint sets of ops, each named by its smallest position."""

    position: dict[Operation, int]
    _parent: dict[int, int] = field(default_factory=dict[int, int])
    _size: dict[int, KernelSize] = field(default_factory=dict[int, KernelSize])
    _positions: Positions = field(default_factory=Positions)

    def __post_init__(self) -> None:
        for op, number in self.position.items():
            self._size[number] = KernelSize(self._positions.code(op), int(is_reduction(op)))

    def find(self, op: Operation) -> int | None:
        """The name of the group of `op`; None if it is in none."""
        given = self.position.get(op)
        if given is None:
            return None
        name = given
        while name in self._parent:
            name = self._parent[name]
        while given != name:  # So that no chain is followed twice.
            self._parent[given], given = name, self._parent[given]
        return name

    def merge(self, a: Operation, b: Operation) -> None:
        """Make one group of those of `a` and `b`."""
        first, second = self.find(a), self.find(b)
        if first is None or second is None or first == second:
            return
        kept, merged = min(first, second), max(first, second)
        self._parent[merged] = kept
        self._size[kept] = self._size[kept].plus(self._size.pop(merged))

    def merge_refusal(self, a: Operation, b: Operation) -> Refusal | None:
        """Why the groups of `a` and `b` must not be one kernel; None if they may."""
        first, second = self.find(a), self.find(b)
        if first is None or second is None or first == second:
            return None
        return self._size[first].plus(self._size[second]).refusal()

    def join_reader(self, op: Operation, may_join: Callable[[int], bool]) -> Refusal | None:
        """Merge `op`, which is alone in its group, into another one that alone reads it, if that
        `may_join`. The reason if it would be computed too often there."""
        reads = list(reads_of_results(op))
        names = {self.find(read.reader) for read in reads}
        if len(names) != 1:
            return None
        (name,) = names
        if name is None or name == self.find(op) or not may_join(name):
            return None
        at = self._positions.read_by(reads)
        refusal = self._positions.refusal(op, at, self._size[name])
        if refusal is not None:
            return refusal
        self._positions.put(op, at)
        self._size[self.position[op]] = KernelSize(self._positions.code(op))
        self.merge(op, reads[0].reader)
        return None

    def from_results(self) -> Iterator[Operation]:
        """The ops, each behind all that read it: depth first, and what little is computed from
        before what much is. So a group that is full has what it reads, and not its twigs."""
        unreshaped = dict[SSAValue, SSAValue]()
        makers = {op: self._makers(op, unreshaped) for op in self.position}
        height: dict[Operation, int] = {}
        waiting: dict[Operation, int] = dict.fromkeys(self.position, 0)
        for op, made_from in makers.items():
            height[op] = 1 + max((height[maker] for maker in made_from), default=0)
            for maker in made_from:
                waiting[maker] += 1
        ready = [op for op, readers in waiting.items() if not readers]
        while ready:
            op = ready.pop()
            yield op
            for maker in sorted(makers[op], key=height.__getitem__, reverse=True):
                waiting[maker] -= 1
                if not waiting[maker]:
                    ready.append(maker)

    def _makers(self, op: Operation, unreshaped: dict[SSAValue, SSAValue]) -> list[Operation]:
        """The ops that make what `op` reads, looking through aliases; each once."""
        found: dict[Operation, None] = {}
        for operand in op.operands:
            owner = _unreshaped(operand, unreshaped).owner
            if isinstance(owner, Operation) and owner in self.position:
                found[owner] = None
        return list(found)

    def members(self) -> list[list[Operation]]:
        """The groups, each in block order."""
        found: dict[int, list[Operation]] = {}
        for op in self.position:
            name = self.find(op)
            assert name is not None
            found.setdefault(name, []).append(op)
        return list(found.values())

    def has_reduction(self, group: int) -> bool:
        """Whether one of the ops of a group reduces."""
        return self._size[group].reductions > 0


def is_scalar(op: Operation) -> bool:
    """Whether an op only computes scalars, from scalars and elements of tensors."""
    if op.regions or not op.results or not is_side_effect_free(op):
        return False
    return not any(isinstance(result.type, TensorType) for result in op.results)


def is_compute(op: Operation) -> bool:
    """Whether a kernel computes `op`, which is in none yet."""
    if op.name in ALIASES or op.has_trait(IsTerminator):
        return False
    if isinstance(op, kernel.RegionOp | kernel.CallOp | ConstantOp):
        return False  # Formed already, by hand; or no computation.
    if op.name in FREE and not _is_result(op):
        return False
    return bool(op.results) and all(isinstance(r.type, TensorType) for r in op.results)


def _is_result(op: Operation) -> bool:
    """Whether a free op is returned, and only a kernel can write what it gives."""
    if op.name == "arith.constant" or any(constant_fill_of(r) is not None for r in op.results):
        return False
    return any(read.reader.has_trait(IsTerminator) for read in reads_of_results(op))


def _unreshaped(value: SSAValue, known: dict[SSAValue, SSAValue]) -> SSAValue:
    """The value whose memory `value` is, under another type; what is `known` of others grows."""
    passed: list[SSAValue] = []
    while value not in known and isinstance(value.owner, Operation) and value.owner.name in ALIASES:
        passed.append(value)
        value = value.owner.operands[0]
    value = known.get(value, value)
    known.update(dict.fromkeys(passed, value))
    return value


def reads_of(value: SSAValue) -> Iterator[Read]:
    """The operands that read `value`, looking through aliases."""
    pending: list[tuple[SSAValue, Reshapes]] = [(value, None)]
    while pending:
        read, reshapes = pending.pop()
        for use in read.uses:
            if use.operation.name in ALIASES:
                pending.append((use.operation.results[0], (use.operation, reshapes)))
            else:
                yield Read(use.operation, use.index, reshapes)


def reads_of_results(op: Operation) -> Iterator[Read]:
    """The operands that read a result of `op`, looking through aliases."""
    for result in op.results:
        yield from reads_of(result)


def readers_of(value: SSAValue) -> Iterator[Operation]:
    """The ops that read `value`, looking through aliases."""
    return (read.reader for read in reads_of(value))


def _with_aliases(members: list[Operation]) -> list[Operation]:
    """`members` and the reshapes between them, which only they read."""
    inside = set(members)
    result: list[Operation] = []

    def take_alias(value: SSAValue) -> None:
        """The reshapes that `value` is of a member's result, one behind another."""
        chain: list[Operation] = []
        owner = value.owner
        while isinstance(owner, Operation) and owner.name in ALIASES and owner not in inside:
            if any(use.operation not in inside for use in owner.results[0].uses):
                return
            chain.append(owner)
            inside.add(owner)
            owner = owner.operands[0].owner
        if owner in inside:
            result.extend(reversed(chain))
        else:
            inside.difference_update(chain)

    for op in members:
        for operand in op.operands:
            take_alias(operand)
        result.append(op)
    return result


def wrap(members: list[Operation], order: dict[Operation, int]) -> None:
    """Move `members`, and reshapes between them, into one region at the place of the last."""
    members = _with_aliases(members)
    inside = set(members)
    last = max(members, key=order.__getitem__)
    results = [
        result
        for op in members
        for result in op.results
        if any(use.operation not in inside for use in result.uses)
    ]
    if any(
        order.get(use.operation, len(order)) < order[last]
        for result in results
        for use in result.uses
        if use.operation not in inside
    ):
        for op in members:
            if op.name not in ALIASES:
                wrap([op], order)
        return
    if not results:
        return
    body = Block()
    region = kernel.RegionOp(Region(body), [result.type for result in results])
    region.location = last.location
    Rewriter.insert_op(region, InsertPoint.before(last))
    order[region] = order[last]
    for op in sorted(members, key=order.__getitem__):
        op.detach()
        body.add_op(op)
    for old, new in zip(results, region.res, strict=True):
        old.replace_uses_with_if(new, lambda use: use.operation not in inside)
        new.name_hint = old.name_hint
    body.add_op(kernel.YieldOp(*results))


def unwrap(region: kernel.RegionOp) -> None:
    """Put the ops of a region back in its place."""
    yielded = region.body.block.last_op
    assert yielded is not None
    for op in list(region.body.block.ops):
        if op is not yielded:
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(region))
    for old, new in zip(region.res, yielded.operands, strict=True):
        old.replace_all_uses_with(new)
    Rewriter.erase_op(region)
