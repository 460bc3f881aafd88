"""A module with each config of each of its kernels: what tuning compiles and measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.passes import PassPipeline

from convir.dialects import kernel
from convir.dialects.context import new_context
from convir.dialects.diagnostics import verify
from convir.dialects.refusal import Refusal
from convir.lowering.implementations import CUDA
from convir.lowering.kernel_candidates import Candidates, candidates_of
from convir.lowering.outline_kernels import outlined
from convir.lowering.pipeline import lowering_passes
from convir.lowering.stages import STAGES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.cuda.gpu import Gpu

_SELECTED = STAGES.index("selected") + 1


@dataclass(frozen=True)
class TunableKernel:
    """A kernel of a module that several configs compute."""

    candidates: Candidates
    regions: tuple[int, ...]
    """Which regions of the module it is, in order."""


@dataclass(frozen=True)
class Tunable:
    """A module whose kernels are selected for a GPU, but not outlined."""

    module: ModuleOp
    gpu: Gpu
    kernels: tuple[TunableKernel, ...]

    def lowered(self, tuned: TunableKernel, config: str) -> ModuleOp:
        """The rt program in which `tuned` has `config`, and all other kernels their own.

        Raises:
            DiagnosticError: the module uses what a GPU cannot run.
        """
        module = self.module.clone()
        regions = _regions(module)
        for number in tuned.regions:
            regions[number].configs = DictionaryAttr({CUDA: StringAttr(config)})
        passes = lowering_passes(CUDA, gpu=self.gpu)[_SELECTED:]
        PassPipeline(passes).apply(new_context(), module)
        verify(module)
        return module


def tunable(module: ModuleOp, gpu: Gpu) -> Tunable:
    """The kernels of a module on tensors that have configs to choose from; `module` is kept."""
    selected = module.clone()
    PassPipeline(lowering_passes(CUDA, gpu=gpu)[:_SELECTED]).apply(new_context(), selected)
    found: dict[str, tuple[Candidates, list[int]]] = {}
    for number, region in enumerate(_regions(selected)):
        candidates = candidates_of(outlined(region, "candidate")[0], gpu)
        if isinstance(candidates, Refusal):
            continue
        found.setdefault(candidates.signature, (candidates, []))[1].append(number)
    kernels = (TunableKernel(each, tuple(numbers)) for each, numbers in found.values())
    return Tunable(selected, gpu, tuple(kernels))


def _regions(module: ModuleOp) -> list[kernel.RegionOp]:
    return [op for op in module.walk() if isinstance(op, kernel.RegionOp)]
