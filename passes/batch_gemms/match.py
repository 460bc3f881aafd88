"""Per-sample computations, in a loop or unrolled, read as one sample and where the others differ.

Every sample reads its slice of some tensors, and its result is inserted into its slice of one. The
slices have size 1 along one dimension, over which the samples lie `step` apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects import scf, tensor
from xdsl.ir import Operation, SSAValue

from convir.analysis.dependence import operands_of
from convir.analysis.refusal import NoMatch, Refusal
from convir.analysis.slices import slice_view
from convir.analysis.values.scalars import scalar_constant
from convir.dialects.compat.equivalence import is_equivalent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.analysis.slices import SliceView

DEPENDENT = "a sample reads what another one wrote: they depend on each other"


@dataclass(frozen=True)
class Leaf:
    """A slice that differs between the samples."""

    source: SSAValue
    """The tensor of all samples."""
    view: SliceView
    dim: int
    """The dimension of the source that samples lie along."""
    start: int
    step: int


@dataclass(frozen=True)
class Samples:
    """A number of samples that are computed alike."""

    ops: tuple[Operation, ...]
    """What computes one sample, in order, without the insertion of its result."""
    leaves: Mapping[Operation, Leaf]
    """Those of the ops that read a slice of the sample's own."""
    result: SSAValue
    """One sample's result."""
    stored: Leaf
    """Where it goes; `source` is the tensor before any sample is inserted."""
    count: int
    root: Operation
    """The op whose result holds all samples."""


