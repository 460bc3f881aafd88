"""`convir.compile`: from text, a path or a module to an executable, in one call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline
from xdsl.traits import SymbolTable

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import verify
from convir.lowering.pipeline import lowering_passes
from convir.passes.bind_sizes import BindSizesPass, is_dynamic
from convir.passes.manager import run
from convir.passes.pipeline_text import parse_pipeline
from convir.passes.size_rules import spelled
from convir.runtime.devices import find_device
from convir.runtime.dynamic import CAPACITY, DynamicExecutable
from convir.runtime.executable import Executable
from convir.runtime.program import DYNAMIC_SIZE
from convir.runtime.read_program import read_program, tensor_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.passes import ModulePass

    from convir.runtime.devices import Device

DEFAULT_PIPELINE = "backward-data"


def compile(
    source: str | Path | ModuleOp,
    pipeline: str | Sequence[ModulePass] = "default",
    device: str = "auto",
    *,
    function: str = "main",
    workspace_bytes: int | None = None,
    threads: int | None = None,
    specialisations: int = CAPACITY,
) -> Executable:
    """Compile one function on tensors to an executable.

    Where the types of its arguments leave sizes open (`tensor<?x8xf32>`), it is a
    `DynamicExecutable`, which compiles once for each set of shapes that it is called with.

    Args:
        source: MLIR text, the path of a file that holds it, or a module (left unchanged).
        pipeline: passes to run before lowering: `default`, a pipeline's name, passes as text, or
            the passes themselves; an empty string for none.
        device: `host`, `cuda`, `cuda:1`, or `auto` for a GPU where there is one.
        function: the name of the function to compile.
        workspace_bytes: the most that temporaries may take, in bytes; None for no limit.
        threads: at most so many threads a launch on the host; None for all cores.
        specialisations: how many sets of shapes stay compiled, where sizes are dynamic.

    Raises:
        DiagnosticError: the source is not valid IR.
        PassFailedException: the function uses what the device cannot run.
        CompileError: a toolchain refused generated code.
        ValueError: `device` names no device.
        NoGpuError: a GPU was asked for by name and cannot be used.
    """
    module = _module(source)
    name = DEFAULT_PIPELINE if pipeline == "default" else pipeline
    job = _Job(
        function,
        parse_pipeline(name) if isinstance(name, str) else tuple(name),
        find_device(device),
        workspace_bytes,
        threads,
    )
    entry = SymbolTable.lookup_symbol(module, function)
    if not isinstance(entry, FuncOp) or entry.is_declaration or not is_dynamic(entry):
        return job.compile(module)
    inputs = [tensor_spec(declared) for declared in entry.function_type.inputs]
    if not any(DYNAMIC_SIZE in spec.shape for spec in inputs):
        return job.compile_for([spec.shape for spec in inputs], module)
    outputs = [tensor_spec(declared) for declared in entry.function_type.outputs]
    return DynamicExecutable(
        inputs, outputs, lambda shapes: job.compile_for(shapes, module), specialisations
    )


@dataclass(frozen=True)
class _Job:
    """How one function becomes an executable."""

    function: str
    passes: tuple[ModulePass, ...]
    device: Device
    workspace_bytes: int | None
    threads: int | None

    def compile(self, module: ModuleOp) -> Executable:
        """Compile a copy of `module`, whose function is static or bound by a pass of the job."""
        return self._compile(module, self.passes)

    def compile_for(self, shapes: Sequence[Sequence[int]], module: ModuleOp) -> Executable:
        """Compile a copy of `module` for arguments of these shapes."""
        binding = BindSizesPass(tuple(map(spelled, shapes)), self.function)
        return self._compile(module, (binding, *self.passes))

    def _compile(self, module: ModuleOp, passes: Sequence[ModulePass]) -> Executable:
        module = run(module, passes).module
        lowering = lowering_passes(self.device.kind, self.workspace_bytes, self.device.gpu)
        PassPipeline(lowering).apply(new_context(), module)
        verify(module)
        program = read_program(module, self.function)
        return Executable(self.device.load(program, threads=self.threads))


def _module(source: str | Path | ModuleOp) -> ModuleOp:
    if isinstance(source, ModuleOp):
        return source.clone()
    if isinstance(source, Path) or ("\n" not in source and Path(source).is_file()):
        path = Path(source)
        return read_module(path.read_bytes(), str(path))
    return read_module(source, "<string>")
