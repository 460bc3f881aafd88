"""`batch-gemms`: a loop over samples becomes ops over all of them, around one batched contraction.

    rewrite: for n { xcol = im2col(X[n]); Y[n] = matmul(W, xcol) + bias }
             --> Xcol[n, …] = im2col(X); Y[n, k, m] += W[k, c] * Xcol[n, c, m]

and the same unrolled. What all samples share (the weights) gets no batch dimension: it is the
operand of stride 0 of `rt.gemm`. Every sample has its own part of the workspace that im2col fills,
so that none waits for another; the host's kernels read the image instead (`im2col.py`). Where the
workspace of all samples exceeds what caches hold they run in chunks, as few and as even as fit,
unless preparing the weights for each chunk moves more bytes than the workspace has; where there is
none (a 1x1 convolution needs no im2col), all samples run at once. A budget that is given is never
exceeded. Loops inside of loops, over the groups, are batched from the inside out.

Preconditions: samples are one element apart along one dimension of what they read and write; none
reads what another wrote; everything a sample computes has a form for several.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import scf, tensor
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from convir.analysis.contraction import ContractionDims, contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.passes.batch_gemms.im2col import ImageProduct, image_product
from convir.passes.batch_gemms.match import samples_of_chain, samples_of_loop
from convir.passes.batch_gemms.rewrite import Batcher
from convir.passes.fold_constants import bytes_of
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device, check_workspace
from convir.passes.manager.quantities import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, SSAValue

    from convir.passes.batch_gemms.match import Samples

NAME = "batch-gemms"

CACHE_BYTES = {"host": 512 << 10, "cuda": 24 << 20}
"""By device, what stays in its caches while it is written by im2col and read by the product: half
of a core's second level, half of a Hopper GPU's L2."""


READING_IMAGES = frozenset({"host"})
"""The devices whose contraction kernels read images in place of matrices of im2col. A GPU's GEMM
library reads matrices, and has the memory to write them with."""

PACKING = frozenset({"host"})
"""The devices whose products copy their operands into panels: each sample's, and for each launch
what the samples share."""


IN_PLACE_ROWS = 64
"""With so few rows of what is shared, the host's products read a sample that a cache holds where it
lies, instead of packing it."""

VECTOR = 16
"""Elements of the widest vectors: what is read in place has whole ones."""


MOST_LOST = 12
"""One lane of so many may be empty where a sample's columns lie in vectors, for the host's products
to have what is shared as their rows."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that products of samples move beside their operands and results."""

    per_sample: int
    """What one sample writes for a contraction to read: its im2col, and its panels."""
    per_launch: int
    """What the samples share and each launch packs."""
    unwritten: int = 0
    """What im2col of one sample would write, where kernels read the image instead."""
    images: int = 0
    """What such a kernel may copy of one sample, to where the neighbours of its vectors are."""


def traffic_of(samples: Samples, device: str) -> Traffic:
    """What the products of `samples` move on `device`."""
    inside = set(samples.ops)
    copied: set[Operation] = set()
    packed: set[Operation] = set()
    shared: set[SSAValue] = set()
    unwritten: set[SSAValue] = set()
    images: set[SSAValue] = set()
    for op in samples.ops:
        dims = contraction_dims(op)
        if isinstance(dims, Refusal):
            continue
        product = image_product(op) if device in READING_IMAGES else None
        for position, operand in enumerate(dims.inputs):
            if isinstance(product, ImageProduct) and product.position == position:
                unwritten.add(operand.value)
                images.add(product.image)
                continue
            owner = _computed(operand.value, inside)
            if owner is None:
                sample = _computed(dims.inputs[1 - position].value, inside)
                if sample not in samples.leaves or not _are_rows(dims, position):
                    shared.add(operand.value)
                continue
            if device in PACKING and not _is_read_in_place(dims, position, CACHE_BYTES[device]):
                packed.add(owner)
            if owner not in samples.leaves:
                copied.add(owner)
    written = [op.results[0] for group in (copied, packed) for op in group]
    packs = device in PACKING
    return Traffic(
        _bytes(written), _bytes(shared) if packs else 0, _bytes(unwritten), _bytes(images)
    )


def _bytes(values: Iterable[SSAValue]) -> int:
    return sum(bytes_of(value) or 0 for value in values)


def _is_read_in_place(dims: ContractionDims, position: int, most_bytes: int) -> bool:
    """Whether products with few rows read input `position`, a sample's matrix, unpacked."""
    operand = dims.inputs[position]
    size = bytes_of(operand.value)
    rows, columns = (dims.m, dims.n) if position == 1 else (dims.n, dims.m)
    if size is None or size > most_bytes or not columns or not operand.index:
        return False
    neighbours = operand.index[-1].bare
    follows = neighbours in columns and dims.out.index[-1].bare == neighbours
    whole = operand.shape[-1] % VECTOR == 0
    heights = [bound for loop in rows if (bound := dims.bounds[loop]) is not None]
    return follows and whole and len(heights) == len(rows) and prod(heights) <= IN_PLACE_ROWS


