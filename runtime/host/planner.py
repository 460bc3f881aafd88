"""From a program to a plan for one CPU: every kernel is compiled, every argument placed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.refusal import Refusal
from convir.lowering.implementations import CONTRACTION, HOST, SCATTER, config_of, is_planar
from convir.lowering.kernels.host.contraction_launch import plan_contraction
from convir.lowering.kernels.host.fused_chain.config import SumTile
from convir.lowering.kernels.host.fused_chain.kernel import planar_ir
from convir.lowering.kernels.host.read_contraction import read_host_contraction
from convir.lowering.kernels.host.scatter.kernel import ScatterKernel, read_scatter
from convir.lowering.kernels.host.workspace import ALIGNMENT, layout_workspace
from convir.lowering.planar.read import read_planar
from convir.runtime.host.jit import AS_EMITTED, object_code
from convir.runtime.host.plan import HostPlan, KernelLaunch
from convir.runtime.program import (
    Copy,
    Launch,
    Space,
    launch_overlaps,
    memory_positions,
    reused_arguments,
)

if TYPE_CHECKING:
    from xdsl.dialects import func

    from convir.dialects import kernel
    from convir.lowering.contraction.fused import FusedEpilogue
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.host.contraction_launch import Buffer as Name
    from convir.lowering.kernels.host.contraction_launch import ContractionPlan
    from convir.lowering.kernels.host.read_contraction import HostContraction
    from convir.lowering.kernels.host.target import Target
    from convir.lowering.planar.program import Binding, PlanarProgram
    from convir.runtime.host.jit import ObjectCode
    from convir.runtime.host.plan import Place, Step
    from convir.runtime.program import Buffer, Program

MIN_SHARED_WORK = 1 << 14
"""Scalar operations below which a launch stays on one thread: at a few a nanosecond it takes less
than the microseconds of a handover."""

PLANAR_CODE = -1
"""Which of a plan's codes is that of its planar launches: the last one."""

_log = logging.getLogger(__name__)


def plan_program(program: Program, cpu: Target) -> HostPlan:
    """Compile every kernel of `program` for `cpu`.

    Raises:
        PassFailedException: a kernel has no code for the host.
        CompileError: LLVM refuses the code.
    """
    planner = _Planner(program, cpu)
    steps = [step for call in program.calls for step in planner.steps(call)]
    planner.compile_planar()
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
    )


@dataclass(frozen=True)
class _LoopLaunch:
    """A launch of a loop function, wherever its arguments lie."""

    code: int
    entry: str
    items: int
    alone: bool


