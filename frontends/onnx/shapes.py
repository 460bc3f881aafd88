"""The static shapes of a model's inputs: as the model says, or as its caller does."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

from convir.frontends.onnx.errors import OnnxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.frontends.onnx.model import Model, Port


def bound_shapes(
    model: Model, shapes: Sequence[Sequence[int] | None], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """The shape of every input by its name.

    A dimension's name stands for one size in the whole model, so that the shape of one input may
    bind those of others.

    Raises:
        OnnxError: a size is open, or two that should be the same differ.
    """
    if len(shapes) > len(model.inputs):
        message = f"there are {len(shapes)} shapes for {len(model.inputs)} inputs"
        raise OnnxError(model.file, message)
    known = dict(sizes)
    given = dict(zip((port.name for port in model.inputs), shapes, strict=False))
    for port in model.inputs:
        shape = given.get(port.name)
        if shape is not None:
            _match(model, port, shape, known)
    return {port.name: _bound(model, port, given.get(port.name), known) for port in model.inputs}


def _match(model: Model, port: Port, shape: Sequence[int], known: dict[str, int]) -> None:
    """Check a given shape against the declared one, and learn the sizes of names."""
    if port.shape is None:
        return
    where = f"input '{port.name}'"
    declared = port.shape
    if len(shape) != len(declared):
        message = f"{where} has rank {len(declared)}, the given shape {list(shape)} {len(shape)}"
        raise OnnxError(model.file, message)
    for dim, (size, expected) in enumerate(zip(shape, declared, strict=True)):
        if isinstance(expected, str):
            expected = known.setdefault(expected, size) if expected else size
        if size != expected:
            message = f"{where} has the size {expected} in dimension {dim}, not {size}"
            raise OnnxError(model.file, message)


def _bound(
    model: Model, port: Port, given: Sequence[int] | None, known: Mapping[str, int]
) -> tuple[int, ...]:
    if given is not None:
        if not all(isinstance(size, Integral) and int(size) >= 0 for size in given):
            raise OnnxError(model.file, f"input '{port.name}' is given the shape {list(given)}")
        return tuple(map(int, given))
    if port.shape is None:
        raise OnnxError(model.file, f"input '{port.name}' has no shape: give it one")
    shape: list[int] = []
    for dim, size in enumerate(port.shape):
        bound = known.get(size) if isinstance(size, str) else size
        if bound is None:
            name = f" ('{size}')" if size else ""
            message = (
                f"input '{port.name}' leaves the size of dimension {dim}{name} open: "
                "give its shape, or the size"
            )
            raise OnnxError(model.file, message)
        shape.append(bound)
    return tuple(shape)
