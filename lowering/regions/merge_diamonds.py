"""Elementwise ops that meet again become one op: x · sigmoid(x) reads x once.

    rewrite: %s = generic(%x); %y = generic(%x, %s)   (nothing else reads %x or %s)
             --> %y = generic(%x)

The chain behind a contraction goes on only where one op reads the value, so that without this no
store computes silu, hardswish or mish that a front end wrote in parts. Each op does to its elements
what it did, in the same order.

Preconditions: all paths from x go through ops that compute elementwise and in place and that only
the next ones read, and end in one op; shapes are static.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, AffineMapAttr, TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.structured import structured
from convir.lowering.loops.pointwise import is_pointwise, is_scalar_op, on_scalars

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xdsl.ir import Attribute

_Read: TypeAlias = tuple[SSAValue, AffineMap]
"""A tensor, and where an element of it is read for an element of the result."""


MAX_OPS = 32
"""Between a value and the op where all that reads it meets again: activations have fewer."""


def merge_diamonds(block: Block) -> None:
    """Make one op of those of `block` that meet again behind a value which they alone read."""
    place = {op: number for number, op in enumerate(block.ops)}
    for op in list(place):
        if op.parent is block and _reads(op) is not None:
            members = _diamond(op, place)
            if members:
                merged = _merge(members)
                place[merged] = place[op]


def _diamond(last: Operation, place: Mapping[Operation, int]) -> list[Operation]:
    """The ops between a value and `last`, in order, if they alone read the value and several do:
    of such values the first one. None if there is no such value."""
    cone = _cone(last)
    read = [value for op in cone for value, _ in _reads(op) or ()]
    makers = {value.owner: value for value in read if isinstance(value.owner, Operation)}
    for maker in sorted(makers.keys() & place.keys(), key=place.__getitem__):
        users = {use.operation for use in makers[maker].uses}
        if len(users) > 1 and users <= cone.keys():
            return _behind(users, sorted(cone, key=place.__getitem__))
    return []


def _cone(last: Operation) -> dict[Operation, None]:
    """`last`, and the elementwise ops that nothing but ops of the cone reads, in place."""
    cone = {last: None}
    pending = [last]
    while pending and len(cone) < MAX_OPS:
        for value, _ in _reads(pending.pop()) or ():
            op = value.owner
            if not isinstance(op, Operation) or op in cone or _reads(op) is None:
                continue
            if op.parent is last.parent and all(
                _is_in_place(use.operation, value, cone) for use in value.uses
            ):
                cone[op] = None
                pending.append(op)
    return cone


def _is_in_place(reader: Operation, value: SSAValue, cone: Iterable[Operation]) -> bool:
    reads = _reads(reader) if reader in cone else None
    return reads is not None and all(
        indexing_map == AffineMap.identity(indexing_map.num_dims)
        for read, indexing_map in reads
        if read is value
    )


def _behind(users: Iterable[Operation], cone: Iterable[Operation]) -> list[Operation]:
    """The ops of a cone, which is in order, that depend on what `users` read."""
    known = dict.fromkeys(users)
    for op in cone:
        if any(operand.owner in known for operand in op.operands):
            known[op] = None
    return [op for op in cone if op in known]


def _reads(op: Operation) -> list[_Read] | None:
    """What an elementwise op reads to compute an element of its one result; None for any other."""
    kind: object = op.results[0].type if len(op.results) == 1 else None
    if not isinstance(kind, TensorType):
        return None
    shape = cast("TensorType[Attribute]", kind).get_shape()
    if DYNAMIC_INDEX in shape:
        return None
    identity = AffineMap.identity(len(shape))
    if is_pointwise(op):
        tensors = all(isinstance(operand.type, TensorType) for operand in op.operands)
        return [(operand, identity) for operand in op.operands] if tensors else None
    view = structured(op)
    if view is None or set(view.iterators) - {"parallel"} or view.init_maps != (identity,):
        return None
    if view.body.args[-1].uses or not all(map(_is_of_elements, view.body.ops)):
        return None
    return list(zip(view.inputs, view.input_maps, strict=True))


def _is_of_elements(op: Operation) -> bool:
    is_of_scalars = is_scalar_op(op) and len(op.results) == 1 and not op.regions
    return is_of_scalars or isinstance(op, YieldOp)


def _merge(members: list[Operation]) -> Operation:
    """Put one op in the place of the last of `members`, instead of all of them; returns it."""
    last = members[-1]
    inside = {op.results[0] for op in members}
    reads = dict.fromkeys(
        read for op in members for read in _reads(op) or () if read[0] not in inside
    )
    kind = cast("TensorType[Attribute]", last.results[0].type)
    elements = [cast("TensorType[Attribute]", value.type).element_type for value, _ in reads]
    body = Block(arg_types=[*elements, kind.element_type])
    known: dict[_Read, SSAValue] = dict(zip(reads, body.args, strict=False))
    identity = AffineMap.identity(len(kind.get_shape()))
    for op in members:
        scalars = [known[read] for read in _reads(op) or ()]
        known[op.results[0], identity] = _on_scalars(op, scalars, body)
    body.add_op(YieldOp(known[last.results[0], identity]))
    empty = tensor.EmptyOp([], kind)
    maps = [AffineMapAttr(indexing_map) for _, indexing_map in reads]
    merged = GenericOp(
        inputs=[value for value, _ in reads],
        outputs=[empty.tensor],
        body=Region(body),
        indexing_maps=[*maps, AffineMapAttr(identity)],
        iterator_types=[IteratorTypeAttr.parallel()] * len(kind.get_shape()),
        result_types=[kind],
    )
    merged.location = last.location
    merged.results[0].name_hint = last.results[0].name_hint
    Rewriter.insert_op([empty, merged], InsertPoint.before(last))
    last.results[0].replace_all_uses_with(merged.results[0])
    for op in reversed(members):
        Rewriter.erase_op(op)
    return merged


def _on_scalars(op: Operation, scalars: list[SSAValue], body: Block) -> SSAValue:
    """Let `body` compute an element of the result of `op`; returns it."""
    if is_pointwise(op):
        scalar = on_scalars(op, scalars)
        scalar.location = op.location
        body.add_op(scalar)
        return scalar.results[0]
    view = structured(op)
    assert view is not None
    known = dict[SSAValue, SSAValue](zip(view.body.args, scalars, strict=False))
    for inner in view.body.ops:
        if isinstance(inner, YieldOp):
            return known.get(inner.operands[0], inner.operands[0])
        body.add_op(inner.clone(known))
    raise AssertionError("a body ends in what it yields")
