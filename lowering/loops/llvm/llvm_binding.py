"""llvmlite's binding, which carries no types: the one place that says so."""

from __future__ import annotations

from typing import Any

import llvmlite
import llvmlite.binding

llvm: Any = llvmlite.binding
"""`llvmlite.binding`."""

VERSIONS = f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"
"""What object code depends on beside its source."""


def run_passes(builder: Any, module: Any) -> None:
    """Run the pipeline of a pass builder on a module.

    llvmlite's own `close` of a module pass manager does nothing (the method that disposes comes
    second in the class's order of bases), and a pipeline holds 70 KiB: it is disposed of here.
    """
    manager = builder.getModulePassManager()
    try:
        manager.run(module, builder)
    finally:
        llvm.newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()
