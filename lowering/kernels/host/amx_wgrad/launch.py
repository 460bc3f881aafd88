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
from convir.lowering.kernels.host.wgrad.joined_taps import lines_of_taps, rows_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.lowering.kernels.host.wgrad.joined_taps import JoinedTaps

GAIN = 0.8
"""Lines of taps must take less than this part of the predicted cycles of single ones: A is copied
for them."""


def refusal(spec: Contraction, cpu: CpuTarget) -> Refusal | None:
    """Why tile registers do not compute B of `spec`; None if they do."""
    if not cpu.tiles:
        return Refusal(f"{cpu.name} has no tile registers")
    if spec.result != "B" or {spec.a.type, spec.c.type} != {"bf16"}:
        return Refusal("tile registers multiply bf16")
    if spec.in_channels == spec.out_channels == 1:
        return Refusal("depthwise convolutions have one result a register")
    return None


def joined_taps(spec: Contraction) -> JoinedTaps | None:
    """`spec` over lines of taps, where a few channels would leave most of a register empty.

    Raises:
        ValueError: there are too many taps for a row table.
    """
    joined = lines_of_taps(spec)
    if joined is None:
        return None
    pays = cut_weights(joined.spec).cycles < GAIN * cut_weights(spec).cycles
    return joined if pays else None


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
    joined = joined_taps(spec)
    a, c = rows_of(stages, joined), stages.readable_outs()
    together = groups_together(stages.spec)
    read = with_groups_together(stages.spec, together)
    weights = TileWeightKernel(read, stages.lanes, cut_weights(read), stages.spec)
    stages.kernels.append(weights)
    stages.workspace["parts"] = weights.workspace_bytes
    stages.stages.append(Stage(kernel.ENTRY, weights.items, (a, c, "parts")))
    stages.stages.append(Stage(partial_results.ENTRY, weights.adding.items, ("parts", "b")))
    return stages.launch(FAMILY)
