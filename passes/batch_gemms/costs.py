"""What the samples of `batch-gemms` take beside their operands, and how many at once that suggests.

All samples at once need a workspace for each. Where that exceeds what caches hold they run in
chunks, as few and as even as fit, unless preparing what the samples share for each chunk moves more
bytes than the workspace has.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation, SSAValue

from convir.analysis.contraction import ContractionDims, contraction_dims
from convir.analysis.cost import size_in_bytes
from convir.analysis.refusal import Refusal
from convir.passes.batch_gemms.im2col import ImageProduct, image_product
from convir.passes.machine_costs import ASSUMED_SIZE
from convir.passes.manager.quantities import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from convir.passes.batch_gemms.match import Samples
    from convir.passes.machine_costs import MachineCosts


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
    exact: bool = True
    """Whether every size of what a sample takes is known; an open one counts as `ASSUMED_SIZE`."""


def traffic_of(samples: Samples, costs: MachineCosts) -> Traffic:
    """What the products of `samples` move on a machine of `costs`."""
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
        product = image_product(op) if costs.reads_images else None
        for position, operand in enumerate(dims.inputs):
            if isinstance(product, ImageProduct) and product.position == position:
                unwritten.add(operand.value)
                images.add(product.image)
                continue
            owner = _computed(operand.value, inside)
            if owner is None:
                sample = _computed(dims.inputs[1 - position].value, inside)
                if sample not in samples.leaves or not _are_rows(dims, position, costs):
                    shared.add(operand.value)
                continue
            if costs.packs and not _is_read_in_place(dims, position, costs):
                packed.add(owner)
            if owner not in samples.leaves:
                copied.add(owner)
    written = [op.results[0] for group in (copied, packed) for op in group]
    return Traffic(
        per_sample=_bytes(written),
        per_launch=_bytes(shared) if costs.packs else 0,
        unwritten=_bytes(unwritten),
        images=_bytes(images),
        exact=all(_is_static(value) for value in chain(written, images)),
    )


def _bytes(values: Iterable[SSAValue]) -> int:
    return sum(size_in_bytes(value.type, ASSUMED_SIZE) for value in values)


def _is_static(value: SSAValue) -> bool:
    kind = value.type
    return isinstance(kind, TensorType) and DYNAMIC_INDEX not in kind.get_shape()


def _is_read_in_place(dims: ContractionDims, position: int, costs: MachineCosts) -> bool:
    """Whether products with few rows read input `position`, a sample's matrix, unpacked."""
    operand = dims.inputs[position]
    rows, columns = (dims.m, dims.n) if position == 1 else (dims.n, dims.m)
    if not _is_static(operand.value) or not columns or not operand.index:
        return False
    if _bytes([operand.value]) > costs.cache_bytes:
        return False
    neighbours = operand.index[-1].bare
    follows = neighbours in columns and dims.out.index[-1].bare == neighbours
    whole = operand.shape[-1] % costs.lanes == 0
    heights = [bound for loop in rows if (bound := dims.bounds[loop]) is not None]
    return follows and whole and len(heights) == len(rows) and prod(heights) <= costs.in_place_rows


def _are_rows(dims: ContractionDims, position: int, costs: MachineCosts) -> bool:
    """Whether input `position`, which samples share, has the rows of each sample's product, and is
    not packed: the columns of a sample nearly fill their vectors."""
    sample = dims.inputs[1 - position]
    if not sample.index or sample.index[-1].bare not in (dims.n if position == 0 else dims.m):
        return False
    columns = sample.shape[-1]
    lanes = -(-columns // costs.lanes) * costs.lanes
    return columns > 0 and (lanes - columns) * costs.lanes_per_idle <= lanes


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
    count: int, traffic: Traffic, costs: MachineCosts, given: int | None
) -> tuple[list[int], str]:
    """The sizes of chunks of `count` samples, and why.

    Args:
        count: how many samples there are.
        traffic: what they move.
        costs: whose caches matter.
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
    chunks, reason = _chunks_and_why(count, traffic, int(costs.cache_bytes), given)
    return chunks, f"{reason}{in_place}"


def _chunks_and_why(
    count: int, traffic: Traffic, cached: int, given: int | None
) -> tuple[list[int], str]:
    budget = cached if given is None else given
    per_sample = traffic.per_sample + traffic.images
    total, limit = count * per_sample, bytes_text(budget)
    if given is not None and not traffic.exact:
        return [1] * count, (
            f"{count} samples in turns: their workspace has open sizes, and {limit} at most"
        )
    chunks = chunks_of(count, per_sample, budget)
    if total == 0:
        return chunks, f"{count} samples at once, which need no workspace"
    needed = f"{bytes_text(total)} of workspace"
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
