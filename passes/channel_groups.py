"""Normalisations of groups of channels, on images whose channels are one dimension.

    rewrite: %g = expand_shape %x [[0], [1, 2], …]      %c = the sum of each channel of %x
             %s = the sum of each group of %g      -->  %s = the sum of a group's %c
             %y = generic(%g, %s)                       generic(%x, %s of each channel's group)
             collapse_shape %y

A tensor whose channels are split keeps its layout, so that images are transposed before it and
behind it; what is left here changes its layout with them.

Preconditions: shapes are static; all that reads the split tensor, or what is computed of it, is a
generic over all its dimensions, a sum over all but the image and the group, or joins the channels
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Block, Operation, Region
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.reshapes import collapse_shape, expand_shape
from convir.analysis.structured import structured
from convir.analysis.values.scalars import zero_of
from convir.analysis.values.zeros import is_zero
from convir.passes.builders.structured_rebuild import rebuilt

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.analysis.structured import Structured

_GROUP, _CHANNEL = 1, 2
"""Dimensions of a split tensor: its channel is one within its group."""
_READ = frozenset({(), (0, _GROUP), (_GROUP, _CHANNEL), (_GROUP,)})
"""Dimensions along which other operands may have elements of their own."""


def join_groups(block: Block, images: Collection[SSAValue]) -> None:
    """Rewrite what splits the channels of one of `images`; what nobody reads then is left."""
    for op in list(block.ops):
        if isinstance(op, tensor.ExpandShapeOp) and op.src in images:
            group = _group_of(op, block)
            if group is not None:
                _Joined(group).rewrite()


@dataclass
class _Group:
    """A split tensor, and what is computed of it."""

    split: tensor.ExpandShapeOp
    generics: dict[Operation, Structured] = field(default_factory=dict[Operation, "Structured"])
    """In order: results are of its shape, or sums of groups."""
    joins: list[tensor.CollapseShapeOp] = field(default_factory=list[tensor.CollapseShapeOp])


def _group_of(split: tensor.ExpandShapeOp, block: Block) -> _Group | None:
    joined, apart = _shape(split.src), _shape(split.result)
    if min(joined) < 1 or (apart[0], prod(apart[1:3]), *apart[3:]) != joined:
        return None
    found = _Group(split)
    inside: set[SSAValue] = {split.result}
    op = split.next_op
    while op is not None:
        read = inside.intersection(op.operands)
        if read and isinstance(op, tensor.CollapseShapeOp):
            if _shape(op.result) != joined:
                return None
            found.joins.append(op)
        elif read:
            view = structured(op)
            if view is None:
                return None
            found.generics[op] = view
            if _is_elementwise(view, inside):
                inside.add(op.results[0])
            elif not _is_sum(view):
                return None
        op = op.next_op
    known = {*found.generics, *found.joins}
    readers = {use.operation for value in inside for use in value.uses}
    return found if found.generics and readers <= known else None


def _is_elementwise(view: Structured, inside: Collection[SSAValue]) -> bool:
    """Whether each element is computed of those at its place and of parameters."""
    rank = len(view.iterators)
    if set(view.iterators) != {"parallel"} or len(view.inits) != 1:
        return False
    if not isinstance(view.op, GenericOp) or view.body.args[-1].first_use is not None:
        return False
    for value, dims in zip(view.operands, map(_dims, view.maps), strict=True):
        at_its_place = value in inside or value is view.inits[0]
        if at_its_place and dims != tuple(range(rank)):
            return False
        if not at_its_place and dims not in _READ:
            return False
    return not any(op.name in ("linalg.index", "tensor.extract") for op in view.body.walk())


def _is_sum(view: Structured) -> bool:
    """Whether it adds up all that a group of an image has."""
    rank = len(view.iterators)
    kinds = ("parallel", "parallel", *["reduction"] * (rank - 2))
    if view.iterators != kinds or len(view.inputs) != 1 or not isinstance(view.op, GenericOp):
        return False
    if [_dims(each) for each in view.maps] != [tuple(range(rank)), (0, _GROUP)]:
        return False
    total = view.body.args[-1]
    end = view.body.last_op
    added = end.operands[0].owner if isinstance(end, YieldOp) else None
    if not isinstance(added, arith.AddfOp) or not total.has_one_use():
        return False
    return total in added.operands and is_zero(view.inits[0])


class _Joined:
    """Computes a group of ops on the tensor that was split."""

    def __init__(self, group: _Group) -> None:
        self._group = group
        self._known: dict[SSAValue, SSAValue] = {group.split.result: group.split.src}
        self._spread: dict[SSAValue, SSAValue] = {}
        _, self._groups, self._channels, *_ = _shape(group.split.result)
        self._rank = len(_shape(group.split.src))

    def rewrite(self) -> None:
        """Replace whoever is read from outside."""
        for op, view in self._group.generics.items():
            if "reduction" in view.iterators:
                op.results[0].replace_all_uses_with(self._summed(view))
            else:
                self._known[op.results[0]] = self._computed(view)
        for join in self._group.joins:
            join.result.replace_all_uses_with(self._known[join.src])

    def _computed(self, view: Structured) -> SSAValue:
        operands: list[SSAValue] = []
        maps: list[AffineMap] = []
        # As they are now: sums have been replaced.
        for value, old in zip(view.op.operands, view.input_maps, strict=False):
            dims = _dims(old) or ()
            if value in self._known:
                operands.append(self._known[value])
                dims = range(self._rank)
            elif dims:
                operands.append(self._of_channels(value, dims, view.op))
                dims = (0, 1) if dims[0] == 0 else (1,)
            else:
                operands.append(value)
            maps.append(_projection(self._rank, dims))
        kind = _element(view.inits[0])
        shape = _shape(self._group.split.src)
        operands.append(_insert(view.op, tensor.EmptyOp([], TensorType(kind, shape))))
        maps.append(AffineMap.identity(self._rank))
        return _insert(view.op, rebuilt(view, operands, maps, ["parallel"] * self._rank))

    def _of_channels(self, value: SSAValue, dims: Sequence[int], at: Operation) -> SSAValue:
        """What is known of groups, or of channels of groups, of each channel."""
        if value in self._spread:
            return self._spread[value]
        split = value
        if dims[-1] == _GROUP:
            shape = (*_shape(value), self._channels)
            init = _insert(at, tensor.EmptyOp([], TensorType(_element(value), shape)))
            kept = range(len(shape) - 1)
            body = Block(arg_types=[_element(value)] * 2)
            body.add_op(YieldOp(body.args[0]))
            split = _insert(at, _generic([value, init], [kept, range(len(shape))], body))
        outer = len(_shape(split)) - 2
        joined = TensorType(
            _element(value), (*_shape(split)[:outer], self._groups * self._channels)
        )
        pairs = [*([dim] for dim in range(outer)), [outer, outer + 1]]
        self._spread[value] = _insert(at, collapse_shape(split, pairs, joined))
        return self._spread[value]

    def _summed(self, view: Structured) -> SSAValue:
        at, kind = view.op, _element(view.inits[0])
        images = _shape(view.inits[0])[0]
        each = TensorType(kind, (images, self._groups * self._channels))
        zero = _insert(at, arith.ConstantOp(zero_of(kind)))
        empty = _insert(at, tensor.EmptyOp([], each))
        init = _insert(at, FillOp((zero,), (empty,), (each,)))
        maps = [AffineMap.identity(self._rank), _projection(self._rank, (0, 1))]
        kinds = ["parallel", "parallel", *["reduction"] * (self._rank - 2)]
        sums = _insert(at, rebuilt(view, [self._known[view.inputs[0]], init], maps, kinds))
        apart = TensorType(kind, (images, self._groups, self._channels))
        sums = _insert(at, expand_shape(sums, [[0], [1, 2]], apart))
        body = Block(arg_types=[kind, kind])
        added = arith.AddfOp(body.args[1], body.args[0])
        body.add_ops([added, YieldOp(added.result)])
        return _insert(at, _generic([sums, view.inits[0]], [range(3), range(2)], body))


def _generic(operands: Sequence[SSAValue], dims: Sequence[Sequence[int]], body: Block) -> GenericOp:
    """Of one input and an init, over all dimensions of the larger."""
    rank = max(map(len, dims))
    written = set(dims[-1])
    return GenericOp(
        inputs=operands[:-1],
        outputs=operands[-1:],
        body=Region(body),
        indexing_maps=[AffineMapAttr(_projection(rank, each)) for each in dims],
        iterator_types=[
            IteratorTypeAttr.parallel() if dim in written else IteratorTypeAttr.reduction()
            for dim in range(rank)
        ],
        result_types=(operands[-1].type,),
    )


def _insert(at: Operation, op: Operation) -> SSAValue:
    op.location = at.location
    Rewriter.insert_op(op, InsertPoint.before(at))
    return op.results[0]


def _projection(rank: int, dims: Sequence[int]) -> AffineMap:
    return AffineMap(rank, 0, tuple(map(AffineExpr.dimension, dims)))


def _dims(indexing: AffineMap) -> tuple[int, ...] | None:
    """The dimensions that a map picks; None where it does something else."""
    picked = [expr.position for expr in indexing.results if isinstance(expr, AffineDimExpr)]
    return tuple(picked) if len(picked) == len(indexing.results) else None


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Attribute]", value.type).get_shape()


def _element(value: SSAValue) -> Attribute:
    return cast("TensorType[Attribute]", value.type).element_type
