"""Kernels for a CPU with AMX, by models of its instructions or as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
from tile_instructions import emulated_tiles

from convir.lowering.kernels.host.amx_implicit_gemm import launch as implicit_gemm
from convir.lowering.kernels.host.amx_wgrad import launch as wgrad
from convir.lowering.kernels.host.target import HOST, target
from convir.runtime.host.contraction import HostKernel
from convir.runtime.host.jit import AS_EMITTED, compile_ir

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget

    Compiled: TypeAlias = Callable[[Contraction, CpuTarget], HostKernel]


def _launch(spec: Contraction, cpu: CpuTarget) -> HostLaunch:
    plan = (implicit_gemm if spec.result == "C" else wgrad).launch(spec, cpu)
    assert "@llvm.x86.tdpb" in plan.ir
    return plan


def modelled(spec: Contraction, cpu: CpuTarget) -> HostKernel:
    """The kernel of `spec`, whose instructions on tile registers are models."""
    plan, host = _launch(spec, cpu), target(HOST)
    ir = emulated_tiles(plan.ir)
    return HostKernel(plan, compile_ir(ir, exports=plan.entries, cpu=host, options=AS_EMITTED))


def native(spec: Contraction, cpu: CpuTarget) -> HostKernel:
    """The kernel of `spec` as it is, where this machine has AMX."""
    if not target(HOST).tiles:
        pytest.skip("this CPU has no AMX")
    plan = _launch(spec, cpu)
    return HostKernel(plan, compile_ir(plan.ir, exports=plan.entries, cpu=cpu, options=AS_EMITTED))
