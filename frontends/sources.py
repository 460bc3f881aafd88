"""What a caller may hand in as a source, and the one reader of all of it.

    a module             itself, verified; a copy
    "conv -n 4 -c 64 …"  a MIOpenDriver line
    "net.onnx"           the path of an .onnx or .nam model, or of a file of MLIR text
    "func.func @main …"  MLIR text
    a ModelProto         an ONNX model that holds its tensors itself
    a torch.nn.Module    with the example inputs that it is exported for
    an ExportedProgram   of torch.export

Importing this module imports neither xDSL nor a front end.
"""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from convir.frontends.miopen_commands import DRIVER, DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.dialects.builtin import ModuleOp

    Shapes: TypeAlias = Sequence[Sequence[int] | None]

MLIR_SUFFIX = ".mlir"
ONNX_SUFFIX = ".onnx"
NAM_SUFFIX = ".nam"

TEXT_NAME = "<string>"
"""What errors call text that lies in no file."""
LINE_NAME = "<line>"
"""What errors call a MIOpenDriver line."""


class SourceKind(Enum):
    """What a source is."""

    MODULE = "module"
    TEXT = "text"
    LINE = "line"
    FILE = "file of text"
    ONNX_FILE = "onnx file"
    ONNX_MODEL = "onnx model"
    NAM_FILE = "nam file"
    PYTORCH = "pytorch"


def kind_of(given: Any) -> SourceKind:
    """What `given` is, by its type, its suffix, its first word, and the files there are.

    Raises:
        TypeError: it is not a source.
    """
    onnx = sys.modules.get("onnx")  # there is no ModelProto before onnx was imported
    if onnx is not None and isinstance(given, onnx.ModelProto):
        return SourceKind.ONNX_MODEL
    if _is_of_torch(given):
        return SourceKind.PYTORCH
    if not isinstance(given, str | Path):
        return _kind_of_module(given)
    text = str(given)
    is_one_line = "\n" not in text
    if isinstance(given, str) and is_line(text):
        return SourceKind.LINE
    if is_one_line and text.endswith(ONNX_SUFFIX):
        return SourceKind.ONNX_FILE
    if is_one_line and text.endswith(NAM_SUFFIX):
        return SourceKind.NAM_FILE
    # Text may be longer than any path; `os.path` then says that there is no such file.
    names_file = is_one_line and (text.endswith(MLIR_SUFFIX) or os.path.isfile(text))
    return SourceKind.FILE if isinstance(given, Path) or names_file else SourceKind.TEXT


def _is_of_torch(given: Any) -> bool:
    torch = sys.modules.get("torch")  # as above
    if torch is None:
        return False
    return isinstance(given, torch.nn.Module | torch.export.ExportedProgram)


def is_line(text: str) -> bool:
    """Whether `text` begins as a MIOpenDriver line does."""
    words = text.split(maxsplit=2)
    if words and words[0].rpartition("/")[2] == DRIVER:
        return True
    return bool(words) and words[0] in DTYPES and "\n" not in text.strip()


def read_source(given: Any, *, shapes: Shapes = (), size: float = 1.0) -> ModuleOp:
    """The verified module that `given` says, which nobody else holds.

    Args:
        given: any source.
        shapes: of the inputs of a model, in order, where it leaves sizes open: of a .nam model, the
            block, (1, channels, frames).
        size: which of the models that a .nam file contains, from 0 (the smallest) to 1.

    Raises:
        DiagnosticError: it is wrong.
        OSError: a file of text cannot be read.
        TypeError: it is not a source.
        ValueError: a .nam model is given no shape of a block.
    """
    match kind_of(given):
        case SourceKind.MODULE:
            return _verified_copy(given)
        case SourceKind.TEXT:
            return read_text(given, TEXT_NAME)
        case SourceKind.LINE:
            return read_line(given)
        case SourceKind.FILE:
            return read_text(Path(given).read_bytes(), str(given))
        case SourceKind.ONNX_FILE | SourceKind.ONNX_MODEL:
            return read_onnx(given, shapes)
        case SourceKind.NAM_FILE:
            frames = block_frames(Path(given), shapes)
            return read_nam(Path(given), frames, frames, size)
        case SourceKind.PYTORCH:
            return read_torch(given, None)


def read_text(text: str | bytes, name: str) -> ModuleOp:
    """The module of MLIR text.

    Raises:
        DiagnosticError: it is not a valid module.
    """
    from convir.dialects.context import read_module  # noqa: PLC0415  (brings xDSL along)

    return read_module(text, name)


def read_torch(given: Any, example_inputs: Sequence[Any] | None) -> ModuleOp:
    """The module of a `torch.nn.Module` for example inputs, or of an `ExportedProgram`.

    Raises:
        DiagnosticError: something of it is not supported.
        TypeError: a module comes without example inputs, an exported program with them.
    """
    from convir.frontends.pytorch.importer import import_torch  # noqa: PLC0415  (as above)

    return import_torch(given, example_inputs)


def read_line(line: str) -> ModuleOp:
    """A module with a function for each direction of a MIOpenDriver line.

    Raises:
        DiagnosticError: it is no such line; at the column that is wrong.
    """
    from convir.dialects.diagnostics import Diagnostic, DiagnosticError  # noqa: PLC0415  (as above)
    from convir.frontends.conv_module import module_of_line  # noqa: PLC0415  (as above)
    from convir.frontends.miopen import parse_line  # noqa: PLC0415  (as above)
    from convir.frontends.miopen_options import LineError  # noqa: PLC0415  (as above)

    try:
        return module_of_line(parse_line(line))
    except LineError as error:
        wrong = Diagnostic(LINE_NAME, 1, error.column, "error", error.message)
        raise DiagnosticError(wrong) from error


def read_onnx(
    given: Any, shapes: Shapes, values: Mapping[str, Any] | None = None, parsed: Any = None
) -> ModuleOp:
    """The module of an ONNX model, or of a file of one, in which the inputs `values` are constants.
    `parsed` is the `ModelProto` of the file, where somebody has it.

    Raises:
        DiagnosticError: it cannot be imported.
    """
    from convir.frontends.onnx.importer import import_model  # noqa: PLC0415  (as above)

    return import_model(given, shapes=shapes, values=values, parsed=parsed)


def read_nam(path: Path, frames: int, room: int, size: float) -> ModuleOp:
    """The module of a .nam model.

    Raises:
        DiagnosticError: it cannot be imported.
    """
    from convir.frontends.nam.importer import import_nam  # noqa: PLC0415  (as above)

    return import_nam(path, frames=frames, room=room, size=size)


def block_frames(path: Path, shapes: Shapes) -> int:
    """The frames of a .nam model's block, of the one shape that is given.

    Raises:
        ValueError: there is no such shape.
    """
    shape = shapes[0] if len(shapes) == 1 else None
    if shape is None or len(shape) != 3:
        raise ValueError(f"{path}: give the shape of a block, such as shapes=[(1, 1, 64)]")
    return shape[-1]


def _kind_of_module(given: Any) -> SourceKind:
    from xdsl.dialects.builtin import ModuleOp  # noqa: PLC0415  (as above)

    if not isinstance(given, ModuleOp):
        what = "text, a path, a MIOpenDriver line, a module or a ModelProto"
        raise TypeError(f"the source is a {type(given).__name__}, not {what}")
    return SourceKind.MODULE


def _verified_copy(given: Any) -> ModuleOp:
    from convir.dialects.diagnostics import verify  # noqa: PLC0415  (as above)

    module = cast("ModuleOp", given)
    verify(module)
    return module.clone()
