"""`convir.compile`: from text, a path or a module to an executable, in one call."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import verify
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.runtime.devices import find_device
from convir.runtime.executable import Executable
from convir.runtime.program import read_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.passes import ModulePass

_log = logging.getLogger(__name__)

DEFAULT_PIPELINE = "backward-data"


def compile(
    source: str | Path | ModuleOp,
    pipeline: str | Sequence[ModulePass] = "default",
    device: str = "auto",
    *,
    function: str = "main",
    workspace_bytes: int | None = None,
    threads: int | None = None,
) -> Executable:
    """Compile one function on tensors to an executable.

    Args:
        source: MLIR text, the path of a file that holds it, or a module (left unchanged).
        pipeline: passes to run before lowering: `default`, a pipeline's name, passes as text, or
            the passes themselves; an empty string for none.
        device: `host`, `cuda`, `cuda:1`, or `auto` for a GPU where there is one.
        function: the name of the function to compile.
        workspace_bytes: the most that temporaries may take, in bytes; None for no limit.
        threads: at most so many threads a launch on the host; None for all cores.

    Raises:
        DiagnosticError: the source is not valid IR.
        PassFailedException: the function uses what the device cannot run.
        CompileError: a toolchain refused generated code.
        ValueError: `device` names no device.
        NoGpuError: a GPU was asked for by name and cannot be used.
    """
    target = find_device(device)
    module = _module(source)
    name = DEFAULT_PIPELINE if pipeline == "default" else pipeline
    module = run(module, name).module
    PassPipeline(lowering_passes(target.kind, workspace_bytes, target.gpu)).apply(
        new_context(), module
    )
    verify(module)
    return Executable(target.load(read_program(module, function), threads=threads))


def _module(source: str | Path | ModuleOp) -> ModuleOp:
    if isinstance(source, ModuleOp):
        return source.clone()
    if isinstance(source, Path) or ("\n" not in source and Path(source).is_file()):
        path = Path(source)
        return read_module(path.read_bytes(), str(path))
    return read_module(source, "<string>")
