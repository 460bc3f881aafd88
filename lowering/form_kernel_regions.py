"""`form-kernel-regions`: tensor ops are grouped into what will be one launch each.

    rewrite: %0 = contraction; %1 = generic %0; %2 = insert_slice %1 …
             --> %2 = kernel.region { … kernel.yield %2 }

A contraction takes the single-use chain behind it: elementwise generics that read each element
once, and the insertions that store it, so that all phases of one backward data convolution meet
in one region; slices, zero padding and rearrangements in front of it are part of its addressing.
Everything else takes the cheap producers that only it reads. Reshapes at a border stay outside:
on dense buffers they are another name of the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from convir.dialects import kernel
from convir.dialects.conv_constant import ConstantOp
from convir.dialects.slices import slice_view
from convir.dialects.structured import structured
from convir.dialects.zeros import constant_fill_of, is_zero
from convir.lowering.loops.pointwise import is_pointwise
from convir.lowering.operand_access import rearrangement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

ALIASES = frozenset({"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"})
"""Ops whose result is their operand's memory under another type."""

FREE = frozenset({"tensor.empty", "tensor.splat", "arith.constant", "linalg.fill", "tensor.dim"})
"""Ops that every kernel which needs them repeats, rather than reads from memory."""

MAX_CLUSTER = 48
"""The most ops that join a cluster: their loops are one expression, nested as deep as the chain."""


def form_regions(block: Block) -> None:
    """Wrap the tensor ops of `block` in kernel regions."""
    _return_tensors(block)
    compute = [op for op in block.ops if _is_compute(op)]
    groups = _Groups({op: i for i, op in enumerate(compute)})
    for op in compute:
        if is_reduction(op):
            _take_epilogue(op, groups)
    for op in reversed(compute):
        _join_reader(op, groups)
    order = {op: i for i, op in enumerate(block.ops)}
    for members in groups.members():
        _wrap(_with_aliases(members), order)


def is_reduction(op: Operation) -> bool:
    """Whether an element of the op's results costs a loop."""
    view = structured(op)
    return view is not None and bool(view.loops_of("reduction"))


@dataclass
class _Groups:
    """Disjoint sets of ops, each named by its smallest position."""

    position: dict[Operation, int]
    _parent: dict[int, int] = field(default_factory=dict[int, int])
    _size: dict[int, int] = field(default_factory=dict[int, int])

    def find(self, op: Operation) -> int | None:
        """The name of the group of `op`; None if it is in none."""
        name = self.position.get(op)
        while name is not None and name in self._parent:
            name = self._parent[name]
        return name

    def merge(self, a: Operation, b: Operation) -> None:
        """Make one group of those of `a` and `b`."""
        first, second = self.find(a), self.find(b)
        if first is None or second is None or first == second:
            return
        self._parent[max(first, second)] = min(first, second)
        self._size[min(first, second)] = self.size(first) + self.size(second)

    def size(self, group: int) -> int:
        """The number of ops in a group."""
        return self._size.get(group, 1)

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
        return any(is_reduction(op) for op in self.position if self.find(op) == group)


def _is_compute(op: Operation) -> bool:
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
    return any(reader.has_trait(IsTerminator) for reader in _readers(op))


def _return_tensors(block: Block) -> None:
    """Let a kernel compute every scalar that is returned, as a tensor of one element."""
    returned = block.last_op
    assert returned is not None
    for i, value in enumerate(returned.operands):
        if isinstance(value.type, TensorType) or not isinstance(value.owner, Operation):
            continue
        computed = tensor.FromElementsOp(value, result_type=TensorType(value.type, []))
        read = tensor.ExtractOp(computed.result, [], value.type)
        computed.location = read.location = value.owner.location
        block.insert_ops_before([computed, read], returned)
        returned.operands[i] = read.result