def _are_rows(dims: ContractionDims, position: int) -> bool:
    """Whether input `position`, which samples share, has the rows of each sample's product, and is
    not packed: the columns of a sample nearly fill their vectors."""
    sample = dims.inputs[1 - position]
    if not sample.index or sample.index[-1].bare not in (dims.n if position == 0 else dims.m):
        return False
    columns = sample.shape[-1]
    lanes = -(-columns // VECTOR) * VECTOR
    return columns > 0 and (lanes - columns) * MOST_LOST <= lanes


def _computed(value: SSAValue, inside: set[Operation]) -> Operation | None:
    """The op in the sample that computes `value`, behind reshapes; None if none does."""
    owner = value.owner
    while isinstance(owner, tensor.CollapseShapeOp | tensor.ExpandShapeOp):
        owner = owner.src.owner
    return owner if isinstance(owner, Operation) and owner in inside else None


def chunks_of(count: int, per_sample: int, budget: int) -> list[int]:
    """The sizes of chunks of `count` samples whose workspace fits the budget: few, and even.

    Where two do not fit, samples take turns in the workspace of one.
    """
    if per_sample == 0 or count * per_sample <= budget:
        return [count]
    number = -(-count // max(1, budget // per_sample))
    return [count // number + (i < count % number) for i in range(number)]


def choose_chunks(
    count: int, traffic: Traffic, device: str, given: int | None
) -> tuple[list[int], str]:
    """The sizes of chunks of `count` samples, and why.

    Args:
        count: how many samples there are.
        traffic: what they move.
        device: `host` or `cuda`.
        given: the bytes of workspace that must not be exceeded; None if only caches matter.
    """
    in_place = ""
    if traffic.unwritten:
        in_place = (
            "; images are read in place, "
            f"{bytes_text(count * traffic.unwritten)} of im2col are not written"
        )
    if in_place and not traffic.per_sample and given is None:
        return [count], f"{count} samples at once{in_place}"
    chunks, reason = _chunks_and_why(count, traffic, device, given)
    return chunks, f"{reason}{in_place}"


def _chunks_and_why(
    count: int, traffic: Traffic, device: str, given: int | None
) -> tuple[list[int], str]:
    budget = CACHE_BYTES[device] if given is None else given
    per_sample = traffic.per_sample + traffic.images
    total = count * per_sample
    limit, needed = bytes_text(budget), f"{bytes_text(total)} of workspace"
    chunks = chunks_of(count, per_sample, budget)
    if total == 0:
        return chunks, f"{count} samples at once, which need no workspace"
    if len(chunks) == 1:
        return chunks, f"{count} samples at once: {needed} are within {limit}"
    again = (len(chunks) - 1) * traffic.per_launch
    if given is None and again > total:
        return [count], (
            f"{count} samples at once: {needed} exceed {limit}, but "
            f"{len(chunks)} chunks pack {bytes_text(again)} of what they share again"
        )
    peak = max(chunks) * per_sample
    if len(chunks) == count:
        return chunks, (
            f"{count} samples in turns: {bytes_text(peak)} of workspace, as two exceed {limit}"
        )
    return chunks, (
        f"{count} samples in {len(chunks)} chunks of up to {max(chunks)}: {bytes_text(peak)} of "
        f"workspace, as {bytes_text(total)} exceed {limit}"
    )


def batch(samples: Samples | Refusal, root: Operation, device: str, given: int | None) -> bool:
    """Replace the samples that `root` computes by batched ops; whether that was done."""
    if isinstance(samples, Refusal):
        remarks.refused(NAME, root, samples.reason)
        return False
    contractions = sum(not isinstance(contraction_dims(op), Refusal) for op in samples.ops)
    if not contractions:
        if any(structured(op) is not None for op in samples.ops):
            remarks.refused(NAME, root, "its samples are no matrix products")
        return False
    chunks, reason = choose_chunks(samples.count, traffic_of(samples, device), device, given)
    in_turns = len(chunks) == samples.count and not isinstance(root, scf.ForOp)
    if in_turns and samples.stored.dim not in samples.stored.view.dropped:
        remarks.refused(NAME, root, "its samples are in turns already, each a batch of one")
        return False
    value, begin = samples.stored.source, 0
    built: list[Batcher] = []
    for size in chunks:
        built.append(Batcher(samples, begin, size, device in READING_IMAGES))
        made = built[-1].build(value)
        if isinstance(made, Refusal):
            for batcher in reversed(built):
                batcher.discard()
            remarks.refused(NAME, root, made.reason)
            return False
        value, begin = made, begin + size
    for batcher in built:
        _erase_unread(batcher.block, value)
        for op in list(batcher.block.ops):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(root))
    remarks.fired(NAME, root, reason)
    root.results[0].replace_all_uses_with(value)
    _erase_dead(root)
    return True


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


@dataclass(frozen=True)
class BatchGemmsPass(ModulePass):
    """Batch the matrix products of loops over samples, and of unrolled ones."""

    name: ClassVar[str] = NAME

    workspace_bytes: int | None = None
    """The most that the workspace of a batched product may take, in bytes; if None, what caches
    hold is preferred, and exceeded where that moves fewer bytes."""
    device: str = "host"
    """What the module is compiled for: `host` or `cuda`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on loops, the inner ones first, then on chains of insertions.

        Raises:
            PassFailedException: there is no such device, or no such workspace.
        """
        check_workspace(self.workspace_bytes)
        check_device(self.device)
        for loop in [found for found in op.walk() if isinstance(found, scf.ForOp)][::-1]:
            batch(samples_of_loop(loop), loop, self.device, self.workspace_bytes)
        for last in [found for found in op.walk() if isinstance(found, tensor.InsertSliceOp)]:
            if last.parent is None or _continues(last):
                continue
            samples = samples_of_chain(last)
            if samples is not None:
                batch(samples, last, self.device, self.workspace_bytes)


def _continues(op: tensor.InsertSliceOp) -> bool:
    """Whether another insertion goes on where `op` ends; where two do, a chain ends with `op`."""
    following = (
        use
        for use in op.result.uses
        if isinstance(use.operation, tensor.InsertSliceOp) and use.operation.dest is op.result
    )
    return len(tuple(islice(following, 2))) == 1
