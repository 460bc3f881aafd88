"""An op that computes as well on permuted tensors (`layout_links.py`), on permuted tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr, AffineMap

from convir.analysis.linear import linear_map
from convir.analysis.structured import structured
from convir.dialects.conv.ops import DgradOp, FpropOp
from convir.dialects.linalg.moves import TransposeOp
from convir.passes.builders.structured_rebuild import rebuilt

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.analysis.structured import Structured

LAYOUTS: Final = ("channels-last", "channels-outermost")

_SLICES = ("static_offsets", "static_sizes", "static_strides", "static_low", "static_high")
"""Properties with one number a dimension."""


def order_of(value: SSAValue, layout: str) -> tuple[int, ...]:
    """Dimension i of the permuted tensor is dimension `result[i]` of `value`, channels first."""
    spatial = range(2, len(_shape(value)))
    return (0, *spatial, 1) if layout == LAYOUTS[0] else (1, 0, *spatial)


def transposed(value: SSAValue, order: Sequence[int]) -> tuple[tensor.EmptyOp, TransposeOp]:
    """The ops that transpose `value`."""
    empty = tensor.EmptyOp([], _permuted_type(value, order))
    transpose = TransposeOp.of(value, empty.tensor, order)
    if isinstance(value.owner, Operation):
        empty.location = transpose.location = value.owner.location
    return empty, transpose


def permuted(
    op: Operation, operands: Sequence[SSAValue], linked: Collection[SSAValue], layout: str
) -> Operation:
    """A copy of `op` on `operands`, of which those `linked` with each other are permuted.

    Args:
        op: what is copied.
        operands: what the copy reads, in the order of the operands of `op`.
        linked: the operands and results of `op` whose counterparts are permuted.
        layout: one of `LAYOUTS`.
    """
    view = structured(op)
    if view is not None:
        return _structured(view, operands, linked, layout)
    order = order_of(op.results[0], layout)
    types = [_permuted_type(r, order) if r in linked else r.type for r in op.results]
    return type(op).create(
        operands=operands,
        result_types=types,
        properties={**op.properties, **_permuted_properties(op, order, types)},
        attributes=dict(op.attributes),
        regions=[region.clone() for region in op.regions],
        location=op.location,
    )


def _permuted_properties(
    op: Operation, order: Sequence[int], types: Sequence[Attribute]
) -> dict[str, Attribute]:
    """The properties of an op that speak of dimensions, in another order."""
    match op:
        case FpropOp() | DgradOp():
            letters = op.input_layout.data
            layout = StringAttr("".join(letters[dim] for dim in order))
            return {"input_layout": layout, "output_layout": layout}
        case ConstantOp():
            splat = cast("DenseIntOrFPElementsAttr[IntegerType]", op.value)
            kind = cast("TensorType[IntegerType]", types[0])
            return {"value": DenseIntOrFPElementsAttr(kind, splat.data)}
        case tensor.ConcatOp():
            return {"dim": IntegerAttr(order.index(op.dim.value.data), i64)}
        case _:
            sliced = {name: op.properties[name] for name in _SLICES if name in op.properties}
            return {name: _in_order(numbers, order) for name, numbers in sliced.items()}


def _in_order(numbers: Attribute, order: Sequence[int]) -> Attribute:
    values = cast("DenseArrayBase[IntegerType]", numbers).get_values()
    return DenseArrayBase.from_list(i64, [values[dim] for dim in order])


def _structured(
    view: Structured, operands: Sequence[SSAValue], linked: Collection[SSAValue], layout: str
) -> Operation:
    """Permuted operands are walked by permuted maps, and the loops follow the result."""
    if view.op.name == "linalg.fill":
        return rebuilt(view, operands)
    loops = list(range(len(view.iterators)))
    result = view.op.results[0]
    if result in linked:
        out = [form.bare for form in linear_map(view.init_maps[0]) or ()]
        walked = [cast("int", out[dim]) for dim in order_of(result, layout)]
        loops = [*walked, *(loop for loop in loops if loop not in walked)]
    renamed = [AffineExpr.dimension(loops.index(loop)) for loop in range(len(loops))]
    maps: list[AffineMap] = []
    for value, old in zip(view.operands, view.maps, strict=True):
        order = order_of(value, layout) if value in linked else range(len(old.results))
        exprs = (old.results[dim].replace_dims_and_symbols(renamed, []) for dim in order)
        maps.append(AffineMap(old.num_dims, old.num_symbols, tuple(exprs)))
    return rebuilt(view, operands, maps, [view.iterators[loop] for loop in loops])


def _permuted_type(value: SSAValue, order: Sequence[int]) -> TensorType[Attribute]:
    kind = cast("TensorType[Attribute]", value.type)
    return TensorType(kind.element_type, [_shape(value)[dim] for dim in order])


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Attribute]", value.type).get_shape()
