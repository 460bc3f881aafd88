"""The launches of an implicit GEMM on tile registers: copies, packed weights, and the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.amx_implicit_gemm import problem
from convir.lowering.kernels.host.amx_implicit_gemm.blocking import (
    TILE_COLUMNS,
    block_tiles,
    row_blocks,
    steps_of,
)
from convir.lowering.kernels.host.amx_implicit_gemm.config import FAMILY
from convir.lowering.kernels.host.amx_implicit_gemm.groups import groups_together
from convir.lowering.kernels.host.amx_implicit_gemm.kernel import PackedPlaces, TileKernel
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.elements.pairs import paired
from convir.lowering.kernels.host.code.elements.quads import in_quads
from convir.lowering.kernels.host.code.groups_together import with_groups_together
from convir.lowering.kernels.host.code.tile_registers import WORD_BYTES, WORDS
from convir.lowering.kernels.host.implicit_gemm.pack import panels
from convir.lowering.kernels.host.implicit_gemm.pack.panels import PackKernel
from convir.lowering.kernels.host.implicit_gemm.pack.words import WordPacking
from convir.lowering.kernels.host.launch import Stage
from convir.lowering.kernels.host.operand_stages import OperandStages

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking
    from convir.lowering.kernels.host.launch import Buffer, HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def launch(spec: Contraction, cpu: CpuTarget, epilogue: FusedEpilogue | None = None) -> HostLaunch:
    """What computes C from A and B, on a contraction's operands.

    Raises:
        ValueError: tile registers do not compute it, there are too many taps for a row table, or
            the groups of an operand that has to be copied do not lie behind each other.
    """
    reason = problem.refusal(spec, cpu)
    if reason is not None:
        raise ValueError(reason.reason)
    stages = OperandStages(spec, cpu, epilogue, copied_as=spec.a.type, joins=False)
    a = stages.readable_rows()
    packing, cuts, places = packed(spec, cpu)
    read = with_groups_together(stages.spec, groups_together(spec))
    rows = TileKernel(read, stages.lanes, cuts, places, epilogue)
    stages.kernels.append(rows)
    stages.workspace["packed"] = packing.packed_bytes
    stages.contract(a, "packed", rows.items)
    operands: tuple[Buffer, ...] = ("b", "packed")
    return stages.launch(FAMILY, (Stage(panels.ENTRY, packing.items, operands),), (packing,))


def packed(
    spec: Contraction, cpu: CpuTarget
) -> tuple[PackKernel | WordPacking, Blocking, PackedPlaces]:
    """What packs the weights of `spec`, its cuts, and where packed weights lie.

    Raises:
        ValueError: there are too many taps for a row table.
    """
    together = groups_together(spec)
    read = with_groups_together(spec, together)
    if together > 1 or not row_blocks(spec).whole:
        cuts = block_tiles(read, read.in_channels)
        line = TILE_COLUMNS * WORD_BYTES
        words = tuple(steps * WORDS for steps in steps_of(read))
        packing = WordPacking(spec, words, cuts.panels, TILE_COLUMNS, TILE_COLUMNS, together)
        starts = (sum(words[:number]) * line for number in range(len(words)))
        phases = tuple((start, packing.panel_bytes) for start in starts)
        return packing, cuts, PackedPlaces(packing.group_bytes, phases, line)
    of_bytes = spec.element == "i32"
    in_words = in_quads(spec) if of_bytes else paired(spec)
    lanes = Lanes(spec.element, cpu, pairs=not of_bytes, quads=of_bytes)
    cuts = block_tiles(spec, in_words.in_channels)
    tap_bytes = cuts.tap_elements * WORD_BYTES
    phases: tuple[tuple[int, int], ...] = ()
    before = 0
    for phase in spec.phases:
        panel_bytes = phase.taps * cuts.panel_elements * WORD_BYTES
        phases = (*phases, (before * tap_bytes, panel_bytes))
        before += phase.taps
    last_line = cuts.last_tile.out_channels(TILE_COLUMNS // 2) * WORD_BYTES
    places = PackedPlaces(before * tap_bytes, phases, last_line)
    return PackKernel(in_words, lanes, cuts), cuts, places
