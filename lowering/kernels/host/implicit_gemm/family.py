"""`implicit-gemm`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.host.implicit_gemm.config import CONFIG, FAMILY
from convir.lowering.kernels.host.implicit_gemm.launch import launch
from convir.lowering.kernels.host.implicit_gemm.predict import predict
from convir.lowering.kernels.host.problem import HostContraction, KernelBody

if TYPE_CHECKING:
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> HostContraction | Refusal:
    del cpu
    return body.rows()


def _launch(problem: HostContraction, config: OnlyConfig, cpu: CpuTarget) -> HostLaunch | Refusal:
    del config
    try:
        return problem.launch(launch(problem.spec, cpu, problem.epilogue))
    except ValueError as error:
        return Refusal(str(error))


IMPLICIT_GEMM = Family(
    name=FAMILY,
    sees=HostContraction,
    config=OnlyConfig,
    reads=_read,
    plan=lambda problem, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda problem, config, cpu: predict(problem.spec, cpu),
    launches=_launch,
)
