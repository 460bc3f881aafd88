"""`fuse-rows`: reductions along the same rows, and what lies between and around them, become one
kernel.

    rewrite: %m = reduce max %x; %d = %x - %m; %e = exp %d; %s = reduce add %e; %y = %e / %s
             --> %y = kernel.region { … kernel.yield %y }

Windows of a tensor, with their padding and what follows them, are one kernel too
(`fuse_windows.py`).

A row, or a block of neighbouring rows, stays in the first cache while each pass over it computes
what the next one needs: a normalisation or a softmax reads and writes memory once. A group begins
with a reduction of a tensor's elements, takes what reads it element by element or reduces over the
same dimensions, and then what it alone reads. What stands behind a contraction is left to
`fuse-epilogue`.

Preconditions: the function has one block; no op that does not join lies on a way from one member to
another; the `reduction` kernels of the device compute all of the group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.contraction import contraction_dims
from convir.analysis.cost import element_bytes
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.lowering.bodies.rows.read import read_rows
from convir.lowering.implementations import CUDA, HOST
from convir.lowering.regions.op_groups import (
    ALIASES,
    is_compute,
    is_elementwise,
    is_reduction,
    readers_of,
    wrap,
)
from convir.lowering.regions.placements import placing_ops
from convir.passes.dce import eliminate_dead_code
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Block, SSAValue

    from convir.lowering.bodies.rows.program import RowProgram

MAX_OPS = 64
"""Of a group."""


def fuse_rows(block: Block, device: str = HOST) -> None:
    """Wrap the reductions of `block`, with what goes over the same rows, in kernel regions of
    `device`."""
    placing = placing_ops(block)
    order = {op: i for i, op in enumerate(block.ops)}
    free = {op for op in order if is_compute(op) and op not in placing}
    makers = _Makers()
    for seed in [op for op in order if op in free and is_row_reduction(op)]:
        if seed not in free:
            continue
        group = _Group(seed, order, free, makers, device)
        reason = group.grow()
        if reason is not None:
            remarks.refused(FuseRowsPass.name, seed, reason.reason)
            continue
        members = group.in_order()
        free -= set(members)
        group.own_aliases()
        wrap(members, order)
        what = f"{len(members)} ops are {group.passes} passes over each row"
        remarks.fired(FuseRowsPass.name, seed, what)


def is_row_reduction(op: Operation) -> bool:
    """Whether `op` combines the elements of a tensor, each read once: no contraction or window."""
    view = structured(op)
    if view is None or not is_reduction(op) or "window" in view.iterators:
        return False
    every = set(range(len(view.iterators)))
    covering = [each for each in view.input_maps if each.used_dims() == every]
    whole = [each for each in covering if len(each.results) == len(every)]
    return bool(whole) and isinstance(contraction_dims(op), Refusal)


@dataclass
class _Makers:
    """What computes values, looking through aliases, and what of that follows a contraction."""

    _follows: dict[Operation, bool] = field(default_factory=dict[Operation, bool])

    def of(self, value: SSAValue) -> Operation | None:
        """The op that computes `value`; None for an argument."""
        owner = value.owner
        while isinstance(owner, Operation) and owner.name in ALIASES:
            owner = owner.operands[0].owner
        return owner if isinstance(owner, Operation) else None

    def follows_contraction(self, op: Operation) -> bool:
        """Whether `op` may be stored from a contraction's tile."""
        if op not in self._follows:
            self._follows[op] = False
            for operand in op.operands:
                maker = self.of(operand)
                if maker is None or len(set(readers_of(maker.results[0]))) != 1:
                    continue
                contracts = is_reduction(maker) and not is_row_reduction(maker)
                # No kernel stores a permuted tile, and none should store a wider one than it must.
                ends = is_rearrangement(maker) or widens(maker)
                chains = is_elementwise(maker) and not ends and self.follows_contraction(maker)
                self._follows[op] = self._follows[op] or contracts or chains
        return self._follows[op]


