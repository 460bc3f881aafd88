"""`direct-depthwise`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.contraction_family import contraction_family
from convir.lowering.kernels.host.direct_depthwise.config import CONFIG
from convir.lowering.kernels.host.direct_depthwise.kernel import cut_planes
from convir.lowering.kernels.host.direct_depthwise.launch import launch
from convir.lowering.kernels.host.direct_depthwise.predict import predict

if TYPE_CHECKING:
    from convir.lowering.kernels.host.problem import HostContraction, KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> HostContraction | Refusal:
    found = body.rows(cpu)
    if isinstance(found, Refusal):
        return found
    cuts = cut_planes(found.spec, Lanes(found.spec.element, cpu))
    return (
        Refusal("it is not a depthwise convolution of floats on planes") if cuts is None else found
    )


DIRECT_DEPTHWISE = contraction_family(
    CONFIG,
    reads=_read,
    launch=lambda problem, cpu: launch(problem.spec, cpu, problem.epilogue),
    predict=lambda problem, cpu: predict(problem.spec, cpu),
)
