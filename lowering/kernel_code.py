"""The code of every kernel of a module, as text to read: LLVM IR or CUDA C++."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from xdsl.utils.exceptions import PassFailedException

from convir.analysis.refusal import Refusal
from convir.dialects.diagnostics import DiagnosticError, error_at
from convir.dialects.kernel import ops as kernel
from convir.dialects.rt import ops as rt
from convir.lowering.implementations import CUDA, GEMM, HOST, LOOPS, PLANAR, config_of
from convir.lowering.kernels.host import registry as host
from convir.lowering.kernels.host.launch import HostLaunch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.registry import names_family, plan_kernel
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.lowering.loops.cuda.planar import plan_planar

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.lowering.kernels.target import Target as Gpu

_Reused: TypeAlias = tuple[tuple[int, int], ...]
"""The arguments of a kernel over which a launch writes a result, each with that result."""


def llvm_code(module: ModuleOp, cpu: CpuTarget) -> str:
    """The LLVM IR of every kernel that is not a library call, before LLVM optimizes it.

    Raises:
        DiagnosticError: a kernel has no code for a CPU; located at the kernel.
    """
    return "\n".join(
        f"; @{function.sym_name.data} for {cpu.name}: {_config(function)}\n"
        f"{_llvm_kernel(function, cpu, _reused(module, function))}"
        for function in _kernels(module, HOST)
    )


def cuda_code(module: ModuleOp, gpu: Gpu) -> str:
    """The CUDA C++ of every kernel that is not a library call: one `__global__` function per nest.

    Raises:
        DiagnosticError: a kernel has no code for a GPU; located at the kernel.
    """
    return "\n".join(
        f"// @{function.sym_name.data}\n{_cuda_config(function)}"
        + "\n".join(launch.source for launch in plan.kernels)
        for function, plan in cuda_plans(module, gpu)
    )


def host_kernel_code(
    module: ModuleOp, function: kernel.FuncOp, cpu: CpuTarget
) -> HostLaunch | None:
    """What a CPU launches for one kernel of `module`; None for a library's call.

    Raises:
        DiagnosticError: the kernel has no code for a CPU; located at the kernel.
    """
    return _host_launch(function, cpu, _reused(module, function))


def cuda_kernel_code(module: ModuleOp, function: kernel.FuncOp, gpu: Gpu) -> KernelPlan:
    """What a GPU launches for one kernel of `module`, which is no library's.

    Raises:
        DiagnosticError: the kernel has no code for a GPU; located at the kernel.
    """
    return _cuda_plan(function, _reused(module, function), gpu)


def cuda_plans(module: ModuleOp, gpu: Gpu) -> list[tuple[kernel.FuncOp, KernelPlan]]:
    """What a GPU launches for every kernel that is not a library call.

    Raises:
        DiagnosticError: a kernel has no code for a GPU; located at the kernel.
    """
    return [
        (function, _cuda_plan(function, _reused(module, function), gpu))
        for function in _kernels(module, CUDA)
    ]


def _kernels(module: ModuleOp, device: str) -> list[kernel.FuncOp]:
    """The kernels that are generated for a device; a GEMM is a library's."""
    kernels = [op for op in module.ops if isinstance(op, kernel.FuncOp)]
    return [function for function in kernels if config_of(function, device) != GEMM]


def _config(function: kernel.FuncOp) -> str:
    return config_of(function, HOST) or LOOPS


def _reused(module: ModuleOp, function: kernel.FuncOp) -> _Reused:
    """The arguments of the kernel over which a launch, the first that does so, writes a result."""
    for op in module.walk():
        if isinstance(op, rt.LaunchOp) and op.callee.root_reference == function.sym_name:
            results = list(op.outputs)
            reused = tuple((i, results.index(x)) for i, x in enumerate(op.inputs) if x in results)
            if reused:
                return reused
    return ()


def _llvm_kernel(function: kernel.FuncOp, cpu: CpuTarget, reused: _Reused) -> str:
    launch = _host_launch(function, cpu, reused)
    return "" if launch is None else launch.ir


def _host_launch(function: kernel.FuncOp, cpu: CpuTarget, reused: _Reused) -> HostLaunch | None:
    body = KernelBody(function, reused)
    try:
        launch = host.plan_kernel(body, _config(function), cpu)
    except PassFailedException as error:
        raise DiagnosticError(error_at(function, error)) from error
    if isinstance(launch, Refusal):
        raise DiagnosticError(error_at(function, launch.reason))
    return launch if isinstance(launch, HostLaunch) else None


def _cuda_config(function: kernel.FuncOp) -> str:
    config = config_of(function, CUDA) or LOOPS
    return f"// {config}\n" if names_family(config) else ""


def _cuda_plan(function: kernel.FuncOp, reused: _Reused, gpu: Gpu) -> KernelPlan:
    config = config_of(function, CUDA) or LOOPS
    if config == PLANAR:
        planar = plan_planar(function, gpu)
        if isinstance(planar, Refusal):
            raise DiagnosticError(error_at(function, planar.reason))
        return planar
    if names_family(config):
        plan = plan_kernel(function, config, gpu)
        if isinstance(plan, Refusal):
            raise DiagnosticError(error_at(function, plan.reason))
        return plan
    try:
        arguments = [argument for argument, _ in reused]
        return plan_loops(function, restrict=not reused, reused=arguments)
    except PassFailedException as error:
        raise DiagnosticError(error_at(function, error)) from error
