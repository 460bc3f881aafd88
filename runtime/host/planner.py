"""From a program to a plan for one CPU: every kernel is compiled, every argument placed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.refusal import Refusal
from convir.dialects.kernel.ops import FuncOp
from convir.lowering.implementations import HOST, LOOPS, config_of
from convir.lowering.kernels.host.fused_chain.launch import ChainCode, joined_ir
from convir.lowering.kernels.host.launch import Argument, HostLaunch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import CONTRACTIONS, families_of, plan_kernel
from convir.lowering.kernels.host.workspace import ALIGNMENT, layout_workspace
from convir.lowering.loops.llvm.shared_numbers import NUMBER_BYTES
from convir.runtime.host.jit import AS_EMITTED
from convir.runtime.host.kernel_codes import KernelCodes, Placed
from convir.runtime.host.plan import CHAIN_CODE, HostPlan, KernelLaunch
from convir.runtime.program import (
    Copy,
    Launch,
    Space,
    launch_overlaps_partly,
    memory_positions,
    results_over_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from typing import Self

    from xdsl.dialects.builtin import ModuleOp

    from convir.dialects.kernel.ops import RegionOp
    from convir.lowering.kernels.host.launch import Buffer as Name
    from convir.lowering.kernels.host.launch import HostCode, Stage
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.runtime.host.jit import ObjectCode
    from convir.runtime.host.plan import Place, Step
    from convir.runtime.program import Buffer, Program

T = TypeVar("T")

_log = logging.getLogger(__name__)


class EarlyKernels:
    """The contractions of a program, which LLVM compiles while the rest of it is lowered.

    What they launch does not depend on where their tensors lie; one whose result turns out to
    overlap with what it reads, which loops compute, is compiled in vain.
    """

    def __init__(self, cpu: CpuTarget) -> None:
        """Compile for `cpu`."""
        self.codes = KernelCodes(cpu)
        self.placed: dict[HostCode, Placed] = {}
        self.launches: dict[FuncOp, HostLaunch] = {}
        self._cpu = cpu

    def __enter__(self) -> Self:
        self.codes.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.codes.__exit__(*error)

    def chosen(self, region: RegionOp) -> None:
        """Nothing: what kernels have in common is seen once all of them are known."""

    def outlined(self, module: ModuleOp) -> None:
        """Compile the contractions among the kernels of `module`, which are outlined."""
        functions = [op for op in module.ops if isinstance(op, FuncOp) and _contracts(op)]
        parts = _Parts(self.codes, self.placed)
        for some in _by_arithmetic(functions, lambda function: function):
            for function in some:
                config = config_of(function, HOST) or LOOPS
                launch = plan_kernel(KernelBody(function), config, self._cpu)
                if isinstance(launch, HostLaunch) and not isinstance(launch.code, ChainCode):
                    self.launches[function] = launch
                    parts.take(launch)
            parts.place_computing()
        parts.place_preparing()

    def plan(self, program: Program, told: Callable[[int, int], None] | None = None) -> HostPlan:
        """The plan of a program, as `plan_program` makes it; nobody is told how far it is."""
        del told
        return plan_program(program, self._cpu, self)


class _Parts:
    """The modules of launches on their way to `KernelCodes`."""

    def __init__(self, codes: KernelCodes, placed: dict[HostCode, Placed]) -> None:
        self._codes = codes
        self._placed = placed
        self._computing: dict[HostCode, HostLaunch] = {}
        self._preparing: dict[HostCode, HostLaunch] = {}

    def take(self, launch: HostLaunch) -> None:
        """Take the parts of a launch that are not placed."""
        for part in launch.parts:
            if part.code not in self._placed:
                waiting = self._computing if part.stages else self._preparing
                waiting.setdefault(part.code, part)

    def place_computing(self) -> None:
        """Place the stages of all launches since the last time."""
        self._place(self._computing)

    def place_preparing(self) -> None:
        """Place what prepares for them, which is alike whatever their arithmetic."""
        self._place(self._preparing)

    def _place(self, waiting: dict[HostCode, HostLaunch]) -> None:
        found = self._codes.add_kernels(list(waiting.values()))
        self._placed |= zip(waiting, found, strict=True)
        waiting.clear()


def _contracts(function: FuncOp) -> bool:
    families = families_of(config_of(function, HOST) or LOOPS)
    return any(family in CONTRACTIONS for family in families)


def _by_arithmetic(found: Iterable[T], kernel_of: Callable[[T], FuncOp]) -> list[list[T]]:
    """What belongs to kernels in groups between which no code is shared: what their elements go
    through differs. LLVM is at work on one group while the next is written."""
    groups: dict[tuple[str, ...], list[T]] = {}
    for each in found:
        function = kernel_of(each)
        inside = [op.name for op in function.walk() if op.parent is not function.body.block]
        computing = [name for name in inside if name.startswith(("arith.", "math."))]
        key = tuple(name for name in computing if name != "arith.constant")
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def plan_program(program: Program, cpu: CpuTarget, early: EarlyKernels | None = None) -> HostPlan:
    """Compile every kernel of `program` for `cpu`.

    Args:
        program: what is planned.
        cpu: the processor.
        early: those of its kernels that are compiled meanwhile.

    Raises:
        PassFailedException: a kernel has no code for the host.
        CompileError: LLVM refuses the code.
    """
    if early is None:
        with EarlyKernels(cpu) as none:
            return plan_program(program, cpu, none)
    kernels = _Kernels(program, cpu, early)
    return plan_coded(program, cpu, kernels.launch, kernels.coded())


@dataclass(frozen=True)
class Coded:
    """Kernels that are compiled."""

    placed: Mapping[HostCode, Placed]
    """Where the functions of each are."""
    codes: tuple[ObjectCode, ...]
    numbers: tuple[int, ...]
    """What those that share code read."""


def plan_coded(
    program: Program,
    cpu: CpuTarget,
    launches: Callable[[Launch], HostLaunch],
    coded: Coded,
    *,
    beside: bool = False,
) -> HostPlan:
    """Plan a program whose kernels are compiled.

    Args:
        program: what is planned.
        cpu: the processor.
        launches: what each call launches.
        coded: the code of all launches.
        beside: whether the program is planned without workspaces, which lie behind its arena.
    """
    planner = _Planner(program, cpu, launches, coded, beside=beside)
    steps = [(number, x) for number, call in enumerate(program.calls) for x in planner.steps(call)]
    return HostPlan(
        program.inputs,
        program.outputs,
        _aligned(program.arena_bytes) + planner.beside_bytes,
        tuple(np.ascontiguousarray(constant) for constant in program.constants),
        program.state_bytes,
        tuple(planner.kept_bytes),
        tuple(planner.packings),
        coded.codes,
        tuple(step for _, step in steps),
        program.stream,
        program.name,
        coded.numbers,
        tuple(number for number, _ in steps),
    )


class _Kernels:
    """Plans and compiles the kernels of one program."""

    def __init__(self, program: Program, cpu: CpuTarget, early: EarlyKernels) -> None:
        self._program = program
        self._cpu = cpu
        self._early = early
        self._launches: dict[tuple[FuncOp, tuple[tuple[int, int], ...], bool], HostLaunch] = {
            (function, (), False): launch for function, launch in early.launches.items()
        }

    def coded(self) -> Coded:
        """All of them, compiled."""
        codes = self._early.codes
        placed = self._place_codes(codes)
        return Coded(placed, codes.compiled(), tuple(codes.numbers))

    def _place_codes(self, codes: KernelCodes) -> dict[HostCode, Placed]:
        """Where the code of each launch is: equal codes are compiled once."""
        calls = [call for call in self._program.calls if isinstance(call, Launch)]
        # Contractions take LLVM longest: it is at work on them while the loops are planned.
        loops = [call for call in calls if self._config(call) == LOOPS]
        others = [call for call in calls if self._config(call) != LOOPS]
        placed = dict(self._early.placed)
        chains: dict[ChainCode, None] = {}
        parts = _Parts(codes, placed)
        for some in (others, *_by_arithmetic(loops, lambda call: call.kernel)):
            for launch in map(self.launch, some):
                if isinstance(launch.code, ChainCode):
                    chains[launch.code] = None
                else:
                    parts.take(launch)
            parts.place_computing()
        parts.place_preparing()
        if chains:  # those that differ in numbers share their functions
            entries = tuple(code.entry for code in chains)
            codes.add(joined_ir(chains), AS_EMITTED, entries)
        return placed | {code: Placed(CHAIN_CODE, {code.entry: code.entry}) for code in chains}

    def launch(self, call: Launch) -> HostLaunch:
        """What a call launches."""
        key = call.kernel, results_over_arguments(call), launch_overlaps_partly(call)
        if key not in self._launches:
            self._launches[key] = launch_of(call, self._cpu)
        return self._launches[key]

    def _config(self, call: Launch) -> str:
        return config_of(call.kernel, HOST) or LOOPS


def launch_of(call: Launch, cpu: CpuTarget) -> HostLaunch:
    """What a call launches, as its kernel's body says.

    Raises:
        PassFailedException: the kernel has no code for the host.
    """
    body = KernelBody(call.kernel, results_over_arguments(call), launch_overlaps_partly(call))
    launch = plan_kernel(body, config_of(call.kernel, HOST) or LOOPS, cpu)
    if isinstance(launch, Refusal):
        raise PassFailedException(f"@{call.kernel.sym_name.data}: {launch.reason}")
    if not isinstance(launch, HostLaunch):
        raise PassFailedException(f"@{call.kernel.sym_name.data}: a library's call is not a launch")
    return launch


class _Planner:
    """Collects the memory of one program."""

    def __init__(
        self,
        program: Program,
        cpu: CpuTarget,
        launches: Callable[[Launch], HostLaunch],
        coded: Coded,
        *,
        beside: bool,
    ) -> None:
        self._program = program
        self._cpu = cpu
        self._beside = beside
        self._launch = launches
        self._placed = coded.placed
        self._packed: dict[tuple[Buffer, Hashable], Place] = {}
        self.packings: list[KernelLaunch] = []
        self.kept_bytes = [len(coded.numbers) * NUMBER_BYTES] if coded.numbers else []
        self.beside_bytes = 0
        self._first = memory_positions(program)
        self._kept = self._first[Space.STATE] + len(program.state_bytes)

    def steps(self, call: Step | Launch) -> list[Step]:
        """What the host does for one call."""
        if not isinstance(call, Launch):
            return [call]
        launch = self._launch(call)
        code, preparing = self._codes_of(launch)
        weights = self._constant_weights(call, launch)
        layout = layout_workspace(launch, constant_weights=weights is not None)
        memory, start = self._workspace(call, layout.nbytes)
        places: dict[Name, Place] = {
            name: (memory, start + offset) for name, offset in layout.offsets.items()
        }
        prepare = launch.prepare if weights is None else ()
        if weights is not None:
            places["packed"] = self._packed_constant(preparing, launch, weights)
        copies: list[Step] = [
            Copy(self._buffer(call, source), self._buffer(call, out))
            for source, out in launch.copies
            if self._buffer(call, source) != self._buffer(call, out)
        ]
        return [
            *copies,
            *(self._step(call, preparing, stage, places) for stage in prepare),
            *(self._step(call, code, stage, places) for stage in launch.stages),
        ]

    def _codes_of(self, launch: HostLaunch) -> tuple[Placed, Placed]:
        """Where the functions of the stages are, and of what prepares for them."""
        whole = self._placed.get(launch.code)
        if whole is not None:
            return whole, whole
        computing, *preparing = (self._placed[part.code] for part in launch.parts)
        return computing, preparing[0] if preparing else computing

    def _step(
        self, call: Launch, code: Placed, stage: Stage, places: Mapping[Name, Place]
    ) -> KernelLaunch:
        arguments = tuple(
            self._place(self._buffer(call, name)) if isinstance(name, Argument) else places[name]
            for name in stage.buffers
        )
        alone = is_done_at_once(stage, self._cpu)
        return self._kernel_launch(code, stage, arguments, alone=alone)

    def _kernel_launch(
        self, code: Placed, stage: Stage, arguments: tuple[Place, ...], *, alone: bool = False
    ) -> KernelLaunch:
        if code.numbers is not None:
            arguments = (*arguments, (self._kept, code.numbers))
        return KernelLaunch(code.code, code.entries[stage.entry], stage.items, arguments, alone)

    def _buffer(self, call: Launch, argument: Argument) -> Buffer:
        buffers = call.inputs if argument.place == "input" else call.outputs
        return buffers[argument.index]

    def _place(self, buffer: Buffer) -> Place:
        return self._first[buffer.space] + buffer.index, buffer.offset

    def _constant_weights(self, call: Launch, launch: HostLaunch) -> Buffer | None:
        """The weights that a launch prepares, where they are a constant of the program."""
        for stage in launch.prepare:
            for name in stage.buffers:
                if isinstance(name, Argument):
                    weights = self._buffer(call, name)
                    return weights if weights.space is Space.CONSTANT else None
        return None

    def _workspace(self, call: Launch, nbytes: int) -> Place:
        """Memory for what a kernel needs beside its operands."""
        if call.workspace and call.workspace[0].nbytes >= nbytes:
            return self._place(call.workspace[0])
        if nbytes and not self._beside:
            given = sum(buffer.nbytes for buffer in call.workspace)
            _log.warning(
                "@%s takes %d bytes beside the plan: it needs them on %s, its launch has %d",
                call.kernel.sym_name.data, nbytes, self._cpu.name, given,
            )  # fmt: skip
        self.beside_bytes = max(self.beside_bytes, nbytes)
        return self._first[Space.ARENA], _aligned(self._program.arena_bytes)

    def _packed_constant(self, code: Placed, launch: HostLaunch, weights: Buffer) -> Place:
        """Weights that are packed once for all calls, and for all launches that read them so."""
        key = (weights, launch.prepares)
        if key not in self._packed:
            packed = self._packed[key] = (self._kept + len(self.kept_bytes), 0)
            self.kept_bytes.append(launch.workspace["packed"])
            self.packings += [
                self._kernel_launch(
                    code,
                    stage,
                    tuple(
                        packed if name == "packed" else self._place(weights)
                        for name in stage.buffers
                    ),
                )
                for stage in launch.prepare
            ]
        return self._packed[key]


def is_done_at_once(stage: Stage, cpu: CpuTarget) -> bool:
    """Whether a launch is done before another thread would have begun."""
    return stage.work < cpu.handover_work


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
