"""What may stand for a planar kernel on a CPU: register tiles, which are measured and recorded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.planar.read import read_planar
from convir.lowering.kernels.host.fused_chain.config import SumTile, legal_tiles
from convir.lowering.kernels.host.fused_chain.kernel import planar_ir
from convir.lowering.selection.records.record import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.planar.read import PlanarKernel
    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.lowering.kernels.host.target import CpuTarget

_DIGEST_LETTERS = 12


@dataclass(frozen=True)
class PlanarCandidates:
    """The configs of one planar kernel on one CPU."""

    kernel: PlanarKernel
    cpu: CpuTarget

    tf32 = False
    """No CPU multiplies so."""

    @property
    def signature(self) -> str:
        """What is computed, for how many frames, and where these lie: the key of its record."""
        program, binding = self.kernel.program, self.kernel.binding
        channels = "+".join(str(stage.channels) for stage in program.stages)
        sizes = f"{binding.images}x{channels}x{binding.frames}"
        return f"planar {sizes} {_digest(repr((program, binding)))}"

    @cached_property
    def codes(self) -> dict[str, str]:
        """The configs in the rule's order, and the digests of their code; of those that have the
        same code only the first."""
        found: dict[str, str] = {}
        for tile in legal_tiles(self.cpu):
            code = self._code(tile)
            if code not in found.values():
                found[str(tile)] = code
        return found

    @property
    def launches(self) -> Mapping[str, tuple[CudaKernel, ...]]:
        """The configs; none launches a CUDA kernel."""
        return dict.fromkeys(self.codes, ())

    def likely(self, most: int) -> Mapping[str, tuple[CudaKernel, ...]]:
        """All of them, whatever `most` says: they are few."""
        del most
        return self.launches

    def refusal(self, config: str) -> Refusal | None:
        """Why a config from anywhere is not legal here; None if it is."""
        try:
            SumTile.of(config, self.cpu)
        except ValueError as error:
            return Refusal(str(error))
        return None

    def _code(self, tile: SumTile) -> str:
        launch = self.kernel.program, self.kernel.binding
        return _digest(planar_ir({"kernel": launch}, self.cpu, {"kernel": tile}))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LETTERS]


def planar_candidates_of(function: kernel.FuncOp, cpu: CpuTarget) -> PlanarCandidates | Refusal:
    """The configs of a kernel, or why it is not a planar one."""
    found = read_planar(function)
    return found if isinstance(found, Refusal) else PlanarCandidates(found, cpu)


def machine_of_cpu(cpu: CpuTarget) -> Machine:
    """A CPU as what times of one thread belong to."""
    return Machine(f"{cpu.cpu} {cpu.vector_bits} bits", 1)