def samples_of_loop(loop: scf.ForOp) -> Samples | Refusal:
    """The iterations of an `scf.for` as samples, or why they are not independent ones."""
    bounds = [scalar_constant(value) for value in (loop.lb, loop.ub, loop.step)]
    if None in bounds:
        return Refusal("its bounds are not constant")
    lower, upper, step = (int(bound.value.data) for bound in bounds if bound is not None)
    if step < 1:
        return Refusal(f"its step is {step}, which is not positive")
    block = loop.body.block
    terminator = block.last_op
    if len(loop.res) != 1 or terminator is None:
        return Refusal("it carries more than one tensor from sample to sample")
    index, carried = block.args
    inserted = terminator.operands[0].owner
    view = slice_view(inserted) if isinstance(inserted, Operation) else None
    if view is None or view.kind != "insert_slice" or view.dest is not carried:
        return Refusal("what it yields is not the carried tensor with one slice inserted")
    dim = _own_dim(view, index)
    if isinstance(dim, Refusal):
        return dim
    stored = Leaf(loop.iter_args[0], view, dim, lower, step)
    ops = [op for op in block.ops if op not in (terminator, view.op)]
    leaves: dict[Operation, Leaf] = {}
    for op in ops:
        if {index, carried}.isdisjoint(operands_of(op)):
            continue
        leaf = _loop_leaf(op, index, carried, stored)
        if isinstance(leaf, Refusal):
            return leaf
        leaves[op] = leaf
    count = max(0, -(-(upper - lower) // step))
    return Samples(tuple(ops), leaves, view.source, stored, count, loop)


def _loop_leaf(op: Operation, index: SSAValue, carried: SSAValue, stored: Leaf) -> Leaf | Refusal:
    view = slice_view(op)
    if view is None or view.kind != "extract_slice":
        if carried in operands_of(op):
            return Refusal(
                f"{op.name} reads what other samples wrote: samples depend on each other"
            )
        return Refusal(f"{op.name} uses the loop index as a number")
    if view.source is carried and not _same_place(view, stored.view):
        return Refusal(DEPENDENT)
    dim = _own_dim(view, index)
    if isinstance(dim, Refusal):
        return dim
    source = stored.source if view.source is carried else view.source
    return Leaf(source, view, dim, stored.start, stored.step)


def _own_dim(view: SliceView, index: SSAValue) -> int | Refusal:
    """The dimension along which a slice takes the one element at `index`."""
    dims = [dim for dim, offset in enumerate(view.mixed_offsets) if offset is index]
    if len(dims) != 1 or view.sizes[dims[0]] != 1:
        return Refusal("a sample's slice is not one element along one dimension")
    return _checked(view, dims[0])


def _checked(view: SliceView, dim: int) -> int | Refusal:
    others = [d for d in range(view.rank) if d != dim]
    static = all(view.offsets[d] is not None for d in others)
    if not static or None in view.sizes or None in view.strides:
        return Refusal("a slice has sizes, strides or other offsets that are not constant")
    return dim


def _same_place(one: SliceView, other: SliceView) -> bool:
    return (
        one.mixed_offsets == other.mixed_offsets
        and one.sizes == other.sizes
        and one.strides == other.strides
    )


def samples_of_chain(last: Operation) -> Samples | Refusal:
    """A chain of insertions that ends with `last` as samples."""
    views = _chain(last)
    if len(views) < 2:
        return NoMatch()
    dims = [d for d in range(views[0].rank) if views[0].offsets[d] != views[1].offsets[d]]
    if len(dims) != 1 or views[0].sizes[dims[0]] != 1 or views[0].dest is None:
        return NoMatch()
    (dim,) = dims
    starts = [view.offsets[dim] for view in views]
    if None in starts:
        return NoMatch()
    start, second = cast("list[int]", starts[:2])
    step = second - start
    if step < 1 or starts != [start + step * i for i in range(len(views))]:
        return Refusal("the insertions are not evenly spaced")
    for view in views:
        same = all(view.offsets[d] == views[0].offsets[d] for d in range(view.rank) if d != dim)
        if isinstance(_checked(view, dim), Refusal) or not same:
            return Refusal("the insertions differ in more than one offset")
    stored = Leaf(views[0].dest, views[0], dim, start, step)
    reader = _Unrolled(views, stored)
    refusal = reader.compare()
    if refusal is not None:
        return refusal
    return Samples(tuple(reader.ops), reader.leaves, views[0].source, stored, len(views), last)


def _chain(last: Operation) -> list[SliceView]:
    """The insertions of slices of one shape that end with `last`, first one first."""
    views: list[SliceView] = []
    op: object = last
    while isinstance(op, tensor.InsertSliceOp):
        view = slice_view(op)
        if view is None or view.dest is None:
            break
        if views and (view.sizes, view.strides) != (views[0].sizes, views[0].strides):
            break
        if views and not _goes_on_once(op.result):
            break
        views.append(view)
        op = view.dest.owner
    return views[::-1]


def _goes_on_once(value: SSAValue) -> bool:
    """Whether what reads a tensor with some samples in it may be the next sample, and only one."""
    insertions = 0
    for use in value.uses:
        insertions += isinstance(use.operation, tensor.InsertSliceOp)
        if insertions > 1:
            return False
        if not isinstance(use.operation, tensor.InsertSliceOp | tensor.ExtractSliceOp):
            return False
    return True


class _Unrolled:
    """Compares what computes the samples of a chain."""

    def __init__(self, views: Sequence[SliceView], stored: Leaf) -> None:
        self.views = views
        self.stored = stored
        self.ops: list[Operation] = []
        self.leaves: dict[Operation, Leaf] = {}
        self._chain = {view.op for view in views}
        self._others: dict[Operation, list[Operation]] = {}
        """By op of the first sample, the ops of all."""
        self._shared: set[SSAValue] = set()

    def compare(self) -> Refusal | None:
        """Collect the ops of the first sample; why the others do not compute alike."""
        refusal = self._same([view.source for view in self.views])
        if refusal is None and any(not self._shared.isdisjoint(op.results) for op in self.ops):
            return Refusal("a sample reads the computation of another sample")
        return refusal

    def _same(self, values: Sequence[SSAValue]) -> Refusal | None:
        """Compare one value of each sample with the first one's, operands first."""
        pending: list[Sequence[SSAValue] | Operation] = [values]
        while pending:
            item = pending.pop()
            if isinstance(item, Operation):
                self.ops.append(item)
                continue
            below = self._below(item)
            if isinstance(below, Refusal):
                return below
            pending.extend(reversed(below))
        return None

    def _below(
        self, values: Sequence[SSAValue]
    ) -> Sequence[Sequence[SSAValue] | Operation] | Refusal:
        """What is left to compare of one value of each sample, and the first sample's op then."""
        first = values[0]
        if all(value is first for value in values):
            owner = first.owner
            if isinstance(owner, Operation) and owner in self._chain:
                return Refusal(DEPENDENT)
            self._shared.add(first)
            return ()
        ops = [value.owner for value in values]
        if any(isinstance(op, Operation) and op in self._chain for op in ops):
            return Refusal(DEPENDENT)
        if any(not isinstance(op, Operation) for op in ops):
            return Refusal("the samples read different tensors")
        found = cast("list[Operation]", ops)
        if found[0] in self._others:
            same = self._others[found[0]] == found
            return () if same else Refusal("the samples are computed differently")
        self._others[found[0]] = found
        if isinstance(found[0], tensor.ExtractSliceOp):
            leaf = self._leaf(found)
            if not isinstance(leaf, Refusal):
                self.leaves[found[0]] = leaf
                return (found[0],)
        if any(not _alike(op, found[0]) for op in found):
            return Refusal("the samples are computed differently")
        operands = zip(*(op.operands for op in found), strict=True)
        return (*operands, found[0])

    def _leaf(self, ops: Sequence[Operation]) -> Leaf | Refusal:
        views = [slice_view(op) for op in ops]
        if any(view is None or view.kind != "extract_slice" for view in views):
            return Refusal("the samples are computed differently")
        found = cast("list[SliceView]", views)
        first = found[0]
        sources = [view.source for view in found]
        own = all(source is view.dest for source, view in zip(sources, self.views, strict=True))
        if own and all(map(_same_place, found, self.views)):
            return replace(self.stored, view=first)
        if any(source is not sources[0] for source in sources):
            return Refusal("the samples read different tensors")
        dims = [d for d in range(first.rank) if first.offsets[d] != found[1].offsets[d]]
        if len(dims) != 1 or first.sizes[dims[0]] != 1:
            return Refusal("a sample's slice is not one element along one dimension")
        dim = dims[0]
        start, second = first.offsets[dim], found[1].offsets[dim]
        if start is None or second is None or isinstance(_checked(first, dim), Refusal):
            return Refusal("a slice has sizes, strides or other offsets that are not constant")
        for i, view in enumerate(found):
            expected = list(first.offsets)
            expected[dim] = start + i * (second - start)
            if list(view.offsets) != expected or view.sizes != first.sizes:
                return Refusal("the samples' slices are not evenly spaced")
            if view.strides != first.strides or view.dropped != first.dropped:
                return Refusal("the samples' slices are of different kinds")
        if second < start:
            return Refusal("the samples' slices lie in another order than their results")
        return Leaf(first.source, first, dim, start, second - start)


def _alike(one: Operation, other: Operation) -> bool:
    return (
        one.name == other.name
        and one.properties == other.properties
        and one.result_types == other.result_types
        and all(is_equivalent(a, b) for a, b in zip(one.regions, other.regions, strict=True))
    )