@dataclass
class _Group:
    """What becomes one kernel, from one reduction on."""

    seed: Operation
    order: dict[Operation, int]
    free: set[Operation]
    """Ops that are in no kernel yet."""
    makers: _Makers
    device: str
    passes: int = 0
    _members: set[Operation] = field(default_factory=set[Operation], init=False)

    def in_order(self) -> list[Operation]:
        """The members in the order of the block."""
        return sorted(self._members, key=self.order.__getitem__)

    def grow(self) -> Refusal | None:
        """Take all that joins; why not even the seed is a kernel, if it is none."""
        self._members = {self.seed}
        alone = self._read()
        if isinstance(alone, Refusal):
            return alone
        self._forwards(checks=False)
        self._backwards(checks=False)
        if isinstance(self._read(), Refusal):
            self._members = {self.seed}
            self._forwards(checks=True)
            self._backwards(checks=True)
        found = self._read()
        if isinstance(found, Refusal):
            return found
        self.passes = found.passes
        return None

    def own_aliases(self) -> None:
        """Let members read each other through reshapes that nobody else reads."""
        for op in self._members:
            for number, operand in enumerate(op.operands):
                op.operands[number] = self._own(operand)

    def _own(self, value: SSAValue) -> SSAValue:
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name not in ALIASES:
            return value
        if self.makers.of(value) not in self._members:
            return value
        if all(use.operation in self._members for use in value.uses):
            return value
        clone = owner.clone()
        Rewriter.insert_op(clone, InsertPoint.before(owner))
        self.order[clone] = self.order[owner]
        clone.operands[0] = self._own(owner.operands[0])
        return clone.results[0]

    def _forwards(self, *, checks: bool) -> None:
        """Take the ops behind the seed that read members, and nothing that waits for members
        otherwise."""
        waiting: set[Operation] = set()
        end = self._last_reader(self.seed)
        for op in self._behind_seed():
            if self.order[op] > end:
                return
            makers = {self.makers.of(operand) for operand in _read_by(op)}
            if not makers & (self._members | waiting):
                continue
            may = op in self.free and (is_elementwise(op) or is_row_reduction(op))
            if may and not makers & waiting and len(self._members) < MAX_OPS:
                self._members.add(op)
                if not checks or not isinstance(self._read(), Refusal):
                    end = max(end, self._last_reader(op))
                    continue
                self._members.discard(op)
            waiting.add(op)

    def _last_reader(self, op: Operation) -> int:
        """Where the last op of the block stands that reads what `op` computes."""
        block = self.seed.parent
        assert block is not None
        readers = {reader for result in op.results for reader in readers_of(result)}
        found = (block.find_ancestor_op_in_block(reader) for reader in readers)
        return max((self.order.get(each, 0) for each in found if each is not None), default=0)

    def _behind_seed(self) -> Iterator[Operation]:
        """The ops behind the seed in its block, in order."""
        op: Operation | None = self.seed.next_op
        while op is not None:
            if op in self.order and op.name not in ALIASES:
                yield op
            op = op.next_op

    def _backwards(self, *, checks: bool) -> None:
        """Take what only members read, but for the epilogues of contractions."""
        pending = list(self._members)
        while pending:
            for operand in pending.pop().operands:
                maker = self.makers.of(operand)
                if maker is None or maker in self._members or not self._may_precede(maker):
                    continue
                self._members.add(maker)
                if checks and isinstance(self._read(), Refusal):
                    self._members.discard(maker)
                else:
                    pending.append(maker)

    def _may_precede(self, op: Operation) -> bool:
        if op not in self.free or not is_elementwise(op) or len(self._members) >= MAX_OPS:
            return False
        readers = {reader for result in op.results for reader in readers_of(result)}
        if not readers <= self._members:
            return False
        # A contraction of a GPU writes its channels as neighbours; rows are read in any order.
        is_read_here = self.device == CUDA and is_rearrangement(op)
        # What a contraction's tile is widened to would be stored and read wide.
        return is_read_here or widens(op) or not self.makers.follows_contraction(op)

    def _read(self) -> RowProgram | Refusal:
        """The group as passes over rows, or why it is none."""
        members = self.in_order()
        last = self.order[members[-1]]
        results: list[SSAValue] = []
        for op in members:
            for result in op.results:
                outside = [reader for reader in readers_of(result) if reader not in self._members]
                if any(self.order.get(reader, last + 1) < last for reader in outside):
                    return Refusal("another op waits for a part of it")
                if outside:
                    results.append(result)
        arguments: dict[SSAValue, int] = {}

        def argument(value: SSAValue) -> int:
            return arguments.setdefault(value, len(arguments))

        return _readers()[self.device](members, results, argument)


@cache
def _readers() -> dict[str, Callable[..., RowProgram | Refusal]]:
    """What reads a group as passes over rows that a device's kernels compute."""
    # The host needs none of the kernel families.
    from convir.lowering.kernels.cuda.reduction.problem import read_on_gpu  # noqa: PLC0415

    return {HOST: read_rows, CUDA: read_on_gpu}


def is_rearrangement(op: Operation) -> bool:
    """Whether `op` has its operand's elements in another order."""
    view = structured(op)
    if view is None or len(view.inputs) != 1 or set(view.iterators) != {"parallel"}:
        return False
    terminator = view.body.last_op
    return terminator is not None and terminator.operands[0] is view.body.args[0]


def widens(op: Operation) -> bool:
    """Whether `op` computes larger elements of smaller ones, which are all that it reads."""
    view = structured(op)
    if view is None or len(op.results) != 1:
        return False
    written = _element_bytes(op.results[0])
    return all(_element_bytes(each) < written for each in view.inputs)


def _element_bytes(value: SSAValue) -> int:
    """Of an element of a tensor, or of a number."""
    kind = value.type
    if isinstance(kind, TensorType):
        kind = cast("TensorType[Attribute]", kind).element_type
    return element_bytes(kind)


def _read_by(op: Operation) -> Sequence[SSAValue]:
    """What `op` and the ops inside it read."""
    if not op.regions:
        return op.operands
    return [operand for each in op.walk() for operand in each.operands]


@dataclass(frozen=True)
class FuseRowsPass(ModulePass):
    """Put reductions along the same rows, and what lies between them, into one region each."""

    name = "fuse-rows"

    device: str = HOST
    """Whose kernels they become: `host` or `cuda`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block.

        Raises:
            PassFailedException: there is no such device.
        """
        check_device(self.device)
        for function in list(op.walk()):
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                eliminate_dead_code(function)
                block = function.body.block
                if self.device == HOST:
                    self._fuse_for_host(block)
                else:
                    fuse_rows(block, self.device)

    def _fuse_for_host(self, block: Block) -> None:
        # A GPU needs none of the host's families.
        from convir.lowering.regions.fuse_attention import fuse_attention  # noqa: PLC0415
        from convir.lowering.regions.fuse_windows import fuse_windows  # noqa: PLC0415

        for pool in fuse_windows(block):
            remarks.fired(self.name, pool, "its windows and their padding are one kernel")
        fuse_rows(block, self.device)
        fuse_attention(block, self.name)
