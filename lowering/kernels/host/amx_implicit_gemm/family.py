"""`amx-implicit-gemm`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.amx_implicit_gemm import problem as on_tiles
from convir.lowering.kernels.host.amx_implicit_gemm.config import CONFIG
from convir.lowering.kernels.host.amx_implicit_gemm.launch import launch
from convir.lowering.kernels.host.amx_implicit_gemm.predict import predict
from convir.lowering.kernels.host.contraction_family import contraction_family

if TYPE_CHECKING:
    from convir.lowering.kernels.host.problem import HostContraction, KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def _reads(body: KernelBody, cpu: CpuTarget) -> HostContraction | Refusal:
    if not cpu.tiles:
        return Refusal(f"{cpu.name} has no tile registers")
    found = body.rows(cpu)
    if isinstance(found, Refusal):
        return found
    return on_tiles.refusal(found.spec, cpu) or found


AMX_IMPLICIT_GEMM = contraction_family(
    CONFIG,
    reads=_reads,
    launch=lambda problem, cpu: launch(problem.spec, cpu, problem.epilogue),
    predict=lambda problem, cpu: predict(
        problem.spec, cpu, constant_weights=problem.constant_weights
    ),
)
"""A family of the host's contraction kernels whose config leaves nothing to choose."""
