"""`batch-gemms`: a loop over samples becomes ops over all of them, around one batched contraction.

    rewrite: for n { xcol = im2col(X[n]); Y[n] = matmul(W, xcol) + bias }
             --> Xcol[n, …] = im2col(X); Y[n, k, m] += W[k, c] * Xcol[n, c, m]

and the same unrolled. What all samples share (the weights) gets no batch dimension: it is the
operand of stride 0 of `rt.gemm`. Every sample has its own part of the workspace that im2col fills,
so that none waits for another. Where the workspace of all samples exceeds the budget they run in
chunks, as few and as even as fit it; where there is none (a 1x1 convolution needs no im2col), all
samples run at once. Loops inside of loops, over the groups, are batched from the inside out.

Preconditions: samples are one element apart along one dimension of what they read and write; none
reads what another wrote; everything a sample computes has a form for several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import scf, tensor
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from convir.dialects.contraction import contraction_dims
from convir.dialects.refusal import Refusal
from convir.dialects.structured import structured
from convir.passes import remarks
from convir.passes.batched_ops import Batcher
from convir.passes.fold_constants import bytes_of
from convir.passes.sample_templates import samples_of_chain, samples_of_loop

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

    from convir.passes.sample_templates import Samples

NAME = "batch-gemms"

WORKSPACE_BYTES = 4 << 20
"""What stays in the caches of a core while it is written by im2col and read by the product."""


def workspace_of(samples: Samples) -> int:
    """The bytes that one sample writes for a contraction to read: its im2col."""
    inside = set(samples.ops)
    copied: set[Operation] = set()
    for op in samples.ops:
        dims = contraction_dims(op)
        if isinstance(dims, Refusal):
            continue
        for operand in dims.inputs:
            owner = _computed(operand.value, inside)
            if owner is not None and owner not in samples.leaves:
                copied.add(owner)
    return sum(bytes_of(op.results[0]) or 0 for op in copied)


def _computed(value: SSAValue, inside: set[Operation]) -> Operation | None:
    """The op in the sample that computes `value`, behind reshapes; None if none does."""
    owner = value.owner
    while isinstance(owner, tensor.CollapseShapeOp | tensor.ExpandShapeOp):
        owner = owner.src.owner
    return owner if isinstance(owner, Operation) and owner in inside else None


def chunks_of(count: int, per_sample: int, budget: int) -> list[int] | Refusal:
    """The sizes of chunks of `count` samples whose workspace fits the budget: few, and even."""
    if per_sample == 0 or count * per_sample <= budget:
        return [count]
    largest = budget // per_sample
    if largest < 2:
        return Refusal(f"one sample's workspace of {per_sample} bytes leaves no room for a second")
    number = -(-count // largest)
    return [count // number + (i < count % number) for i in range(number)]


def batch(samples: Samples | Refusal, root: Operation, budget: int) -> bool:
    """Replace the samples that `root` computes by batched ops; whether that was done."""
    if isinstance(samples, Refusal):
        remarks.refused(NAME, root, samples.reason)
        return False
    contractions = sum(not isinstance(contraction_dims(op), Refusal) for op in samples.ops)
    if not contractions:
        if any(structured(op) is not None for op in samples.ops):
            remarks.refused(NAME, root, "its samples are no matrix products")
        return False
    per_sample = workspace_of(samples)
    chunks = chunks_of(samples.count, per_sample, budget)
    if isinstance(chunks, Refusal):
        remarks.refused(NAME, root, chunks.reason)
        return False
    value, begin = samples.stored.source, 0
    built: list[Batcher] = []
    for size in chunks:
        built.append(Batcher(samples, begin, size))
        made = built[-1].build(value)
        if isinstance(made, Refusal):
            for batcher in reversed(built):
                batcher.discard()
            remarks.refused(NAME, root, made.reason)
            return False
        value, begin = made, begin + size
    for batcher in built:
        for op in list(batcher.block.ops):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(root))
    remarks.fired(NAME, root, _reason(samples.count, chunks, per_sample, budget))
    root.results[0].replace_all_uses_with(value)
    _erase_dead(root)
    return True


def _reason(count: int, chunks: list[int], per_sample: int, budget: int) -> str:
    total = count * per_sample
    if per_sample == 0:
        return f"{count} samples at once, which need no workspace"
    if len(chunks) == 1:
        return f"{count} samples at once: {total} bytes of workspace are within {budget}"
    peak = max(chunks) * per_sample
    return (
        f"{count} samples in {len(chunks)} chunks of up to {max(chunks)}: {peak} bytes of "
        f"workspace, as {total} exceed {budget}"
    )


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


@dataclass(frozen=True)
class BatchGemmsPass(ModulePass):
    """Batch the matrix products of loops over samples, and of unrolled ones."""

    name: ClassVar[str] = NAME

    workspace_bytes: int = WORKSPACE_BYTES
    """The most that the workspace of a batched product may take, in bytes."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on loops, the inner ones first, then on chains of insertions."""
        for loop in [found for found in op.walk() if isinstance(found, scf.ForOp)][::-1]:
            batch(samples_of_loop(loop), loop, self.workspace_bytes)
        for last in [found for found in op.walk() if isinstance(found, tensor.InsertSliceOp)]:
            if last.parent is None or _continues(last):
                continue
            samples = samples_of_chain(last)
            if samples is not None:
                batch(samples, last, self.workspace_bytes)


def _continues(op: tensor.InsertSliceOp) -> bool:
    """Whether another insertion goes on where `op` ends."""
    return any(
        isinstance(use.operation, tensor.InsertSliceOp) and use.operation.dest is op.result
        for use in op.result.uses
    )
