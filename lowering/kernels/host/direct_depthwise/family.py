"""`direct-depthwise`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.host.code.lanes import Lanes
from convir.lowering.kernels.host.direct_depthwise.config import CONFIG, FAMILY
from convir.lowering.kernels.host.direct_depthwise.kernel import cut_planes
from convir.lowering.kernels.host.direct_depthwise.launch import launch
from convir.lowering.kernels.host.direct_depthwise.predict import predict
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.host.problem import HostContraction, KernelBody

if TYPE_CHECKING:
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> HostContraction | Refusal:
    found = body.rows()
    if isinstance(found, Refusal):
        return found
    cuts = cut_planes(found.spec, Lanes(found.spec.element, cpu))
    return Refusal("it is no depthwise convolution on planes") if cuts is None else found


def _launch(problem: HostContraction, config: OnlyConfig, cpu: CpuTarget) -> HostLaunch:
    del config
    return problem.launch(launch(problem.spec, cpu, problem.epilogue))


DIRECT_DEPTHWISE = Family(
    name=FAMILY,
    sees=HostContraction,
    config=OnlyConfig,
    reads=_read,
    plan=lambda problem, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda problem, config, cpu: predict(problem.spec, cpu),
    launches=_launch,
)
