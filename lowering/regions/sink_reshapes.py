"""What is computed of a contraction's result element by element is computed in its shape.

    rewrite: %r = tensor.expand_shape %0 [[0, 1], [2]]     %a' = tensor.collapse_shape %a
             %2 = generic %r, %a                       --> %1 = generic %0, %a'
                                                           %2 = tensor.expand_shape %1

Kernels store an epilogue's operands where the loops of a contraction say: behind a reshape that
takes their rows apart they are elsewhere. So linear layers on tokens take what is added to them.

Preconditions: the op's loops are those of its result, each other operand has all or none of the
dimensions of which the contraction has one, and nobody else reads what is between.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.reshapes import collapse_shape, expand_shape, groups_of
from convir.analysis.structured import structured
from convir.passes.builders.structured_rebuild import rebuilt

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Block, SSAValue

    from convir.analysis.structured import Structured

Groups: TypeAlias = "tuple[tuple[int, ...], ...]"
"""The dimensions that each dimension of a smaller shape stands for."""


def sink_reshapes(block: Block) -> None:
    """Let elementwise ops of `block` read results of contractions before they are reshaped."""
    for op in list(block.ops):
        view = structured(op)
        if view is None or not _is_elementwise(view):
            continue
        reshapes = ((x, _reshape_of(x)) for x in view.inputs)
        found = next(((x, reshape) for x, reshape in reshapes if reshape is not None), None)
        if found is not None:
            _sink(view, *found)


def _is_elementwise(view: Structured) -> bool:
    """Whether an op computes each element of one result from elements alone, and overwrites it."""
    if set(view.iterators) != {"parallel"} or len(view.inits) != 1:
        return False
    rank = len(view.iterators)
    if view.init_maps[0] != AffineMap.identity(rank) or view.body.args[-1].uses:
        return False
    return not any(op.name in _POSITIONS for op in view.body.ops)


_POSITIONS = ("linalg.index", "tensor.extract")
"""Ops that say or read where an element lies."""


def _reshape_of(value: SSAValue) -> tensor.ExpandShapeOp | None:
    """The reshape that gives `value`, of what is computed of a contraction, if nobody else reads
    what is between."""
    reshape = value.owner
    if not isinstance(reshape, tensor.ExpandShapeOp) or not value.has_one_use():
        return None
    source: SSAValue | None = reshape.src
    while source is not None and source.has_one_use() and isinstance(source.owner, Operation):
        if not isinstance(contraction_dims(source.owner), Refusal):
            return reshape
        source = _followed(source.owner)
    return None


def _followed(op: Operation) -> SSAValue | None:
    """What an elementwise op computes, that nobody else reads."""
    view = structured(op)
    if view is None or not _is_elementwise(view):
        return None
    read = zip(view.inputs, view.input_maps, strict=True)
    return next((x for x, by in read if by == view.init_maps[0] and x.has_one_use()), None)


def _sink(view: Structured, main: SSAValue, reshape: tensor.ExpandShapeOp) -> None:
    """Compute an op before `reshape`, which gives its operand `main`, if all others allow it."""
    groups = groups_of(reshape)
    before = cast("TensorType[Attribute]", reshape.src.type)
    if not groups or DYNAMIC_INDEX in before.get_shape():
        return
    places = [_place(x, by, groups) for x, by in zip(view.inputs, view.input_maps, strict=True)]
    known = [place for place in places if place is not None]
    main_map = view.input_maps[view.inputs.index(main)]
    if len(known) < len(places) or main_map != view.init_maps[0]:
        return
    result = cast("TensorType[Attribute]", view.op.results[0].type)
    empty = tensor.EmptyOp([], TensorType(result.element_type, before.get_shape()))
    made: list[Operation] = [empty]
    operands: list[SSAValue] = []
    for value, (joined, _) in zip(view.inputs, known, strict=True):
        operands.append(reshape.src if value is main else _collapsed(value, joined, made))
    rank = len(groups)
    maps = [AffineMap(rank, 0, exprs) for _, exprs in known]
    maps.append(AffineMap.identity(rank))
    sunk = rebuilt(view, [*operands, empty.tensor], maps, ["parallel"] * rank)
    after = expand_shape(sunk.results[0], groups, result)
    after.location = view.op.location
    Rewriter.replace_op(view.op, [*made, sunk, after], [after.result])
    Rewriter.erase_op(reshape)  # Nobody else reads it; it would count as a reader.


def _place(
    value: SSAValue, read_by: AffineMap, groups: Groups
) -> tuple[Groups, tuple[AffineExpr, ...]] | None:
    """Which dimensions of an operand become one, and where it is read then; None if it has a part
    of what is one dimension."""
    if not isinstance(value.type, TensorType):
        return None
    group_of = {loop: number for number, group in enumerate(groups) for loop in group}
    joined: list[tuple[int, ...]] = []
    exprs: list[AffineExpr] = []
    position = 0
    while position < len(read_by.results):
        expr = read_by.results[position]
        if not isinstance(expr, AffineDimExpr):
            return None
        group = groups[group_of[expr.position]]
        end = position + len(group)
        if list(read_by.results[position:end]) != [AffineExpr.dimension(loop) for loop in group]:
            return None
        joined.append(tuple(range(position, end)))
        exprs.append(AffineExpr.dimension(group_of[expr.position]))
        position = end
    return tuple(joined), tuple(exprs)


def _collapsed(value: SSAValue, groups: Groups, made: list[Operation]) -> SSAValue:
    """`value` with the dimensions of each group as one; what computes that is added to `made`."""
    if all(len(group) == 1 for group in groups):
        return value
    owner = value.owner
    if isinstance(owner, tensor.ExpandShapeOp) and groups_of(owner) == groups:
        return owner.src
    kind = cast("TensorType[Attribute]", value.type)
    sizes = kind.get_shape()
    shape = [prod(sizes[dim] for dim in group) for group in groups]
    op = collapse_shape(value, groups, TensorType(kind.element_type, shape))
    op.location = getattr(owner, "location", op.location)
    made.append(op)
    return op.result
