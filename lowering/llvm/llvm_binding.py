"""llvmlite's binding, which carries no types: the one place that says so."""

from __future__ import annotations

from typing import Any

import llvmlite
import llvmlite.binding

llvm: Any = llvmlite.binding
"""`llvmlite.binding`."""

VERSIONS = f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"
"""What object code depends on beside its source."""
