"""A function of a module as an executable on the CPU, for the tools that run one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.api.compile import compile as compile_module
from convir.runtime.executable import Executable
from convir.runtime.host.device import HostProgram
from convir.runtime.program import read_program
from convir.runtime.reference import find_function
from convir.runtime.reference.programs import is_program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def compiled(module: ModuleOp, function: str) -> Executable:
    """A function on tensors lowered and compiled, or an `rt` program as it stands.

    Raises:
        DiagnosticException: the host cannot run it.
        CompileError: a toolchain refused generated code.
    """
    if is_program(find_function(module, function)):
        return Executable(HostProgram(read_program(module, function)))
    return compile_module(module, pipeline="", device="host", function=function)
