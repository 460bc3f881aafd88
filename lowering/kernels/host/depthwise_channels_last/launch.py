"""The launches of a depthwise convolution of channels last: packed weights, and the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.depthwise_channels_last.blocking import cut_channels_last
from convir.lowering.kernels.host.depthwise_channels_last.config import FAMILY
from convir.lowering.kernels.host.depthwise_channels_last.kernel import ChannelsLastKernel
from convir.lowering.kernels.host.implicit_gemm.pack import panels
from convir.lowering.kernels.host.implicit_gemm.pack.panels import PackKernel
from convir.lowering.kernels.host.launch import Stage
from convir.lowering.kernels.host.operand_stages import OperandStages

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget

REFUSAL = "it is not a depthwise convolution of floats whose channels are contiguous"


def launch(spec: Contraction, cpu: CpuTarget, epilogue: FusedEpilogue | None = None) -> HostLaunch:
    """What computes C from A and B.

    Raises:
        ValueError: it is not a depthwise convolution of channels last.
    """
    stages = OperandStages(spec, cpu, epilogue)
    cuts = cut_channels_last(spec, stages.lanes)
    if cuts is None:
        raise ValueError(REFUSAL)
    packing = PackKernel(spec, stages.lanes, cuts.panels)
    lines = ChannelsLastKernel(spec, stages.lanes, cuts, epilogue)
    stages.kernels.append(lines)
    stages.workspace["packed"] = packing.packed_bytes
    stages.contract("a", "packed", lines.items)
    prepare = (Stage(panels.ENTRY, packing.items, ("b", "packed")),)
    return stages.launch(FAMILY, prepare, (packing,))
