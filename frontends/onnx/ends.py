"""The inputs and outputs of a model whose sizes are not all known yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType

from convir.frontends.elements import element_type
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.model import read_model
from convir.frontends.onnx.shapes import known_sizes

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from pathlib import Path

    from xdsl.ir import Attribute

    from convir.frontends.onnx.model import Model, Port

    Named: TypeAlias = tuple[str, TensorType[Attribute]]


@dataclass(frozen=True)
class Ends:
    """What a model takes and gives."""

    inputs: tuple[Named, ...]
    """Names and types; a size that calls bind is dynamic."""
    outputs: tuple[Named, ...]


def ends_of(
    source: str | Path | Any,
    shapes: Sequence[Sequence[int] | None] = (),
    constants: Container[str] = (),
) -> Ends:
    """The inputs and outputs of an ONNX model, as it declares them.

    Args:
        source: the path of a .onnx file, or a `ModelProto`.
        shapes: the shape of each input, in order, where it is known.
        constants: the inputs that become constants.

    Raises:
        OnnxError: the model cannot be read, the rank of an input or an output is open, or elements
            are of a type that the IR does not have.
    """
    model = read_model(source)
    inputs = [port for port in model.inputs if port.name not in constants]
    known = known_sizes(model, inputs, shapes, {})
    given = dict(zip((port.name for port in inputs), shapes, strict=False))
    return Ends(
        tuple(_named(model, port, given.get(port.name), known, "input") for port in inputs),
        tuple(_named(model, port, None, known, "output") for port in model.outputs),
    )


def _named(
    model: Model, port: Port, given: Sequence[int] | None, known: Mapping[str, int], what: str
) -> Named:
    element = element_type(port.element)
    if element is None:
        message = f"{what} '{port.name}' has elements of TensorProto type {port.element}"
        raise OnnxError(model.file, message)
    shape = port.shape if given is None else given
    if shape is None:
        message = f"{what} '{port.name}' declares no shape: give the shapes of all inputs"
        raise OnnxError(model.file, message)
    sizes = [known.get(n, DYNAMIC_INDEX) if isinstance(n, str) else n for n in shape]
    return port.name, TensorType(element, sizes)
