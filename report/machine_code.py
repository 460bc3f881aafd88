"""The machine code of kernels, to read: assembly of a CPU, SASS of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.runtime.cuda.toolchain.disassembly import disassembled, disassembler
from convir.runtime.cuda.toolkit import NoGpuError

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget

_UNWINDING = "\t.cfi_"
"""How lines begin that are for debuggers alone."""


def assembly_of(ir: str, launch: HostLaunch, cpu: CpuTarget) -> str:
    """The assembly of a kernel.

    Args:
        ir: its LLVM IR.
        launch: what it is of.
        cpu: what it is for.

    Raises:
        CompileError: LLVM refuses its code.
    """
    from convir.runtime.host.jit import assembly  # noqa: PLC0415  (brings LLVM along)
    from convir.runtime.host.kernel_codes import options_of  # noqa: PLC0415

    lines = assembly(ir, cpu, options_of(launch)).split("\n")
    return "\n".join(line for line in lines if not line.startswith(_UNWINDING))


def sass_of(plan: KernelPlan, arch: str) -> str:
    """The SASS of all kernels of a plan, or why there is none; empty without a disassembler."""
    tool = disassembler()
    if tool is None:
        return ""
    from convir.runtime.cuda.toolchain.compile import stored_code  # noqa: PLC0415  (imports CuPy)

    found: list[str] = []
    for source in dict.fromkeys(kernel.source for kernel in plan.kernels):
        try:
            cubin = stored_code(source, arch)
        except NoGpuError as error:
            return f"there is none: {error}"
        if cubin is None:
            return (
                f"there is none: it was not compiled for {arch} on this machine; "
                "`python -m convir.prebuild` does so without a GPU"
            )
        text = disassembled(cubin, tool)
        found.append(f"there is none: {text.reason}" if isinstance(text, Refusal) else text)
    return "\n".join(found)
