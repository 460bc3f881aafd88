"""A function of a module compiled for a device, for `convir-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from convir.api.compile import compile as compile_module
from convir.cli.arguments.parser import UsageError
from convir.cli.files.streams import write_output
from convir.reference import find_function
from convir.reference.ops.programs import is_program
from convir.runtime.cuda.toolkit import NoGpuError
from convir.runtime.devices import find_device
from convir.runtime.executable import Executable
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from convir.reference.dtypes import Array


def run_compiled(
    module: ModuleOp,
    function: str,
    arguments: Sequence[Array],
    device: str,
    workspace_bytes: int | None,
    pipeline: str,
    trace: str | None = None,
) -> tuple[Array, ...]:
    """The results of a function on tensors, or of an `rt` program as it stands, on `device`.

    `pipeline` runs on a function on tensors first, and `workspace_bytes` bounds its temporaries.
    With `trace` there is a second call, of which that file says what ran when.

    Raises:
        UsageError: there is no such device, it cannot be used here, a program is given a budget, or
            the trace cannot be written.
        DiagnosticException: the device cannot run the function.
        CompileError: a toolchain refused generated code.
        GpuMemoryError: the GPU has too little memory left.
    """
    try:
        executable = _compiled(module, function, device, workspace_bytes, pipeline)
        returned = executable(*arguments)
        if trace is not None:
            write_output(trace, _traced(executable, arguments))
    except NoGpuError as error:
        raise UsageError(f"--device {device}: {error}") from error
    results = (returned,) if len(executable.outputs) == 1 else cast("tuple[Any, ...]", returned)
    return tuple(map(on_the_host, results))


def _traced(executable: Executable, arguments: Sequence[Array]) -> str:
    """A trace of one call."""
    from convir.report.trace import trace_text  # noqa: PLC0415  (takes a while to import)
    from convir.runtime.trace.call import traced_call  # noqa: PLC0415

    return trace_text(executable, traced_call(executable, arguments))


def _compiled(
    module: ModuleOp, function: str, device: str, workspace_bytes: int | None, pipeline: str
) -> Executable:
    try:
        target = find_device(device)
    except ValueError as error:
        raise UsageError(f"--device {device}: {error}") from error
    if is_program(find_function(module, function)):
        if workspace_bytes is not None:
            raise UsageError("--workspace-bytes: the memory of an rt program is planned already")
        return Executable(target.load(read_program(module, function)))
    return compile_module(
        module,
        pipeline,
        device=device,
        function=function,
        workspace_bytes=workspace_bytes,
        progress=True,
    )


def on_the_host(array: Any) -> Array:
    """A NumPy array; CuPy's arrays are copied from the GPU."""
    return array.get() if hasattr(array, "get") else array
