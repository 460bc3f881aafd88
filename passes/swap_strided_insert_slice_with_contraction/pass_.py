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
slices and reshapes; the reader is a contraction (`convir.analysis.contraction`); at least one
scattered dimension is indexed by one loop that runs more than once, and by no window of several
taps; FLOPs fall. A hole counts as zero whatever it is multiplied with: 0 · Inf is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xdsl.passes import ModulePass

from convir.analysis.refusal import NoMatch, Refusal
from convir.analysis.values.zeros import fill_of
from convir.passes.builders.scattered_contraction import (
    RewriteReaders,
    contraction_of,
    followers_of,
    holes_of,
    is_strided,
    part_of_init,
)
from convir.passes.builders.structured_rebuild import rebuilt
from convir.passes.manager.fixpoint import leaves_unchanged
from convir.passes.manager.quantities import flops_change
from convir.passes.swap_strided_insert_slice_with_contraction.match import Restriction, restrict

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from convir.analysis.scatter.elementwise import Elementwise
    from convir.analysis.scatter.placement import Digits
    from convir.analysis.scatter.scattered_tensor import Scatter
    from convir.analysis.values.scalars import Constant
    from convir.passes.builders.tensor_builder import TensorBuilder


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
    def replaced(self) -> list[Operation]:
        """The contraction and its followers; the scatter takes over the last one's result."""
        return [self.restriction.dims.op, *(follower.view.op for follower in self.followers)]

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
            change = flops_change(dims.flops, round(dims.flops / saving))
            gain = f"{change} ({saving:.4g}x fewer)"
        if not self.restriction.scatters_result:
            return f"{gain}; only the reduction shrinks, so that nothing is scattered afterwards"
        if not self.followers:
            return f"{gain}; the result is scattered instead"
        ops = "op" if len(self.followers) == 1 else "ops"
        return f"{gain}; the result is scattered after {len(self.followers)} elementwise {ops}"

    def build(self, builder: TensorBuilder) -> SSAValue:
        """What takes the place of the last op's result."""
        restriction, dims = self.restriction, self.restriction.dims
        source = builder.source_of(restriction.scatter, restriction.kept)
        other = builder.gather(dims.inputs[1 - restriction.operand].value, restriction.other)
        inputs = (source, other) if restriction.operand == 0 else (other, source)
        init = dims.out.value
        if restriction.scatters_result:
            init = part_of_init(builder, init, self.fill, restriction.result)
        value = builder.insert(rebuilt(dims.view, (*inputs, init), restriction.maps))
        for follower in self.followers:
            value = builder.at(follower.view.op).elementwise(follower, value)
        last = self.replaced[-1]
        builder = builder.at(last)
        if restriction.scatters_result:
            holes = holes_of(builder, dims.out.value, self.fill, self.followers, self.result)
            value = builder.scatter(value, holes, self.result)
        return builder.cast(value, last.results[0].type)


@dataclass(frozen=True)
class TooLittleGain(Refusal):
    """The rewrite would be right, and is not worth it."""


def plan_swap(op: Operation, operand: int, scatter: Scatter) -> Swap | Refusal:
    """Decide how the contraction `op` may skip the holes of its input number `operand`."""
    dims = contraction_of(op, scatter)
    if isinstance(dims, Refusal):
        return dims
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
    scatters_result = restriction.scatters_result
    followers = followers_of(op, restriction.result, fill) if scatters_result else ()
    return Swap(restriction, fill, followers)


def plan_news(op: Operation, position: int, scatter: Scatter) -> Swap | Refusal:
    """The plan, without a reason where only the padding of an ordinary convolution is met."""
    swap = plan_swap(op, position, scatter)
    is_news = is_strided(scatter.op) or isinstance(swap, Swap | TooLittleGain)
    return swap if is_news else NoMatch()


@dataclass(frozen=True)
class SwapStridedInsertSliceWithContractionPass(ModulePass):
    """Contract first, scatter the smaller result."""

    name = "swap-strided-insert-slice-with-contraction"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        if not RewriteReaders(self.name, plan_news).rewrite_module(op):
            leaves_unchanged(op)
