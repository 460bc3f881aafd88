"""The launch of a depthwise convolution on planes: one stage, no workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.direct_depthwise.config import FAMILY
from convir.lowering.kernels.host.direct_depthwise.kernel import PlaneKernel, cut_planes
from convir.lowering.kernels.host.operand_stages import OperandStages

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def launch(spec: Contraction, cpu: CpuTarget, epilogue: FusedEpilogue | None = None) -> HostLaunch:
    """What computes C from A and B.

    Raises:
        ValueError: it is not a depthwise convolution on planes.
    """
    stages = OperandStages(spec, cpu, epilogue)
    cuts = cut_planes(spec, Lanes(spec.element, cpu))
    if cuts is None:
        raise ValueError("it is not a depthwise convolution on planes")
    planes = PlaneKernel(spec, stages.lanes, cuts, epilogue)
    stages.kernels.append(planes)
    stages.contract("a", "b", planes.items)
    return stages.launch(FAMILY)
