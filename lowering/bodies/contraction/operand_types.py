"""The types that a contraction multiplies in, and that its operands are stored in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import bf16, f16, f32, f64, i8, i32

from convir.analysis.refusal import Refusal
from convir.dialects.compat.types import element_type_of
from convir.lowering.bodies.contraction.spec import READABLE

if TYPE_CHECKING:
    from xdsl.ir import Attribute

    from convir.analysis.contraction import ContractionDims
    from convir.lowering.bodies.contraction.spec import ComputeType, StorageType

STORED: dict[Attribute, StorageType] = {
    f16: "f16",
    bf16: "bf16",
    f32: "f32",
    f64: "f64",
    i8: "i8",
    i32: "i32",
}
"""What elements of a type are stored as."""

_COMPUTED: dict[Attribute, ComputeType] = {f32: "f32", f64: "f64"}


@dataclass(frozen=True)
class ProductTypes:
    """Those of one contraction."""

    element: ComputeType
    """Of products and accumulators, and of the result."""
    inputs: tuple[StorageType, StorageType]
    unsigned: int | None = None
    """Of sums of integers the input that is unsigned."""


def product_types(dims: ContractionDims) -> ProductTypes | Refusal:
    """The types of a contraction, or why no kernel has them."""
    if dims.accumulate_type == dims.multiply_type == i32 and not dims.product_casts:
        return _types_of_integers(dims)
    element = _COMPUTED.get(dims.accumulate_type)
    if element is None:
        return Refusal(f"it computes in {dims.accumulate_type}")
    if dims.product_casts or dims.multiply_type != dims.accumulate_type:
        return Refusal("it multiplies and accumulates in different types")
    stored: list[StorageType] = []
    for operand in dims.inputs:
        operand_type = element_type_of(operand.value.type)
        storage = STORED.get(operand_type)
        widened = storage == element or all(cast.name == "arith.extf" for cast in operand.casts)
        if storage not in READABLE[element] or not widened:
            return Refusal(f"it reads {operand_type} to compute in {element}")
        stored.append(storage)
    return ProductTypes(element, (stored[0], stored[1]))


def _types_of_integers(dims: ContractionDims) -> ProductTypes | Refusal:
    """Sums of products of an unsigned byte and a signed one."""
    if any(element_type_of(x.value.type) != i8 for x in dims.inputs):
        return Refusal("it multiplies other integers than bytes")
    casts = [tuple(op.name for op in operand.casts) for operand in dims.inputs]
    if sorted(casts) != [("arith.extsi",), ("arith.extui",)]:
        return Refusal("its bytes are not unsigned times signed")
    return ProductTypes("i32", ("i8", "i8"), casts.index(("arith.extui",)))
