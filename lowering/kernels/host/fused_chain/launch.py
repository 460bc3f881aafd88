"""The launch of a fused chain; the chains of a program are compiled together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.fused_chain.kernel import planar_ir
from convir.lowering.kernels.host.launch import Argument, HostLaunch, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from convir.lowering.bodies.planar.program import Binding, PlanarProgram
    from convir.lowering.kernels.host.fused_chain.config import SumTile
    from convir.lowering.kernels.host.fused_chain.problem import Chain
    from convir.lowering.kernels.host.target import CpuTarget


@dataclass(frozen=True)
class ChainCode:
    """The code of one chain."""

    entry: str
    program: PlanarProgram
    binding: Binding
    tile: SumTile
    cpu: CpuTarget

    is_final = True

    @property
    def ir(self) -> str:
        """LLVM assembly of this chain alone."""
        return joined_ir((self,))


def joined_ir(codes: Iterable[ChainCode]) -> str:
    """LLVM assembly of several chains for one CPU: those that differ in numbers share their
    functions."""
    codes = tuple(codes)
    return planar_ir(
        {code.entry: (code.program, code.binding) for code in codes},
        codes[0].cpu,
        {code.entry: code.tile for code in codes},
    )


def launch(chain: Chain, tile: SumTile, cpu: CpuTarget) -> HostLaunch:
    """The launch of one chain."""
    reading = chain.reading
    code = ChainCode(chain.entry, reading.program, reading.binding, tile, cpu)
    inputs, outputs = chain.arguments
    buffers = (
        *(Argument("input", index) for index in range(inputs)),
        *(Argument("output", index) for index in range(outputs)),
    )
    work = reading.program.multiply_adds * reading.binding.frames
    copies = tuple(
        (Argument("input", each.argument), Argument("output", each.result))
        for each in reading.insertions
    )
    stage = Stage(code.entry, reading.binding.items, buffers, work)
    return HostLaunch(code, (stage,), copies=copies)
