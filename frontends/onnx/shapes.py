"""The static shapes of a model's inputs: as the model says, or as its caller does."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

from convir.frontends.onnx.errors import OnnxError, OpenSizeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.frontends.onnx.model import Model, Port


def bound_shapes(
    model: Model, shapes: Sequence[Sequence[int] | None], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """The shape of every input by its name.

    The shape of one input may bind sizes of others by their names.

    Raises:
        OnnxError: a size is open, or two that should be the same differ.
    """
    known = known_sizes(model, model.inputs, shapes, sizes)
    given = dict(zip((port.name for port in model.inputs), shapes, strict=False))
    return {port.name: _bound(model, port, given.get(port.name), known) for port in model.inputs}


def known_sizes(
    model: Model,
    inputs: Sequence[Port],
    shapes: Sequence[Sequence[int] | None],
    sizes: Mapping[str, int],
) -> dict[str, int]:
    """The size of each name, as far as shapes and sizes that are given say it.

    A name that given shapes have for several sizes says none.

    Raises:
        OnnxError: there are more shapes than inputs, or a shape is not what the model declares.
    """
    if len(shapes) > len(inputs):
        message = f"there are {len(shapes)} shapes for {len(inputs)} inputs"
        raise OnnxError(model.file, message)
    found: dict[str, set[int]] = {name: {size} for name, size in sizes.items()}
    for port, shape in zip(inputs, shapes, strict=False):
        if shape is None or port.shape is None:
            continue
        _match(model, port, shape, sizes)
        for size, declared in zip(shape, port.shape, strict=True):
            if isinstance(declared, str):
                found.setdefault(declared, set()).add(size)
    return {name: next(iter(all_)) for name, all_ in found.items() if name and len(all_) == 1}


def _match(model: Model, port: Port, shape: Sequence[int], sizes: Mapping[str, int]) -> None:
    """Check a given shape against the declared one, and sizes that are given."""
    declared = port.shape or ()
    where = f"input '{port.name}'"
    if len(shape) != len(declared):
        message = f"{where} has rank {len(declared)}, the given shape {list(shape)} {len(shape)}"
        raise OnnxError(model.file, message)
    for dim, (size, expected) in enumerate(zip(shape, declared, strict=True)):
        wanted = sizes.get(expected, size) if isinstance(expected, str) else expected
        if size != wanted:
            message = f"{where} has the size {wanted} in dimension {dim}, not {size}"
            raise OnnxError(model.file, message)


def _bound(
    model: Model, port: Port, given: Sequence[int] | None, known: Mapping[str, int]
) -> tuple[int, ...]:
    if given is not None:
        if not all(isinstance(size, Integral) and int(size) >= 0 for size in given):
            raise OnnxError(model.file, f"input '{port.name}' is given the shape {list(given)}")
        return tuple(map(int, given))
    if port.shape is None:
        raise OpenSizeError(model.file, f"input '{port.name}' has no shape: give it one")
    shape: list[int] = []
    for dim, size in enumerate(port.shape):
        bound = known.get(size) if isinstance(size, str) else size
        if bound is None:
            name = f" ('{size}')" if size else ""
            message = (
                f"input '{port.name}' leaves the size of dimension {dim}{name} open: "
                "give its shape, or the size"
            )
            raise OpenSizeError(model.file, message)
        shape.append(bound)
    return tuple(shape)
