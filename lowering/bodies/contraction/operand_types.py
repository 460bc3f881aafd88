"""The types that a contraction multiplies in, and that its operands are stored in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import READABLE

if TYPE_CHECKING:
    from convir.analysis.contraction import ContractionDims
    from convir.lowering.bodies.contraction.spec import FloatType, StorageType

STORED: dict[type, StorageType] = {
    Float16Type: "f16",
    BFloat16Type: "bf16",
    Float32Type: "f32",
    Float64Type: "f64",
}
"""What elements of a type are stored as."""

_COMPUTED: dict[type, FloatType] = {Float32Type: "f32", Float64Type: "f64"}


@dataclass(frozen=True)
class ProductTypes:
    """Those of one contraction."""

    element: FloatType
    """Of products and accumulators, and of the result."""
    inputs: tuple[StorageType, StorageType]


def product_types(dims: ContractionDims) -> ProductTypes | Refusal:
    """The types of a contraction, or why no kernel has them."""
    element = _COMPUTED.get(type(dims.accumulate_type))
    if element is None:
        return Refusal(f"it computes in {dims.accumulate_type}")
    if dims.product_casts or dims.multiply_type != dims.accumulate_type:
        return Refusal("it multiplies and accumulates in different types")
    stored: list[StorageType] = []
    for operand in dims.inputs:
        operand_type: object = getattr(operand.value.type, "element_type", None)
        storage = STORED.get(type(operand_type))
        widened = storage == element or all(cast.name == "arith.extf" for cast in operand.casts)
        if storage not in READABLE[element] or not widened:
            return Refusal(f"it reads {operand_type} to compute in {element}")
        stored.append(storage)
    return ProductTypes(element, (stored[0], stored[1]))
