"""The kernels of a program, compiled while the rest of it is lowered."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.utils.exceptions import PassFailedException

from convir.dialects.kernel.ops import FuncOp
from convir.lowering.implementations import CUDA, LOOPS, config_of
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.registry import names_family, plan_kernel
from convir.lowering.regions.outline_kernels import outlined
from convir.runtime.cuda.planner import likely_loops, plan_program
from convir.runtime.cuda.toolchain.compile import Compilations

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from xdsl.dialects.builtin import ModuleOp

    from convir.analysis.refusal import Refusal
    from convir.dialects.kernel.ops import RegionOp
    from convir.lowering.kernels.target import Target
    from convir.runtime.cuda.plan import CudaPlan
    from convir.runtime.program import Program


class EarlyKernels:
    """What a family launches does not depend on where tensors lie. Loops do: those that nearly all
    tensors need are compiled. A kernel that turns out not to be launched is compiled in vain, and
    nobody hears of its errors."""

    def __init__(self, gpu: Target) -> None:
        """Compile for `gpu`."""
        self._compilations = Compilations(gpu.arch)
        self._gpu = gpu

    def __enter__(self) -> Self:
        self._compilations.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._compilations.__exit__(*error)

    def chosen(self, region: RegionOp) -> None:
        """Compile what a family launches for `region`."""
        config = config_of(region, CUDA)
        if config is not None and names_family(config):
            self._start(plan_kernel(outlined(region, "chosen")[0], config, self._gpu))

    def outlined(self, module: ModuleOp) -> None:
        """Compile what the kernels of `module` launch, as far as that is not begun."""
        for function in [op for op in module.ops if isinstance(op, FuncOp)]:
            config = config_of(function, CUDA)
            if config is not None and names_family(config):
                self._start(plan_kernel(function, config, self._gpu))
            elif config == LOOPS:
                with suppress(PassFailedException):
                    self._start(likely_loops(function))

    def _start(self, plan: KernelPlan | Refusal) -> None:
        if isinstance(plan, KernelPlan):
            self._compilations.start(kernel.source for kernel in plan.kernels)

    def plan(self, program: Program, told: Callable[[int, int], None] | None = None) -> CudaPlan:
        """The plan of a program with the code of all its kernels, which the cache of cubins has
        from then on.

        Args:
            program: what is planned.
            told: is told how many kernels are done, and of how many.

        Raises:
            PassFailedException: a kernel has no code for the GPU.
            CompileError: NVRTC refuses a source.
            NoGpuError: CuPy or CUDA's headers are not installed.
        """
        plan = plan_program(program, self._gpu)
        return replace(plan, cubins=self._compilations.finished(plan.sources, told))
