"""`swap-strided-insert-slice-with-contraction`: contract first, scatter the smaller result.

    rewrite: %s = insert_slice %x into zeros [o] [n] [s]     %c = contraction(%x, %w) outs(init')
             %c = contraction(%s, %w) outs(init)         --> %r = elementwise(%c)
             %r = elementwise(%c)                            %y = insert_slice %r into holes

A scattered operand is zero between its elements, and so are the products there. Where one loop
alone indexes a scattered dimension, the loop need only meet the elements:

- a loop of the result (m, n or batch) then leaves gaps in the result, which hold what the init
  held, after the elementwise ops that follow; the result is scattered instead of the operand;
- a reduced loop leaves no gaps: the other operand is sliced, or its window takes larger steps.

Preconditions: the operand traces to an `insert_slice` into zeros or a `pad` with zeros, through
slices and reshapes; the reader is a contraction (`convir.dialects.contraction`); at least one
scattered dimension is indexed by one loop that runs more than once, and by no window of several
taps; FLOPs fall. A hole counts as zero whatever it is multiplied with: 0 · Inf is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith, tensor
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.rewriter import InsertPoint

from convir.dialects.contraction import contraction_dims
from convir.dialects.elementwise import Elementwise, elementwise
from convir.dialects.refusal import Refusal
from convir.dialects.scatter import LostScatter, scatter_of
from convir.dialects.slices import is_encoded, slice_view
from convir.dialects.structured import structured
from convir.dialects.zeros import fill_of, is_zero
from convir.passes import remarks
from convir.passes.loop_restriction import Restriction, restrict
from convir.passes.structured_rebuild import rebuilt
from convir.passes.tensor_builder import (
    TensorBuilder,
    element_counts,
    element_type_of,
    flattened,
    tensor_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from convir.dialects.placement import Digits
    from convir.dialects.scalars import Constant
    from convir.dialects.scatter import Scatter

PASS: Final = "swap-strided-insert-slice-with-contraction"

# Padding without a stride is dropped only where that at least halves the work, as the smallest
# stride does: shapes are also padded on purpose, for alignment, by a few per cent.
MIN_PADDING_SAVING: Final = 2.0


@dataclass(frozen=True)
class Swap:
    """One rewrite, fully decided."""

    restriction: Restriction
    fill: SSAValue | Constant | None
    """What the init holds everywhere; None if it is not uniform."""
    followers: tuple[Elementwise, ...]
    """The elementwise ops after the contraction that run before the scatter from now on."""

    @property
    def last(self) -> Operation:
        """The op whose result the scatter takes over."""
        return self.followers[-1].view.op if self.followers else self.restriction.dims.op

    @property
    def result(self) -> tuple[Digits, ...]:
        """The elements of each dimension of the last op's result that are still computed."""
        return self.followers[-1].result if self.followers else self.restriction.result

    @property
    def reason(self) -> str:
        """What is gained, for a remark."""
        dims, saving = self.restriction.dims, self.restriction.saving
        gain = f"{saving:.4g}x fewer FLOPs"
        if dims.flops is not None:
            gain = f"{dims.flops} -> {round(dims.flops / saving)} FLOPs ({saving:.4g}x fewer)"
        if not self.restriction.scatters_result:
            return f"{gain}; only the reduction shrinks, so that nothing is scattered afterwards"
        if not self.followers:
            return f"{gain}; the result is scattered instead"
        ops = "op" if len(self.followers) == 1 else "ops"
        return f"{gain}; the result is scattered after {len(self.followers)} elementwise {ops}"


@dataclass(frozen=True)
class TooLittleGain(Refusal):
    """The rewrite would be right, and is not worth it."""


def plan_swap(op: Operation, operand: int, scatter: Scatter) -> Swap | Refusal:
    """Decide how the contraction `op` may skip the holes of its input number `operand`."""
    dims = contraction_dims(op)
    if isinstance(dims, Refusal):
        return Refusal(f"{op.name}, which reads it, is no contraction: {dims}")
    if len(op.results) != 1:
        return Refusal(f"{op.name}, which reads it, writes to a buffer")
    if any(is_encoded(value) for user in (op, *scatter.path) for value in user.operands):
        return Refusal("a tensor has an encoding, which says nothing of tensors of other shapes")
    restriction = restrict(dims, operand, scatter)
    if isinstance(restriction, Refusal):
        return Refusal(f"in {op.name}, which reads it, {restriction}")
    if restriction.saving <= 1:
        return TooLittleGain("no FLOPs are saved")
    if not restriction.strided and restriction.saving < MIN_PADDING_SAVING:
        return TooLittleGain(
            f"it only pads, and without the padding {op.name} has"
            f" {restriction.saving:.4g}x fewer FLOPs, not {MIN_PADDING_SAVING:.4g}x"
        )
    fill = fill_of(dims.out.value)
    return Swap(restriction, fill, _followers(op, restriction, fill))


def _followers(
    op: Operation, restriction: Restriction, fill: SSAValue | Constant | None
) -> tuple[Elementwise, ...]:
    """The elementwise ops that use only the result, as far as the holes stay one constant."""
    if fill is None or isinstance(fill, SSAValue) or not restriction.scatters_result:
        return ()
    followers: list[Elementwise] = []
    value, dims, hole = op.results[0], restriction.result, fill
    while True:
        use = value.get_user_of_unique_use()
        if use is None or use.parent is not op.parent:
            return tuple(followers)
        follower = elementwise(use, value, dims, hole)
        if isinstance(follower, Refusal):
            return tuple(followers)
        followers.append(follower)
        value, dims, hole = use.results[0], follower.result, follower.hole


