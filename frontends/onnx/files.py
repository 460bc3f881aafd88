"""The files of a model: all that an imported module depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


def located(folder: Path, name: str) -> Path:
    """The file `name` beside a model in `folder`, or in a folder beside it.

    Raises:
        ValueError: it lies elsewhere, or is not a file.
    """
    parts = name.split("/")
    if not name or "\0" in name or ".." in parts or name.startswith("/"):
        raise ValueError(f"'{name}' is not in the folder of the model")
    path = folder / name
    if not path.is_file():
        raise ValueError(f"'{name}' is not a file in the folder of the model")
    return path


def parse_model(path: Path) -> Any:
    """The `ModelProto` of a file, without what lies in further files.

    Raises:
        OnnxError: the package onnx is missing.
        Exception: whatever it raises for a file that is not a model.
    """
    from convir.frontends.onnx.errors import onnx_library  # noqa: PLC0415  (brings xDSL along)

    return onnx_library("onnx", str(path)).load(path, load_external_data=False)


def external_files(model: Any) -> tuple[str, ...]:
    """The further files that hold tensors of a model, as the model spells them: relative to it."""
    found = {
        entry.value
        for tensor in _tensors(model.graph)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return tuple(sorted(found))


def _tensors(graph: Any) -> Generator[Any]:
    """Every tensor of a graph, those of its nodes' attributes included."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
