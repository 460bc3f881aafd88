"""The launches of an implicit GEMM: copies of operands, packed weights, and the kernel of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.implicit_gemm.blocking import block
from convir.lowering.kernels.host.implicit_gemm.config import FAMILY
from convir.lowering.kernels.host.implicit_gemm.joined_taps import JoinedTaps, takes_joined_taps
from convir.lowering.kernels.host.implicit_gemm.kernel import RowKernel
from convir.lowering.kernels.host.implicit_gemm.pack import panels
from convir.lowering.kernels.host.implicit_gemm.pack.panels import PackKernel
from convir.lowering.kernels.host.launch import Stage
from convir.lowering.kernels.host.operand_stages import OperandStages

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.launch import Buffer, HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def launch(spec: Contraction, cpu: CpuTarget, epilogue: FusedEpilogue | None = None) -> HostLaunch:
    """What computes C from A and B, on a contraction's operands.

    Raises:
        ValueError: there are too many taps for a row table, or the groups of an operand that has
            to be copied do not lie behind each other.
    """
    if takes_joined_taps(spec, cpu):
        of_words = _launch_joined(spec, cpu, epilogue)
        if of_words is not None:
            return of_words
    stages = OperandStages(spec, cpu, epilogue)
    a = stages.readable_rows()
    cuts = block(stages.spec, stages.lanes)
    rows = RowKernel(stages.spec, stages.lanes, cuts, epilogue)
    stages.kernels.append(rows)
    if cuts.in_place:
        stages.contract(a, "b", rows.items)
        return stages.launch(FAMILY)
    packing = PackKernel(stages.spec, stages.lanes, cuts)
    stages.workspace["packed"] = packing.packed_bytes
    stages.contract(a, "packed", rows.items)
    operands: tuple[Buffer, ...] = ("b", "packed")
    return stages.launch(FAMILY, (Stage(panels.ENTRY, packing.items, operands),), (packing,))


def _launch_joined(
    spec: Contraction, cpu: CpuTarget, epilogue: FusedEpilogue | None
) -> HostLaunch | None:
    """What computes C from copied rows; None if these are not multiplied best."""
    stages = OperandStages(spec, cpu, epilogue, copied_as="bf16", joins=False)
    a = stages.readable_rows()
    joined = JoinedTaps.of(stages.spec, cpu)
    if joined is None:
        return None
    rows = RowKernel(joined.spec, joined.lanes, joined.cuts, epilogue, joined)
    packing = joined.packing
    stages.kernels.append(rows)
    stages.workspace["packed"] = packing.packed_bytes
    stages.contract(a, "packed", rows.items)
    operands: tuple[Buffer, ...] = ("b", "packed")
    return stages.launch(FAMILY, (Stage(panels.ENTRY, packing.items, operands),), (packing,))
