"""The code of kernels, to read: what is generated, and the machine code that it becomes."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.utils.exceptions import PassFailedException

from convir.dialects.diagnostics import DiagnosticError, one_line
from convir.lowering.kernels.host.target import CpuTarget
from convir.runtime.compile_error import CompileError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from xdsl.dialects.builtin import ModuleOp

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.lowering.kernels.target import Target
    from convir.report.roofs import Machine
    from convir.report.texts import Texts

MOST_CODE = 400_000
"""Characters of one kernel's code that are shown; what is behind them is left out, which it says"""
MOST_MACHINE_CODE = 60_000
"""Likewise of its machine code, which a page has to hold for all kernels of a network."""
_MOST_THREADS = 8


@dataclass
class Code:
    """A kernel's code in one language."""

    language: str
    """`LLVM IR`, `assembly`, `CUDA C++`, `SASS`."""
    text: list[int]
    """Numbers of lines."""


@dataclass
class CodeReader:
    """Reads the code of the kernels of a module; threads of LLVM make assembly meanwhile."""

    module: ModuleOp
    """It holds the kernels, and who calls them."""
    machine: Machine
    """What they are for."""
    texts: Texts
    """Takes their code."""
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1))
    )
    _awaited: list[tuple[list[Code], Future[str]]] = field(
        default_factory=list[tuple[list[Code], "Future[str]"]]
    )

    def read(self, function: kernel.FuncOp) -> list[Code]:
        """The code of a kernel, which is none for a library's call; `finish` adds its assembly."""
        try:
            if isinstance(self.machine, CpuTarget):
                return self._on_host(function, self.machine)
            return self._on_gpu(function, self.machine)
        except (DiagnosticError, PassFailedException, CompileError) as error:
            return [self._missing(error)]

    def finish(self) -> None:
        """Wait for the assembly of what was read."""
        self._threads.shutdown()
        for codes, future in self._awaited:
            try:
                codes.append(self._code("assembly", future.result(), MOST_MACHINE_CODE))
            except CompileError as error:
                codes[:] = [self._missing(error)]
        self._awaited.clear()

    def _on_host(self, function: kernel.FuncOp, cpu: CpuTarget) -> list[Code]:
        from convir.lowering.kernel_code import host_kernel_code  # noqa: PLC0415
        from convir.report.machine_code import assembly_of  # noqa: PLC0415

        launch = host_kernel_code(self.module, function, cpu)
        if launch is None:
            return []
        ir = launch.ir
        codes = [self._code("LLVM IR", ir, MOST_CODE)]
        self._awaited.append((codes, self._threads.submit(assembly_of, ir, launch, cpu)))
        return codes

    def _on_gpu(self, function: kernel.FuncOp, gpu: Target) -> list[Code]:
        # The host needs none of the kernel families.
        from convir.lowering.kernel_code import cuda_kernel_code  # noqa: PLC0415
        from convir.report.machine_code import sass_of  # noqa: PLC0415

        plan = cuda_kernel_code(self.module, function, gpu)
        source = "\n".join(map(_launched, plan.kernels))
        sass = sass_of(plan, gpu.arch)
        codes = [self._code("CUDA C++", source, MOST_CODE)]
        return [*codes, self._code("SASS", sass, MOST_MACHINE_CODE)] if sass else codes

    def _code(self, language: str, text: str, most: int) -> Code:
        return Code(language, self.texts.of_text(_cut(text, most)))

    def _missing(self, error: Exception) -> Code:
        return Code("code", self.texts.of_text(f"there is none: {one_line(error)}"))


def _cut(text: str, most: int) -> str:
    """A text, or its beginning, which says so."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n… and {left} characters more"


def _launched(kernel: CudaKernel) -> str:
    """The source of one launch, below its sizes."""
    grid, block = ("x".join(map(str, sizes)) for sizes in (kernel.grid, kernel.block))
    return (
        f"// {kernel.symbol}: grid {grid}, block {block}, "
        f"{kernel.shared_bytes} bytes of shared memory\n{kernel.source}"
    )