@dataclass(frozen=True)
class SwapScatterWithContraction(RewritePattern):
    """Contract the source of a scatter instead of the scattered tensor."""

    decided: set[Operation] = field(default_factory=set[Operation])
    """The ops of every scatter that a contraction reads."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite `op` if it is a contraction of a scatter."""
        view = structured(op)
        if view is None or all(iterator == "parallel" for iterator in view.iterators):
            return
        for position, operand in enumerate(view.inputs):
            scatter = scatter_of(operand)
            if isinstance(scatter, LostScatter):
                self.decided.update(scatter.path)
                remarks.refused(PASS, scatter.op, scatter.reason)
            if isinstance(scatter, Refusal):
                continue
            self.decided.update(scatter.path)
            swap = plan_swap(op, position, scatter)
            if isinstance(swap, Refusal):
                # The padding of every ordinary convolution comes this way; it is no news.
                if _is_strided(scatter.op) or isinstance(swap, TooLittleGain):
                    remarks.refused(PASS, scatter.op, swap.reason)
                continue
            remarks.fired(PASS, scatter.op, swap.reason)
            rewrite(swap, rewriter)
            return


def rewrite(swap: Swap, rewriter: PatternRewriter) -> None:
    """Carry out `swap`. Every new op stands where the op it replaces stood."""
    restriction = swap.restriction
    dims, op = restriction.dims, restriction.dims.op
    builder = TensorBuilder(rewriter, InsertPoint.before(op), op)
    source = builder.source_of(restriction.scatter, restriction.kept)
    other = builder.gather(dims.inputs[1 - restriction.operand].value, restriction.other)
    inputs = (source, other) if restriction.operand == 0 else (other, source)
    init = _small_init(swap, builder)
    init.name_hint = dims.out.value.name_hint
    result_type = tensor_type(element_type_of(init), element_counts(restriction.result))
    value = builder.insert(rebuilt(dims.view, (*inputs, init), result_type, restriction.maps))
    for follower in swap.followers:
        step = follower.view.op
        step_builder = TensorBuilder(rewriter, InsertPoint.before(step), step)
        value = step_builder.elementwise(follower, value)
    last = swap.last
    if restriction.scatters_result:
        builder = TensorBuilder(rewriter, InsertPoint.before(last), last)
        holes = _holes(swap, builder)
        holes.name_hint = holes.name_hint or "holes"
        value = builder.scatter(value, holes, swap.result)
    value = builder.cast(value, last.results[0].type)
    value.name_hint = last.results[0].name_hint
    rewriter.replace_all_uses_with(last.results[0], value)
    replaced = [op, *(follower.view.op for follower in swap.followers)]
    _erase_unused(rewriter, [*reversed(replaced), *reversed(restriction.scatter.path)])


def _small_init(swap: Swap, builder: TensorBuilder) -> SSAValue:
    """The init of the elements that are still computed."""
    init = swap.restriction.dims.out.value
    if not swap.restriction.scatters_result:
        return init
    if swap.fill is None:
        return builder.gather(init, swap.restriction.result)
    sizes = element_counts(swap.restriction.result)
    if isinstance(init.owner, arith.ConstantOp):
        return builder.filled(swap.fill, sizes)
    return builder.fill(swap.fill, sizes)


def _holes(swap: Swap, builder: TensorBuilder) -> SSAValue:
    """The tensor that the result is scattered into, with one dimension per placement."""
    placed = flattened(swap.result)
    sizes = [placement.extent for placement in placed]
    if swap.followers:
        return builder.constant(swap.followers[-1].hole, sizes)
    if swap.fill is not None:
        return builder.filled(swap.fill, sizes)
    return builder.reshape(swap.restriction.dims.out.value, sizes)


# Ops that only make values, removed with their last use: stock xDSL does not know it of all.
_DISPOSABLE: Final = frozenset(
    {
        "arith.constant",
        "linalg.fill",
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.dim",
        "tensor.empty",
        "tensor.expand_shape",
        "tensor.extract_slice",
        "tensor.insert_slice",
        "tensor.pad",
        "tensor.splat",
    }
)


def _erase_unused(rewriter: PatternRewriter, roots: list[Operation]) -> None:
    """Erase the ops in `roots` that have no uses left, and what only they used."""
    pending = list(reversed(roots))
    erased: set[Operation] = set()
    while pending:
        op = pending.pop()
        if op in erased or any(result.first_use is not None for result in op.results):
            continue
        if op not in roots and op.name not in _DISPOSABLE:
            continue
        owners = [operand.owner for operand in op.operands]
        rewriter.erase(op)
        erased.add(op)
        pending.extend(owner for owner in owners if isinstance(owner, Operation))


def _is_strided(op: Operation) -> bool:
    view = slice_view(op)
    return view is not None and view.strided


def _report_unread(scatters: Sequence[Operation], decided: set[Operation]) -> None:
    """Say of every strided scatter that no contraction reads why it was left."""
    for op in scatters:
        if op.parent is None or op in decided:
            continue
        view = slice_view(op)
        if view is None or view.dest is None or not is_zero(view.dest):
            remarks.refused(PASS, op, "it is not inserted into zeros")
        else:
            remarks.refused(PASS, op, "no contraction reads it")


@dataclass(frozen=True)
class SwapStridedInsertSliceWithContractionPass(ModulePass):
    """Contract first, scatter the smaller result."""

    name = PASS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        scatters = [
            inner
            for inner in op.walk()
            if isinstance(inner, tensor.InsertSliceOp) and _is_strided(inner)
        ]
        pattern = SwapScatterWithContraction()
        PatternRewriteWalker(pattern).rewrite_module(op)
        _report_unread(scatters, pattern.decided)
