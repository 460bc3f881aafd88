"""A contraction compiled for a CPU, ready to be called."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.launch import Argument
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import CpuTarget, target
from convir.runtime.host.jit import AS_EMITTED, Library, compile_ir
from convir.runtime.host.pool import shared_pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import Buffer, HostLaunch, Stage


@dataclass(frozen=True)
class HostKernel:
    """The machine code of a contraction."""

    plan: HostLaunch
    _library: Library = field(repr=False)

    @property
    def workspace(self) -> Mapping[Buffer, int]:
        """Bytes of each buffer that the caller provides beside the operands."""
        return self.plan.workspace

    def address(self, stage: Stage) -> int:
        """Where the code of a stage lies."""
        return self._library.address(stage.entry)

    def pack(self, buffers: Mapping[Buffer, int], threads: int | None = None) -> None:
        """Pack the weights at address `b` into the buffer at `packed`, where weights are read.

        Args:
            buffers: the addresses of the operands and of all of `workspace`.
            threads: use at most so many; all cores if None.
        """
        self._launch(self.plan.prepare, buffers, threads)

    def run(self, buffers: Mapping[Buffer, int], threads: int | None = None) -> None:
        """Compute the result from the other operands, the weights having been packed.

        Args:
            buffers: the addresses of the operands and of all of `workspace`; none overlap.
            threads: use at most so many; all cores if None.
        """
        self._launch(self.plan.stages, buffers, threads)

    def _launch(
        self, stages: tuple[Stage, ...], buffers: Mapping[Buffer, int], threads: int | None
    ) -> None:
        pool = shared_pool()
        for stage in stages:
            addresses = [buffers[name] for name in stage.buffers if not isinstance(name, Argument)]
            arguments = (ctypes.c_void_p * len(addresses))(*addresses)
            pool.launch(self.address(stage), ctypes.addressof(arguments), stage.items, threads)


def compile_contraction(
    spec: Contraction, cpu: CpuTarget | None = None, epilogue: FusedEpilogue | None = None
) -> HostKernel:
    """Generate, compile and load the kernels of `spec` for `cpu` (the host's if None).

    What follows, `epilogue`, is computed before the result is stored.

    Raises:
        ValueError: there are too many taps for a row table, or the groups of an operand that has
            to be copied do not lie behind each other.
        CompileError: LLVM refuses the code.
    """
    cpu = target() if cpu is None else cpu
    plan = plan_contraction(spec, cpu, epilogue)
    library = compile_ir(plan.ir, exports=plan.entries, cpu=cpu, options=AS_EMITTED)
    return HostKernel(plan, library)
