"""Rebuilding a linalg op on operands of other shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, i32
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.ir.affine import AffineMap

    from convir.analysis.structured import Structured


def rebuilt(
    view: Structured,
    operands: Sequence[SSAValue],
    maps: Sequence[AffineMap] | None = None,
    iterators: Sequence[str] | None = None,
) -> Operation:
    """A copy of the op, on tensors, on other operands, of the same kind where its kind allows.

    Its result has the type of its init. Attributes, properties, body, location and name hint are
    kept. A named op whose indexing maps change becomes a `linalg.generic` with the same body. Loops
    may change their kind with the maps.
    """
    op = view.op
    new_maps = view.maps if maps is None else tuple(maps)
    properties: dict[str, Attribute] = dict(op.properties)
    kind = type(op)
    if new_maps != view.maps:
        if not isinstance(op, GenericOp):
            kind = GenericOp
            segments = (len(view.inputs), len(view.inits))
            properties = {"operandSegmentSizes": DenseArrayBase.from_list(i32, segments)}
        properties["indexing_maps"] = ArrayAttr([AffineMapAttr(new_map) for new_map in new_maps])
        properties["iterator_types"] = ArrayAttr(
            [
                IteratorTypeAttr(IteratorType(iterator))
                for iterator in (view.iterators if iterators is None else iterators)
            ]
        )
    new = kind.create(
        operands=operands,
        result_types=[operands[-1].type],
        properties=properties,
        attributes=dict(op.attributes),
        regions=[region.clone() for region in op.regions],
        location=op.location,
    )
    new.results[0].name_hint = op.results[0].name_hint
    return new