class _Planner:
    """Collects the code and the memory of one program."""

    def __init__(self, program: Program, cpu: Target) -> None:
        self._program = program
        self._cpu = cpu
        self._first = memory_positions(program)
        self._kept = self._first[Space.STATE] + len(program.state_bytes)
        self._readings: dict[kernel.FuncOp, HostContraction | Refusal] = {}
        self._contractions: dict[
            tuple[Contraction, FusedEpilogue | None], tuple[int, ContractionPlan]
        ] = {}
        self._loop_codes: dict[
            tuple[kernel.FuncOp, bool, tuple[int, ...]], tuple[_LoopLaunch, ...]
        ] = {}
        self._packed: dict[tuple[Buffer, Contraction], Place] = {}
        self._planar: dict[str, tuple[PlanarProgram, Binding]] = {}
        self._tiles: dict[str, SumTile] = {}
        self.codes: list[ObjectCode] = []
        self.packings: list[KernelLaunch] = []
        self.kept_bytes: list[int] = []
        self.beside_bytes = 0

    def steps(self, call: Step | Launch) -> list[Step]:
        """What the host does for one call."""
        if not isinstance(call, Launch):
            return [call]
        if is_planar(config_of(call.kernel, HOST)):
            return self._rows(call)
        if config_of(call.kernel, HOST) == CONTRACTION:
            return self._contraction(call)
        if config_of(call.kernel, HOST) == SCATTER and not launch_overlaps(call):
            return self._scatter(call)
        return self._loops(call)

    def _place(self, buffer: Buffer) -> Place:
        return self._first[buffer.space] + buffer.index, buffer.offset

    def _loops(self, call: Launch) -> list[Step]:
        """The loops of a kernel, as functions to launch in order."""
        places = tuple(self._place(buffer) for buffer in (*call.inputs, *call.outputs))
        key = call.kernel, launch_overlaps(call), reused_arguments(call)
        if key not in self._loop_codes:
            self._loop_codes[key] = self._compiled_loops(*key)
        return [
            KernelLaunch(loop.code, loop.entry, loop.items, places, loop.alone)
            for loop in self._loop_codes[key]
        ]

    def _compiled_loops(
        self, callee: kernel.FuncOp, overlaps: bool, reused: tuple[int, ...]
    ) -> tuple[_LoopLaunch, ...]:
        # Most programs are contractions, which need no LLVM dialect: that takes long to import.
        from convir.lowering.llvm.entry import entry_of, llvm_ir, llvm_module  # noqa: PLC0415
        from convir.lowering.loops.nests import lower_kernel, range_size  # noqa: PLC0415

        loops = lower_kernel(callee, reused=reused)
        sizes = [(range_size(function), _is_small(function)) for function in loops]
        module = llvm_module(loops, noalias=not overlaps, f16_in_hardware=self._cpu.f16_in_hardware)
        names = [entry_of(function) for function in loops]
        ir = llvm_ir(module, self._cpu.triple)
        self.codes.append(object_code(ir, self._cpu, exports=names))
        code = len(self.codes) - 1
        return tuple(
            _LoopLaunch(code, name, items, alone)
            for name, (items, alone) in zip(names, sizes, strict=True)
        )

    def _rows(self, call: Launch) -> list[Step]:
        """Stages on rows of frames; those of all launches are compiled together."""
        reading = read_planar(call.kernel)
        if isinstance(reading, Refusal):
            raise PassFailedException(f"@{call.kernel.sym_name.data}: {reading.reason}")
        entry = f"planar_{call.kernel.sym_name.data}"
        self._planar[entry] = reading.program, reading.binding
        config = config_of(call.kernel, HOST)
        assert config is not None
        try:
            self._tiles[entry] = SumTile.of(config, self._cpu)
        except ValueError as error:
            raise PassFailedException(f"@{call.kernel.sym_name.data}: {error}") from error
        copies: list[Step] = [
            Copy(call.inputs[insertion.argument], call.outputs[insertion.result])
            for insertion in reading.insertions
            if call.inputs[insertion.argument] != call.outputs[insertion.result]
        ]
        places = tuple(self._place(buffer) for buffer in (*call.inputs, *call.outputs))
        is_small = reading.program.multiply_adds * reading.binding.frames < MIN_SHARED_WORK
        launch = KernelLaunch(PLANAR_CODE, entry, reading.binding.items, places, is_small)
        return [*copies, launch]

    def compile_planar(self) -> None:
        """The code of all planar launches: those that differ in numbers share their functions."""
        if self._planar:
            ir = planar_ir(self._planar, self._cpu, self._tiles)
            self.codes.append(object_code(ir, self._cpu, AS_EMITTED, tuple(self._planar)))

    def _scatter(self, call: Launch) -> list[Step]:
        scatter = read_scatter(call.kernel)
        if isinstance(scatter, Refusal):
            raise PassFailedException(f"@{call.kernel.sym_name.data}: {scatter.reason}")
        kernel = ScatterKernel(scatter, self._cpu)
        self.codes.append(object_code(kernel.ir, self._cpu, AS_EMITTED, (kernel.entry,)))
        places = (self._place(call.inputs[scatter.argument]), self._place(call.outputs[0]))
        return [KernelLaunch(len(self.codes) - 1, kernel.entry, kernel.items, places)]

    def _contraction(self, call: Launch) -> list[Step]:
        """A register-tiled kernel: its weights are packed, at once if they are constant, then its
        rows are contracted."""
        if call.kernel not in self._readings:
            self._readings[call.kernel] = read_host_contraction(call.kernel)
        reading = self._readings[call.kernel]
        if isinstance(reading, Refusal):
            raise PassFailedException(f"@{call.kernel.sym_name.data}: {reading.reason}")
        code, plan = self._planned(reading.spec, reading.epilogue)
        out = call.outputs[0]
        places = {name: self._place(call.inputs[i]) for name, i in reading.inputs.items()}
        places["c" if reading.spec.result == "C" else "b"] = self._place(out)
        constants = [i for i, x in enumerate(call.inputs) if x.space is Space.CONSTANT]
        is_constant = reading.has_constant_weights(constants)
        layout = layout_workspace(plan, constant_weights=is_constant)
        memory, start = self._workspace(call, layout.nbytes)
        places |= {name: (memory, start + offset) for name, offset in layout.offsets.items()}
        stages = plan.stages
        if is_constant and plan.prepare:
            places["packed"] = self._packed_constant(code, plan, call.inputs[reading.other])
        else:
            stages = (*plan.prepare, *stages)
        steps: list[Step] = [
            KernelLaunch(code, s.entry, s.items, tuple(places[name] for name in s.buffers))
            for s in stages
        ]
        init = None if reading.init is None else call.inputs[reading.init]
        return steps if init is None or init == out else [Copy(init, out), *steps]

    def _planned(
        self, spec: Contraction, epilogue: FusedEpilogue | None
    ) -> tuple[int, ContractionPlan]:
        """The number of the code of a contraction, and its plan; equal ones share both."""
        key = spec, epilogue
        if key not in self._contractions:
            plan = plan_contraction(spec, self._cpu, epilogue)
            self.codes.append(object_code(plan.ir, self._cpu, AS_EMITTED, plan.entries))
            self._contractions[key] = (len(self.codes) - 1, plan)
        return self._contractions[key]

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

    def _packed_constant(self, code: int, plan: ContractionPlan, weights: Buffer) -> Place:
        """Weights that are packed once for all calls, and for all launches that read them so."""
        key = (weights, plan.spec)
        if key not in self._packed:
            self._packed[key] = (self._kept + len(self.kept_bytes), 0)
            places: dict[Name, Place] = {"b": self._place(weights), "packed": self._packed[key]}
            self.kept_bytes.append(plan.workspace["packed"])
            self.packings += [
                KernelLaunch(code, s.entry, s.items, tuple(places[name] for name in s.buffers))
                for s in plan.prepare
            ]
        return self._packed[key]


def _is_small(loops: func.FuncOp) -> bool:
    """Whether a loop function is done before another thread would have begun."""
    from convir.lowering.loops.nests import scalar_work  # noqa: PLC0415  (as above)

    return scalar_work(loops) < MIN_SHARED_WORK


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
