"""llvmlite's binding, which carries no types: the one place that says so.

llvmlite lets one thread at a time into LLVM, whatever it does there. Modules of different contexts
share nothing, so the two calls that take long, a pipeline and code generation, are made here
without that lock: every thread brings a context and a target machine of its own.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite
import llvmlite.binding

llvm: Any = llvmlite.binding
"""`llvmlite.binding`."""

VERSIONS = f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"
"""What object code depends on beside its source."""


_ASSEMBLY, _OBJECT = 0, 1
"""What `LLVMPY_TargetMachineEmitToMemory` calls them."""


def run_passes(builder: Any, module: Any) -> None:
    """Run the pipeline of a pass builder on a module.

    llvmlite's own `close` of a module pass manager does nothing (the method that disposes comes
    second in the class's order of bases), and a pipeline holds 70 KiB: it is disposed of here.
    """
    manager = builder.getModulePassManager()
    try:
        _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)
    finally:
        llvm.newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()


def emit_object(machine: Any, module: Any) -> bytes:
    """The object code of a module; other threads may generate theirs meanwhile.

    Raises:
        RuntimeError: LLVM generates none.
    """
    return _emit(machine, module, _OBJECT)


def emit_assembly(machine: Any, module: Any) -> str:
    """The assembly of a module, likewise.

    Raises:
        RuntimeError: LLVM generates none.
    """
    return _emit(machine, module, _ASSEMBLY).decode()


def _emit(machine: Any, module: Any, kind: int) -> bytes:
    library = llvm.ffi.lib
    with llvm.ffi.OutputString() as error:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, kind, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        start = library.LLVMPY_GetBufferStart(buffer)
        return ctypes.string_at(start, library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def _unlocked(name: str) -> Any:
    """A function of llvmlite's library without llvmlite's lock, where there is a way around it."""
    function = getattr(llvm.ffi.lib, name)
    return getattr(function, "_cfn", function)
