"""Models on a command line, as IR."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import UsageError
from convir.cli.files.constant_files import constant_file
from convir.cli.files.streams import (
    EXIT_FAILURE,
    EXIT_OK,
    check_writable,
    report_traceback,
    write_output,
    write_stdout,
)
from convir.dialects.diagnostics import DiagnosticError
from convir.frontends.sources import NAM_SUFFIX, ONNX_SUFFIX

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

_SHAPE = re.compile(r"\d+(x\d+)*")


def is_model(path: str) -> bool:
    """Whether a file is a model, by its name."""
    return path.endswith((NAM_SUFFIX, ONNX_SUFFIX))


def import_model_file(tool: str, path: str, options: argparse.Namespace) -> int:
    """Write the module of the model `path`; returns the exit status.

    Raises:
        UsageError: a shape or a size makes no sense, or the output cannot be written.
    """
    from convir.cli.reports.reporter import Reporter  # noqa: PLC0415  (only a model needs the front end)

    if options.output is not None:
        check_writable(options.output)
    shapes = [shape_of(text) for text in options.inputs]
    sizes = dict(_size(text) for text in options.sizes)
    try:
        if path.endswith(NAM_SUFFIX):
            module = _read_nam(path, shapes, options.model_size)
        else:
            module = read_onnx(path, shapes, sizes)
    except DiagnosticError as error:
        report_traceback(debug=options.debug)
        reporter = Reporter(path)
        for diagnostic in error.diagnostics:
            reporter.report(diagnostic)
        return EXIT_FAILURE
    if options.output is None:
        write_stdout(str(module) + "\n")
        return EXIT_OK
    constants = constant_file(tool, options.output)
    if constants is not None:
        constants.take(module)
    write_output(options.output, str(module) + "\n")
    if constants is not None:
        constants.write()
    return EXIT_OK


def read_onnx(
    path: str, shapes: Sequence[Sequence[int] | None], sizes: dict[str, int] | None = None
) -> ModuleOp:
    """The module of the model `path`.

    Raises:
        DiagnosticError: it cannot be imported.
    """
    from convir.frontends.onnx.importer import import_model  # noqa: PLC0415  (brings NumPy along)

    return import_model(path, shapes=shapes, sizes=sizes)


def _read_nam(path: str, shapes: Sequence[Sequence[int] | None], size: float) -> ModuleOp:
    """The module of the model `path`, for blocks of the shape of its one input.

    Raises:
        UsageError: there is no such block, or no such size.
        DiagnosticError: the model cannot be imported.
    """
    from convir.frontends.nam.importer import import_nam  # noqa: PLC0415  (as above)

    try:
        return import_nam(path, frames=_frames(shapes), size=size)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _frames(shapes: Sequence[Sequence[int] | None]) -> int:
    """The frames of a block, of the shape that the one input was given.

    Raises:
        UsageError: there is no such shape.
    """
    shape = shapes[0] if len(shapes) == 1 else None
    if shape is None or len(shape) != 3:
        raise UsageError("a .nam model needs the shape of its block: --input 1x1x64")
    return shape[-1]


def shape_of(text: str) -> tuple[int, ...]:
    """The shape that `--input` says.

    Raises:
        UsageError: it is none.
    """
    if _SHAPE.fullmatch(text) is None:
        raise UsageError(f"--input {text}: is not a shape such as 1x3x224x224")
    return tuple(map(int, text.split("x")))


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdecimal():
        raise UsageError(f"--size {text}: is not NAME=N")
    return name, int(number)
