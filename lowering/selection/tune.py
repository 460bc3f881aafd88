"""A module with each config of each of its kernels: what tuning compiles and measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.passes import PassPipeline

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.conv.constant import ConstantOp
from convir.dialects.diagnostics import verify
from convir.dialects.kernel import ops as kernel
from convir.lowering.implementations import CUDA, HOST, attach_config
from convir.lowering.pipeline import lowering_passes
from convir.lowering.regions.op_groups import ALIASES
from convir.lowering.regions.outline_kernels import outlined
from convir.lowering.selection.candidates import candidates_for, machine_for
from convir.lowering.stages import STAGES

if TYPE_CHECKING:
    from xdsl.ir import SSAValue
    from xdsl.passes import ModulePass

    from convir.lowering.kernels.target import Target
    from convir.lowering.selection.kernel_candidates import Candidates
    from convir.lowering.selection.planar_candidates import PlanarCandidates
    from convir.lowering.selection.records.record import Machine

_SELECTED = STAGES.index("selected") + 1
_OUTLINED = STAGES.index("outlined") + 1


@dataclass(frozen=True)
class TunableKernel:
    """A kernel of a module that several configs compute."""

    candidates: Candidates | PlanarCandidates
    regions: tuple[int, ...]
    """Which regions of the module it is, in order."""


@dataclass(frozen=True)
class Tunable:
    """A module whose kernels are selected for a device, but not outlined."""

    module: ModuleOp
    gpu: Target | None
    """None for the host."""
    kernels: tuple[TunableKernel, ...]

    @property
    def machine(self) -> Machine:
        """What times belong to."""
        return machine_for(self.gpu)

    def lowered(self, tuned: TunableKernel, config: str) -> ModuleOp:
        """The rt program in which `tuned` has `config`, and all other kernels their own.

        Raises:
            DiagnosticError: the module uses what the device cannot run.
        """
        module = self.module.clone()
        regions = _regions(module)
        for number in tuned.regions:
            attach_config(regions[number], _kind(self.gpu), config)
        return _lowered(module, self.gpu, _SELECTED)

    def alone(self, tuned: TunableKernel) -> KernelAlone:
        """`tuned` as a program of its own."""
        function, captures = outlined(_regions(self.module)[tuned.regions[0]], "kernel")
        types = function.function_type
        body = Block(arg_types=types.inputs.data)
        call = kernel.CallOp("kernel", list(body.args), types.outputs.data)
        body.add_ops([call, func.ReturnOp(*call.res)])
        main = func.FuncOp("main", (types.inputs.data, types.outputs.data), Region(body))
        computed = tuple(map(_is_computed, captures))
        return KernelAlone(ModuleOp([function, main]), self.gpu, computed)


@dataclass(frozen=True)
class KernelAlone:
    """A kernel that a function, `main`, calls once, with what it captures in a program."""

    module: ModuleOp
    gpu: Target | None
    computed: tuple[bool, ...]
    """Which arguments the program computes: the others are its own, or constants."""

    def lowered(self, config: str) -> ModuleOp:
        """The rt program in which the kernel has `config`.

        Raises:
            DiagnosticError: the kernel uses what the device cannot run.
        """
        module = self.module.clone()
        for function in module.ops:
            if isinstance(function, kernel.FuncOp):
                attach_config(function, _kind(self.gpu), config)
        return _lowered(module, self.gpu, _OUTLINED)


def _lowered(module: ModuleOp, gpu: Target | None, begin: int) -> ModuleOp:
    """`module`, changed by the passes of the lowering from number `begin` on."""
    PassPipeline(_passes(gpu)[begin:]).apply(new_context(), module)
    verify(module)
    return module


def _is_computed(value: SSAValue) -> bool:
    """Whether ops of a program compute a value, which is then neither an argument nor constant."""
    owner = value.owner
    while not isinstance(owner, Block) and owner.name in ALIASES:
        owner = owner.operands[0].owner
    return not isinstance(owner, Block | ConstantOp)


def _kind(gpu: Target | None) -> str:
    return HOST if gpu is None else CUDA


def _passes(gpu: Target | None) -> tuple[ModulePass, ...]:
    return lowering_passes(_kind(gpu)) if gpu is None else lowering_passes(CUDA, gpu=gpu)


def tunable(module: ModuleOp, gpu: Target | None) -> Tunable:
    """The kernels of a module on tensors that have configs to choose from on a GPU, or on the host
    if it is None; `module` is kept."""
    selected = module.clone()
    PassPipeline(_passes(gpu)[:_SELECTED]).apply(new_context(), selected)
    found: dict[str, tuple[Candidates | PlanarCandidates, list[int]]] = {}
    for number, region in enumerate(_regions(selected)):
        candidates = candidates_for(outlined(region, "candidate")[0], gpu)
        if isinstance(candidates, Refusal):
            continue
        found.setdefault(candidates.signature, (candidates, []))[1].append(number)
    kernels = (TunableKernel(each, tuple(numbers)) for each, numbers in found.values())
    return Tunable(selected, gpu, tuple(kernels))


def _regions(module: ModuleOp) -> list[kernel.RegionOp]:
    return [op for op in module.walk() if isinstance(op, kernel.RegionOp)]
