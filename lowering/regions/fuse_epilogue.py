"""`fuse-epilogue`: what follows a contraction elementwise becomes a part of its kernel.

    rewrite: %0 = contraction; %1 = generic %0, %bias; %2 = insert_slice %1 …
             --> %2 = kernel.region { … kernel.yield %2 }

A reduction takes the single-use chain behind it: elementwise ops that read each element once and
in place (bias, activation, residual), reshapes between them, and the insertions that store it, so
that all phases of one backward data convolution meet in one region. Slices, zero padding and
rearrangements in front of it are part of its addressing and come along. Whether an implementation
computes all of that in its store is for `select-kernels` to say.

A reshape that takes rows apart goes behind what is computed of the product (`sink_reshapes.py`).
A rearranging op ends the chain: no kernel stores a permuted tile. Where two reductions meet in
an op, it is the first one's, which reads the other's result.

Preconditions: the function has one block; each op of a chain alone reads what the one before it
computes; a group does not wait for what waits for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.ir import Block, Operation, OpResult
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from convir.analysis.contraction import contraction_dims
from convir.analysis.linear import linear_map
from convir.analysis.rearrangement import rearrangement
from convir.analysis.refusal import NoMatch, Refusal
from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.analysis.values.scalars import scalar_constant
from convir.lowering.bodies.operand_access import pad_value, shape_of
from convir.lowering.loops.pointwise import is_pointwise
from convir.lowering.regions.merge_diamonds import merge_diamonds
from convir.lowering.regions.op_groups import (
    ALIASES,
    Groups,
    is_compute,
    is_reduction,
    wrap,
)
from convir.lowering.regions.placements import placing_ops
from convir.lowering.regions.sink_reshapes import sink_reshapes
from convir.passes.dce import eliminate_dead_code
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue, Use

    from convir.analysis.slices import SliceView


def fuse_epilogues(block: Block) -> None:
    """Wrap every reduction of `block`, with what joins it, in a kernel region."""
    placing = placing_ops(block)
    compute = [op for op in block.ops if is_compute(op) and op not in placing]
    groups = Groups({op: i for i, op in enumerate(compute)})
    walked: set[Operation] = set()
    for op in compute:
        if is_reduction(op):
            _take_epilogue(op, groups, walked)
    for op in groups.from_results():
        # What only says where a reduction finds its elements, if it alone reads it.
        if not is_reduction(op) and is_addressing(op) and _is_read_directly(op):
            refusal = groups.join_reader(op, groups.has_reduction)
            if refusal is not None:
                remarks.refused(FuseEpiloguePass.name, op, refusal.reason)
    order = {op: i for i, op in enumerate(block.ops)}
    for members in groups.members():
        if any(is_reduction(op) for op in members):
            wrap(members, order)


def _take_epilogue(reduction: Operation, groups: Groups, walked: set[Operation]) -> None:
    """Grow a reduction's group along the chain that reads each element of its result once.

    Behind an op that was `walked` through, the chain is that of another reduction.
    """
    value, taken = reduction.results[0], list[str]()
    while len(value.op.results) == 1:
        user = _next_in_chain(value, groups)
        if isinstance(user, NoMatch):
            break
        if isinstance(user, Refusal):
            remarks.refused(FuseEpiloguePass.name, reduction, user.reason)
            break
        refusal = groups.merge_refusal(reduction, user)
        if refusal is not None:
            remarks.refused(FuseEpiloguePass.name, reduction, f"with {user.name}, {refusal.reason}")
            break
        groups.merge(reduction, user)
        taken.append(user.name)
        if user in walked:
            break
        walked.add(user)
        value = user.results[0]
    if taken:
        remarks.fired(FuseEpiloguePass.name, reduction, f"it is stored through {_counted(taken)}")


def _counted(names: Sequence[str]) -> str:
    """Each name once, in order, with how often it stands there: `4 tensor.insert_slice`."""
    counts = Counter(names)
    return ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())


def _next_in_chain(value: OpResult, groups: Groups) -> Operation | Refusal:
    """The op that continues a chain behind `value`, or why none does.

    Reshapes between the two are passed over; those at a border end the chain.
    """
    user, is_behind = _only_reader(value, groups), False
    while isinstance(user, Operation) and user.name in ALIASES:
        value = user.results[0]
        user, is_behind = _only_reader(value, groups), True
    if isinstance(user, Operation):
        user = _obstacle(user, value, groups) or user
    return NoMatch() if is_behind and isinstance(user, Refusal) else user


def _only_reader(value: OpResult, groups: Groups) -> Operation | Refusal:
    """The op that alone reads `value`, or why there is none; `NoMatch` where no kernel goes on."""
    if not value.has_one_use():
        count = len(list(value.uses))
        return Refusal(f"its result is read {count} times") if count else NoMatch()
    (use,) = value.uses
    user = use.operation
    if user.has_trait(IsTerminator) or user.parent is not value.op.parent:
        return NoMatch()
    if user.name == "tensor.insert_slice" and user not in groups.position:
        return NoMatch()  # It is computed where it belongs.
    return user


def _obstacle(user: Operation, value: OpResult, groups: Groups) -> Refusal | None:
    """Why `user`, which alone reads `value`, does not continue its chain; None if it does."""
    if user not in groups.position or is_reduction(user):
        return Refusal(f"{user.name} reads its result many times")
    if not (_reads_in_place(user, value) or _stores(user)):
        return Refusal(f"{user.name} rearranges its result")
    other = groups.find(user)
    if other is not None and groups.has_reduction(other) and not _stores(user):
        reason = f"{user.name} follows another contraction, and reads this one's result"
        return Refusal(reason)
    return None


def is_addressing(op: Operation) -> bool:
    """Whether `op` only says where a reader finds its elements: a slice, zeros around, a flip.

    A reduction reads an element many times; these cost it an offset and a bound, not a copy. Beside
    their operands kernels of contractions have zeros, the loops of pools any constant.
    """
    if rearrangement(op) is not None:
        return True
    view = slice_view(op)
    if view is None or view.kind == "insert_slice":
        return False
    if view.kind == "extract_slice":
        return True
    is_known = pad_value(view) is not None or _pads_pools(view)
    return is_known and _pads_windows(view)


def _pads_pools(pad: SliceView) -> bool:
    """Whether a pad writes a constant, and what reads it are reductions but no contractions."""
    if pad.fill is None or scalar_constant(pad.fill) is None:
        return False
    readers = [use.operation for use in pad.result.uses]
    return all(is_reduction(op) and isinstance(contraction_dims(op), Refusal) for op in readers)


def _pads_windows(pad: SliceView) -> bool:
    """Whether readers of a pad walk along all dimensions that it pads: not one that a contraction
    only sums over, such as channels that are filled up."""
    source, padded = shape_of(pad.source), shape_of(pad.result)
    dims = [dim for dim, (a, b) in enumerate(zip(source, padded, strict=True)) if a != b]
    return all(_walks(use, dims) for use in pad.result.uses)


def _walks(use: Use, dims: Sequence[int]) -> bool:
    op = use.operation
    inner, view = slice_view(op), structured(op)
    if inner is not None and inner.kind == "pad":
        return all(_walks(other, dims) for result in op.results for other in result.uses)
    if view is None or isinstance(contraction_dims(op), Refusal):
        return True
    forms = linear_map(view.maps[use.index])
    moving = set(view.loops_of("parallel"))
    return forms is None or all(moving & set(forms[dim].loops) for dim in dims)


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


def _reads_in_place(user: Operation, value: SSAValue) -> bool:
    """Whether `user` computes elementwise, each element of its result from one of `value` at the
    same place."""
    if is_pointwise(user):
        return True
    view = structured(user)
    if view is None or set(view.iterators) != {"parallel"} or len(view.inits) != 1:
        return False
    reading = [m for m, operand in zip(view.maps, view.operands, strict=True) if operand is value]
    return len(reading) == 1 and reading[0] == view.init_maps[0]


def _stores(user: Operation) -> bool:
    view = slice_view(user)
    return view is not None and view.kind == "insert_slice"


@dataclass(frozen=True)
class FuseEpiloguePass(ModulePass):
    """Put every contraction and what follows it elementwise into one kernel region."""

    name = "fuse-epilogue"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block, without what nobody reads there."""
        for function in list(op.walk()):
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                eliminate_dead_code(function)
                sink_reshapes(function.body.block)
                merge_diamonds(function.body.block)
                eliminate_dead_code(function)
                fuse_epilogues(function.body.block)
