"""PyTorch's modules and exported programs as IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convir.dialects.diagnostics import Diagnostic, DiagnosticError, one_line
from convir.frontends.onnx.importer import module_of_model
from convir.frontends.pytorch.errors import UnsupportedError
from convir.frontends.pytorch.exported import exported, read_exported
from convir.frontends.pytorch.spelling import FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from convir.frontends.pytorch.program import AtenProgram


def import_torch(source: Any, example_inputs: Sequence[Any] | None) -> ModuleOp:
    """The module of a `torch.nn.Module` or an `ExportedProgram`: `@main` takes its inputs and
    returns its outputs, dense in the order of their dimensions.

    Args:
        source: the module, which computes as it does in evaluation, or the program.
        example_inputs: the arguments of a module, of the sizes and dtypes that are compiled for.

    Raises:
        DiagnosticError: something of it is not supported.
        TypeError: a module comes without example inputs, an exported program with them.
    """
    return module_of(read_torch(source, example_inputs))


def read_torch(source: Any, example_inputs: Sequence[Any] | None) -> AtenProgram:
    """What `import_torch` makes a module of.

    Raises:
        DiagnosticError: something of it is not supported.
        TypeError: a module comes without example inputs, an exported program with them.
    """
    try:
        return read_exported(exported(source, example_inputs))
    except UnsupportedError as error:
        raise DiagnosticError(Diagnostic(FILE, 0, 0, "error", one_line(str(error)))) from error


def module_of(program: AtenProgram) -> ModuleOp:
    """The module of a graph that was read.

    Raises:
        DiagnosticError: a node is not supported.
    """
    return module_of_model(program.model)