def _take_epilogue(op: Operation, groups: _Groups) -> None:
    """Grow a reduction's group along the chain that reads each element of its result once.

    Where two reductions meet in an op (a residual addition), it is the first one's epilogue: a
    kernel contracts once. Only stores into one destination, the phases of one result, join.
    """
    while len(op.results) == 1:
        user = _only_user(op.results[0])
        if user is None or user not in groups.position or is_reduction(user):
            return
        if not (_reads_once(user, op.results[0]) or _stores(user)):
            return
        other = groups.find(user)
        if other is not None and groups.has_reduction(other) and not _stores(user):
            return
        groups.merge(op, user)
        op = user


def _join_reader(op: Operation, groups: _Groups) -> None:
    """Join a cheap op to the group that reads it, where one group reads all of it."""
    if is_reduction(op):
        return
    own = groups.find(op)
    readers = {groups.find(user) for user in _readers(op)}
    if len(readers) != 1:
        return
    reader = readers.pop()
    if reader is None or reader == own:
        return
    if groups.has_reduction(reader) and not (_is_addressing(op) and _is_read_directly(op)):
        return
    target = next(user for user in _readers(op) if groups.find(user) == reader)
    groups.merge(op, target)


def _is_addressing(op: Operation) -> bool:
    """Whether `op` only says where a reader finds its elements: a slice, zeros around, a flip.

    A reduction reads an element many times; these cost it an offset and a bound, not a copy.
    """
    if rearrangement(op) is not None:
        return True
    view = slice_view(op)
    if view is None or view.kind == "insert_slice":
        return False
    return view.kind == "extract_slice" or (view.fill is not None and is_zero(view.fill))


def _is_read_directly(op: Operation) -> bool:
    """Whether every reader takes elements of `op` where an addressing says they are.

    Behind a reshape they are elsewhere (an im2col matrix is written to memory), and what a
    contraction adds to is memory that it writes.
    """
    for use in (use for result in op.results for use in result.uses):
        view = structured(use.operation)
        if use.operation.name in ALIASES or (view is not None and use.index >= len(view.inputs)):
            return False
    return True


def readers_of(value: SSAValue) -> Iterable[Operation]:
    """The ops that read `value`, looking through aliases."""
    for use in value.uses:
        if use.operation.name in ALIASES:
            yield from _readers(use.operation)
        else:
            yield use.operation


def _readers(op: Operation) -> Iterable[Operation]:
    for result in op.results:
        yield from readers_of(result)


def _only_user(value: OpResult) -> Operation | None:
    uses = list(value.uses)
    if len(uses) != 1 or uses[0].operation.parent is not value.op.parent:
        return None
    return uses[0].operation


def _reads_once(user: Operation, value: SSAValue) -> bool:
    """Whether `user` computes elementwise and reads each element of `value` exactly once."""
    if is_pointwise(user):
        return True
    view = structured(user)
    if view is None or set(view.iterators) != {"parallel"}:
        return False
    reading = [m for m, operand in zip(view.maps, view.operands, strict=True) if operand is value]
    return len(reading) == 1 and reading[0].inverse_permutation() is not None


def _stores(user: Operation) -> bool:
    view = slice_view(user)
    return view is not None and view.kind == "insert_slice"


def _with_aliases(members: list[Operation]) -> list[Operation]:
    """`members` and the reshapes between them, which only they read."""
    inside = set(members)
    result: list[Operation] = []

    def add_operands(op: Operation) -> None:
        for operand in op.operands:
            owner = operand.owner
            if not isinstance(owner, Operation) or owner.name not in ALIASES or owner in inside:
                continue
            source = owner.operands[0].owner
            if source not in inside or any(use.operation not in inside for use in operand.uses):
                continue
            inside.add(owner)
            result.append(owner)

    for op in members:
        add_operands(op)
        result.append(op)
    return result


def _wrap(members: list[Operation], order: dict[Operation, int]) -> None:
    """Move `members` into one region at the place of the last of them."""
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
                _wrap([op], order)
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


@dataclass(frozen=True)
class FormKernelRegionsPass(ModulePass):
    """Group the tensor ops of every function into kernel regions."""

    name = "form-kernel-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block."""
        for function in list(op.walk()):
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                form_regions(function.body.block)
