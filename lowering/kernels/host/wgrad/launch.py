"""The launches of a gradient of weights: copies of operands, outer products, and partial sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.launch import Stage
from convir.lowering.kernels.host.operand_stages import OperandStages
from convir.lowering.kernels.host.wgrad import kernel, partial_results
from convir.lowering.kernels.host.wgrad.blocking import block_weights, copied_type, lanes_of
from convir.lowering.kernels.host.wgrad.config import FAMILY
from convir.lowering.kernels.host.wgrad.joined_taps import joined_taps, rows_of
from convir.lowering.kernels.host.wgrad.kernel import WeightKernel

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def launch(spec: Contraction, cpu: CpuTarget) -> HostLaunch:
    """What computes B from A and C, on a contraction's operands.

    Raises:
        ValueError: the groups of an operand that has to be copied do not lie behind each other.
    """
    joined = joined_taps(spec, cpu)
    lanes = lanes_of(spec if joined is None else joined.spec, cpu)
    stages = OperandStages(spec, cpu, copied_as=copied_type(spec, lanes))
    a, c = rows_of(stages, joined), stages.readable_outs()
    cuts = block_weights(stages.spec, lanes)
    weights = WeightKernel(stages.spec, lanes, cuts)
    stages.kernels.append(weights)
    if cuts.direct:
        stages.stages.append(Stage(kernel.ENTRY, weights.items, (a, c, "b")))
        return stages.launch(FAMILY)
    stages.workspace["parts"] = weights.workspace_bytes
    stages.stages.append(Stage(kernel.ENTRY, weights.items, (a, c, "parts")))
    stages.stages.append(Stage(partial_results.ENTRY, weights.adding.items, ("parts", "b")))
    return stages.launch(FAMILY)
