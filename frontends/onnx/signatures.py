"""What the standard says of an operator: how many values it takes and gives, and its attributes.

All versions of an operator together: the operators' functions know what differs between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from convir.frontends.onnx.errors import onnx_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VALUE_FIELDS: Mapping[str, str] = {
    "FLOAT": "f",
    "INT": "i",
    "STRING": "s",
    "TENSOR": "t",
    "GRAPH": "g",
    "SPARSE_TENSOR": "sparse_tensor",
    "TYPE_PROTO": "tp",
    "FLOATS": "floats",
    "INTS": "ints",
    "STRINGS": "strings",
    "TENSORS": "tensors",
    "GRAPHS": "graphs",
    "SPARSE_TENSORS": "sparse_tensors",
    "TYPE_PROTOS": "type_protos",
}
"""Where an `AttributeProto` of each type has its value."""

_BESIDE = frozenset({"name", "doc_string", "type"})
"""What else an `AttributeProto` says."""


@dataclass
class Signature:
    """What some version of an operator allows."""

    least_inputs: int
    most_inputs: int
    least_outputs: int
    most_outputs: int
    optional: set[int] = field(default_factory=set[int])
    """The inputs that may be left out before others."""
    types: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """The types of each attribute."""

    def refusal(self, inputs: Sequence[str], outputs: Sequence[str]) -> str | None:
        """What is wrong with the names of what a node reads and gives; None if nothing is."""
        if not self.least_inputs <= len(inputs) <= self.most_inputs:
            return f"has {len(inputs)} inputs"
        for position, name in enumerate(inputs[: self.least_inputs]):
            if not name and position not in self.optional:
                return f"input #{position} is missing"
        if not self.least_outputs <= len(outputs) <= self.most_outputs:
            return f"has {len(outputs)} outputs"
        return None


@cache
def signatures() -> Mapping[str, Signature]:
    """The signatures of the standard operators by name."""
    found: dict[str, Signature] = {}
    for schema in onnx_library("onnx.defs", "").get_all_schemas_with_history():
        if schema.domain:
            continue
        bounds = (schema.min_input, schema.max_input, schema.min_output, schema.max_output)
        signature = found.setdefault(schema.name, Signature(*bounds))
        signature.least_inputs = min(signature.least_inputs, schema.min_input)
        signature.most_inputs = max(signature.most_inputs, schema.max_input)
        signature.least_outputs = min(signature.least_outputs, schema.min_output)
        signature.most_outputs = max(signature.most_outputs, schema.max_output)
        signature.optional |= {
            position for position, one in enumerate(schema.inputs) if one.option.name == "Optional"
        }
        for name, attribute in schema.attributes.items():
            signature.types.setdefault(name, set()).add(attribute.type.name)
    return found


def attribute_refusal(proto: Any, types: Mapping[int, str], signature: Signature | None) -> str:
    """What is wrong with an `AttributeProto`; nothing if it is well-formed.

    Args:
        proto: the attribute.
        types: the names of `AttributeProto.AttributeType` by their numbers.
        signature: of the node's operator; None if the standard has no such operator.
    """
    kind = types.get(proto.type, "")
    if kind not in _VALUE_FIELDS:
        return f"is of the unknown type {proto.type}"
    for descriptor, _ in proto.ListFields():
        if descriptor.name not in _BESIDE and descriptor.name != _VALUE_FIELDS[kind]:
            return f"is of type {kind}, but has '{descriptor.name}'"
    expected = set[str]() if signature is None else signature.types.get(proto.name, set[str]())
    if expected and kind not in expected:
        return f"is of type {kind}, not {' or '.join(sorted(expected))}"
    return ""
