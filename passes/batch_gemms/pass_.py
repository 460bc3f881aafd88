"""`batch-gemms`: a loop over samples becomes ops over all of them, around one batched contraction.

    rewrite: for n { xcol = im2col(X[n]); Y[n] = matmul(W, xcol) + bias }
             --> Xcol[n, …] = im2col(X); Y[n, k, m] += W[k, c] * Xcol[n, c, m]

and the same unrolled. What all samples share (the weights) gets no batch dimension: it is the
operand of stride 0 of `rt.gemm`. Every sample has its own part of the workspace that im2col fills,
so that none waits for another; kernels that read images read the image instead (`im2col.py`). How
many samples run at once is for `sample_costs.py` to say, by what the caches of the target hold;
where there is no workspace (a 1x1 convolution needs no im2col), all do. A budget that is given is
never exceeded. Loops inside of loops, over the groups, are batched from the inside out.

Preconditions: samples are one element apart along one dimension of what they read and write; none
reads what another wrote; everything a sample computes has a form for several.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from xdsl.dialects import scf, tensor
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import NoMatch, Refusal
from convir.analysis.structured import structured
from convir.passes.batch_gemms.costs import choose_chunks, traffic_of
from convir.passes.batch_gemms.match import samples_of_chain, samples_of_loop
from convir.passes.batch_gemms.rewrite import Batcher
from convir.passes.builders.kinds import of_kinds
from convir.passes.manager import remarks
from convir.passes.manager.fixpoint import leaves_unchanged
from convir.passes.manager.option_checks import check_workspace, costs_of

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, SSAValue

    from convir.passes.batch_gemms.match import Samples
    from convir.passes.machine_costs import MachineCosts


@dataclass(frozen=True)
class Plan:
    """Batched ops in blocks of their own, one for each chunk of samples."""

    blocks: tuple[Block, ...]
    value: SSAValue
    """What stands for the result of the samples."""
    reason: str
    """Why so many samples at once."""


def plan_batch(
    samples: Samples, root: Operation, costs: MachineCosts, given: int | None
) -> Plan | Refusal:
    """Build what computes `samples` in the place of `root`, in chunks of `given` bytes at most."""
    if all(isinstance(contraction_dims(op), Refusal) for op in samples.ops):
        computes = any(structured(op) is not None for op in samples.ops)
        return Refusal("its samples are no matrix products") if computes else NoMatch()
    chunks, reason = choose_chunks(samples.count, traffic_of(samples, costs), costs, given)
    in_turns = len(chunks) == samples.count and not isinstance(root, scf.ForOp)
    if in_turns and samples.stored.dim not in samples.stored.view.dropped:
        return Refusal("its samples run one at a time already, each a batch of one")
    value, begin = samples.stored.source, 0
    built: list[Batcher] = []
    for size in chunks:
        built.append(Batcher(samples, begin, size, bool(costs.reads_images)))
        made = built[-1].build(value)
        if isinstance(made, Refusal):
            for batcher in reversed(built):
                batcher.discard()
            return made
        value, begin = made, begin + size
    return Plan(tuple(batcher.block for batcher in built), value, reason)


def _carry_out(plan: Plan, root: Operation) -> None:
    """Let the ops of `plan` compute what `root` did."""
    for block in plan.blocks:
        _erase_unread(block, plan.value)
        for op in list(block.ops):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(root))
    root.results[0].replace_all_uses_with(plan.value)
    _erase_dead(root)


def _erase_unread(block: Block, result: SSAValue) -> None:
    """Erase what was built and is not read: im2col, where the image is read instead."""
    for op in reversed(list(block.ops)):
        unread = all(r.first_use is None and r is not result for r in op.results)
        if unread and is_side_effect_free(op):
            op.detach()
            op.erase()


def _erase_dead(op: Operation) -> None:
    """Erase `op` and what only it read."""
    pending = [op]
    while pending:
        found = pending.pop()
        dead = found.parent is not None and all(r.first_use is None for r in found.results)
        if not dead or not found.results or not (found is op or is_side_effect_free(found)):
            continue
        pending += [v.owner for v in found.operands if isinstance(v.owner, Operation)]
        Rewriter.erase_op(found)


def _continues(op: tensor.InsertSliceOp) -> bool:
    """Whether another insertion goes on where `op` ends; where two do, a chain ends with `op`."""
    following = (
        use
        for use in op.result.uses
        if isinstance(use.operation, tensor.InsertSliceOp) and use.operation.dest is op.result
    )
    return len(tuple(islice(following, 2))) == 1


@dataclass(frozen=True)
class BatchGemmsPass(ModulePass):
    """Batch the matrix products of loops over samples, and of unrolled ones."""

    name = "batch-gemms"

    workspace_bytes: int | None = None
    """The most that the workspace of a batched product may take, in bytes; if None, what caches
    hold is preferred, and exceeded where that moves fewer bytes."""
    costs: str = ""
    """Those of the machine, as `MachineCosts` prints."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on loops, the inner ones first, then on chains of insertions.

        Raises:
            PassFailedException: `costs` are none, or there is no such workspace.
        """
        check_workspace(self.workspace_bytes)
        costs = costs_of(self.costs)
        changed = False
        for loop in [*of_kinds(op.walk(), scf.ForOp)][::-1]:
            changed |= self._batch(samples_of_loop(loop), loop, costs)
        for last in [*of_kinds(op.walk(), tensor.InsertSliceOp)]:
            if last.parent is not None and not _continues(last):
                changed |= self._batch(samples_of_chain(last), last, costs)
        if not changed:
            leaves_unchanged(op)

    def _batch(self, samples: Samples | Refusal, root: Operation, costs: MachineCosts) -> bool:
        plan = (
            samples
            if isinstance(samples, Refusal)
            else plan_batch(samples, root, costs, self.workspace_bytes)
        )
        if isinstance(plan, NoMatch):
            return False
        if isinstance(plan, Refusal):
            remarks.refused(self.name, root, plan.reason)
            return False
        remarks.fired(self.name, root, plan.reason)
        _carry_out(plan, root)
        return True
