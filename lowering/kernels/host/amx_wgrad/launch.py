"""The launches of a gradient of weights on tile registers: copies, products, and partial sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.amx_wgrad import kernel
from convir.lowering.kernels.host.amx_wgrad.blocking import cut_weights
from convir.lowering.kernels.host.amx_wgrad.config import FAMILY
from convir.lowering.kernels.host.amx_wgrad.groups import groups_together
from convir.lowering.kernels.host.amx_wgrad.kernel import TileWeightKernel
from convir.lowering.kernels.host.code.groups_together import with_groups_together
from convir.lowering.kernels.host.launch import Stage
from convir.lowering.kernels.host.operand_stages import OperandStages
from convir.lowering.kernels.host.wgrad import partial_results

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def refusal(spec: Contraction, cpu: CpuTarget) -> Refusal | None:
    """Why tile registers do not compute B of `spec`; None if they do."""
    if not cpu.tiles:
        return Refusal(f"{cpu.name} has no tile registers")
    if spec.result != "B" or {spec.a.type, spec.c.type} != {"bf16"}:
        return Refusal("tile registers multiply bf16")
    if spec.in_channels == spec.out_channels == 1:
        return Refusal("depthwise convolutions have one result a register")
    return None


def launch(spec: Contraction, cpu: CpuTarget) -> HostLaunch:
    """What computes B from A and C, on a contraction's operands.

    Raises:
        ValueError: tile registers do not compute it, there are too many taps for a row table, or
            the groups of an operand that has to be copied do not lie behind each other.
    """
    reason = refusal(spec, cpu)
    if reason is not None:
        raise ValueError(reason.reason)
    stages = OperandStages(spec, cpu, copied_as="bf16", joins=False)
    a, c = stages.readable_rows(), stages.readable_outs()
    together = groups_together(stages.spec)
    read = with_groups_together(stages.spec, together)
    weights = TileWeightKernel(read, stages.lanes, cut_weights(read), stages.spec)
    stages.kernels.append(weights)
    stages.workspace["parts"] = weights.workspace_bytes
    stages.stages.append(Stage(kernel.ENTRY, weights.items, (a, c, "parts")))
    stages.stages.append(Stage(partial_results.ENTRY, weights.adding.items, ("parts", "b")))
    return stages.launch(FAMILY)
