"""From a program to a plan for one CPU: every kernel is compiled, every argument placed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import HOST, LOOPS, config_of
from convir.lowering.kernels.host.fused_chain.launch import ChainCode, joined_ir
from convir.lowering.kernels.host.launch import Argument, HostLaunch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import plan_kernel
from convir.lowering.kernels.host.workspace import ALIGNMENT, layout_workspace
from convir.runtime.host.jit import AS_EMITTED, CompileOptions, object_code
from convir.runtime.host.plan import CHAIN_CODE, HostPlan, KernelLaunch
from convir.runtime.program import (
    Copy,
    Launch,
    Space,
    launch_overlaps,
    memory_positions,
    reused_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.host.launch import Buffer as Name
    from convir.lowering.kernels.host.launch import HostCode, Stage
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.runtime.host.jit import ObjectCode
    from convir.runtime.host.plan import Place, Step
    from convir.runtime.program import Buffer, Program

_log = logging.getLogger(__name__)


def plan_program(program: Program, cpu: CpuTarget) -> HostPlan:
    """Compile every kernel of `program` for `cpu`.

    Raises:
        PassFailedException: a kernel has no code for the host.
        CompileError: LLVM refuses the code.
    """
    planner = _Planner(program, cpu)
    steps = [step for call in program.calls for step in planner.steps(call)]
    planner.compile_chains()
    return HostPlan(
        program.inputs,
        program.outputs,
        _aligned(program.arena_bytes) + planner.beside_bytes,
        tuple(np.ascontiguousarray(constant) for constant in program.constants),
        program.state_bytes,
        tuple(planner.kept_bytes),
        tuple(planner.packings),
        tuple(planner.codes),
        tuple(steps),
        program.stream,
        program.name,
    )


class _Planner:
    """Collects the code and the memory of one program."""

    def __init__(self, program: Program, cpu: CpuTarget) -> None:
        self._program = program
        self._cpu = cpu
        self._first = memory_positions(program)
        self._kept = self._first[Space.STATE] + len(program.state_bytes)
        self._launches: dict[tuple[kernel.FuncOp, tuple[int, ...], bool], HostLaunch] = {}
        self._codes: dict[HostCode, int] = {}
        self._chains: dict[ChainCode, None] = {}
        self._packed: dict[tuple[Buffer, Hashable], Place] = {}
        self.codes: list[ObjectCode] = []
        self.packings: list[KernelLaunch] = []
        self.kept_bytes: list[int] = []
        self.beside_bytes = 0

    def steps(self, call: Step | Launch) -> list[Step]:
        """What the host does for one call."""
        if not isinstance(call, Launch):
            return [call]
        launch = self._launch(call)
        code = self._code(launch)
        weights = self._constant_weights(call, launch)
        layout = layout_workspace(launch, constant_weights=weights is not None)
        memory, start = self._workspace(call, layout.nbytes)
        places: dict[Name, Place] = {
            name: (memory, start + offset) for name, offset in layout.offsets.items()
        }
        stages = (*launch.prepare, *launch.stages)
        if weights is not None:
            places["packed"] = self._packed_constant(code, launch, weights)
            stages = launch.stages
        copies: list[Step] = [
            Copy(self._buffer(call, source), self._buffer(call, out))
            for source, out in launch.copies
            if self._buffer(call, source) != self._buffer(call, out)
        ]
        return [*copies, *(self._step(call, code, stage, places) for stage in stages)]

    def compile_chains(self) -> None:
        """The code of all fused chains: those that differ in numbers share their functions."""
        if self._chains:
            entries = tuple(code.entry for code in self._chains)
            ir = joined_ir(self._chains)
            self.codes.append(object_code(ir, self._cpu, AS_EMITTED, entries))

    def _launch(self, call: Launch) -> HostLaunch:
        body = KernelBody(call.kernel, reused_arguments(call), launch_overlaps(call))
        key = body.function, body.reused, body.overlaps
        if key in self._launches:
            return self._launches[key]
        launch = plan_kernel(body, config_of(call.kernel, HOST) or LOOPS, self._cpu)
        if isinstance(launch, Refusal):
            raise PassFailedException(f"@{call.kernel.sym_name.data}: {launch.reason}")
        if not isinstance(launch, HostLaunch):
            raise PassFailedException(
                f"@{call.kernel.sym_name.data}: a library's call is not a launch"
            )
        self._launches[key] = launch
        return launch

    def _code(self, launch: HostLaunch) -> int:
        """The number of the code of a launch; equal ones are compiled once."""
        code = launch.code
        if isinstance(code, ChainCode):
            self._chains[code] = None
            return CHAIN_CODE
        if code not in self._codes:
            options = AS_EMITTED if code.is_final else CompileOptions()
            self.codes.append(object_code(code.ir, self._cpu, options, launch.entries))
            self._codes[code] = len(self.codes) - 1
        return self._codes[code]

    def _step(
        self, call: Launch, code: int, stage: Stage, places: Mapping[Name, Place]
    ) -> KernelLaunch:
        arguments = tuple(
            self._place(self._buffer(call, name)) if isinstance(name, Argument) else places[name]
            for name in stage.buffers
        )
        alone = is_done_at_once(stage, self._cpu)
        return KernelLaunch(code, stage.entry, stage.items, arguments, alone)

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
        if nbytes:
            given = sum(buffer.nbytes for buffer in call.workspace)
            _log.warning(
                "@%s takes %d bytes beside the plan: it needs them on %s, its launch has %d",
                call.kernel.sym_name.data, nbytes, self._cpu.name, given,
            )  # fmt: skip
        self.beside_bytes = max(self.beside_bytes, nbytes)
        return self._first[Space.ARENA], _aligned(self._program.arena_bytes)

    def _packed_constant(self, code: int, launch: HostLaunch, weights: Buffer) -> Place:
        """Weights that are packed once for all calls, and for all launches that read them so."""
        key = (weights, launch.prepares)
        if key not in self._packed:
            packed = self._packed[key] = (self._kept + len(self.kept_bytes), 0)
            self.kept_bytes.append(launch.workspace["packed"])
            self.packings += [
                KernelLaunch(
                    code,
                    stage.entry,
                    stage.items,
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
