"""Everything that a report says, as data that JSON holds."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import DiagnosticException

from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.dialects.rt import ops as rt
from convir.lowering.implementations import GEMM, config_of
from convir.lowering.pipeline import lowering_passes
from convir.passes.manager.pass_manager import Timing, apply_passes
from convir.passes.manager.remarks import collect
from convir.report.codes import CodeReader
from convir.report.kernels import kernel_of
from convir.report.measure import measured_calls
from convir.report.programs import calls_in, ends_of, graph_of
from convir.report.recorder import Recorder, Step
from convir.report.roofs import bytes_of_us, floor_of, flops_of_us, machine_of, name_of
from convir.report.texts import Texts, origin_of
from convir.runtime.cache.object_cache import private_records
from convir.runtime.program import Gemm, Launch, Space
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation
    from xdsl.passes import ModulePass

    from convir.dialects.diagnostics import Diagnostic
    from convir.passes.manager.pass_manager import Instrument
    from convir.passes.manager.remarks import Remark
    from convir.report.kernels import Kernel
    from convir.report.roofs import Machine
    from convir.runtime.devices import Device
    from convir.runtime.program import Call

Record: TypeAlias = dict[str, Any]
"""What JSON holds."""

_MULTIPLY_ADD = 2


@dataclass
class Collector:
    """Records passes over one module, and then reads the program that they made of it."""

    name: str
    """What is compiled, as its reader calls it."""
    device: Device
    texts: Texts = field(default_factory=Texts)
    failure: str = ""
    """Why there is no program; empty where there is one."""
    measures: bool = False
    """Whether the program runs, to measure its calls; the device is one of this machine's."""
    _recorder: Recorder | None = None
    _kernels: dict[str, Kernel] = field(default_factory=dict[str, "Kernel"])
    _seconds: float = 0.0
    """What recording and reading took."""

    @property
    def machine(self) -> Machine:
        """What kernels are chosen for."""
        return machine_of(self.device)

    @contextmanager
    def _counted(self) -> Generator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds += time.perf_counter() - start

    def start(
        self, module: ModuleOp, remarks: Sequence[Remark], timing: Timing | None = None
    ) -> Recorder:
        """What watches the passes.

        Args:
            module: what they start from.
            remarks: what they append to.
            timing: where they leave what they took.
        """
        with self._counted():
            self._recorder = Recorder(self.texts)
            self._recorder.start(module)
        self._recorder.listen(remarks, timing or Timing())
        return self._recorder

    def run(
        self,
        module: ModuleOp,
        passes: Sequence[ModulePass],
        workspace_bytes: int | None = None,
        instruments: Sequence[Instrument] = (),
    ) -> None:
        """Run passes on `module`, and what lowers it to a program.

        Raises:
            DiagnosticError: a pass failed; what lowers it has the reason in `failure` instead.
        """
        timing = Timing()
        with collect() as remarks:
            recorder = self.start(module, remarks, timing)
            watching = (recorder, *instruments)
            # A compile verifies none of its own passes, either.
            apply_passes(
                new_context(),
                module,
                passes,
                instruments=watching,
                timing=timing,
                verify_each=bool(instruments),
            )
        self.lower(module, workspace_bytes, instruments)

    def lower(
        self,
        module: ModuleOp,
        workspace_bytes: int | None = None,
        instruments: Sequence[Instrument] = (),
        done: int = 0,
    ) -> None:
        """Lower `module` in place, unless that fails, which `failure` then says.

        Args:
            module: what the passes left.
            workspace_bytes: the most that temporaries may take.
            instruments: what else watches.
            done: so many passes of the lowering have run.

        Raises:
            RuntimeError: nothing was recorded before.
        """
        if self._recorder is None:
            raise RuntimeError("a report begins with `start`")
        device, timing = self.device, Timing()
        lowering = lowering_passes(device.kind, workspace_bytes, device.gpu, private_records())[
            done:
        ]
        watching = (self._recorder, *instruments)
        context = new_context()
        try:
            with collect() as remarks:
                self._recorder.listen(remarks, timing)
                apply_passes(
                    context,
                    module,
                    lowering,
                    instruments=watching,
                    timing=timing,
                    verify_each=False,
                )
        except DiagnosticException as error:
            self.failure = str(error)

    def check_each(self) -> Instrument:
        """What checks each pass on the NumPy reference, and tells this report."""
        from convir.reference.checking.check_each import CheckEach  # noqa: PLC0415  (NumPy)

        return CheckEach(self.checked)

    def checked(self, found: Diagnostic) -> None:
        """Record what a check said of the last pass."""
        if self._recorder is not None:
            self._recorder.checked(found)

    def data(self, module: ModuleOp) -> Record:
        """The report of a module that is lowered, or that could not be.

        Raises:
            PassFailedException, CompileError, GpuMemoryError: it cannot be measured.
        """
        with self._counted():
            programs = [] if self.failure else self._programs(module)
            recorder = self._recorder
            steps = [] if recorder is None else [_step(step) for step in recorder.steps]
            modules = [] if recorder is None else recorder.modules
            kernels = [asdict(each) for each in self._kernels.values()]
        texts = self.texts
        machine = self.machine
        return {
            "name": self.name,
            "device": self.device.kind,
            "machine": name_of(machine),
            "failure": self.failure,
            "steps": steps,
            "modules": modules,
            "kernels": kernels,
            "programs": programs,
            "roofs": self._roofs(),
            "seconds": self._seconds,
            "lines": texts.lines,
            "origins": texts.origins,
            "originOfLine": texts.origin_of_line,
        }

    def _roofs(self) -> Record:
        elements = dict.fromkeys(each.element for each in self._kernels.values() if each.flops)
        machine = self.machine
        return {
            element: {
                "gflops": flops_of_us(machine, element) / 1e3,
                "gbytes": bytes_of_us(machine) / 1e3,
            }
            for element in elements
        }

    def _programs(self, module: ModuleOp) -> list[Record]:
        functions = [op for op in module.ops if isinstance(op, FuncOp)]
        lowered = [op for op in functions if rt.PROGRAM_ATTR in op.attributes]
        reader = CodeReader(module, self.machine, self.texts)
        try:
            return [self._program(module, op, reader) for op in lowered]
        finally:
            reader.finish()

    def _program(self, module: ModuleOp, function: FuncOp, reader: CodeReader) -> Record:
        program = read_program(module, function.sym_name.data)
        ops = calls_in(function)
        graph = graph_of(program, ops)
        library = self._library_calls(function.sym_name.data)
        nodes: list[Record] = []
        untimed = [None] * len(program.calls)
        times = measured_calls(program, self.device) if self.measures else untimed
        for number, (call, op) in enumerate(zip(program.calls, ops, strict=True)):
            callee = call.kernel if isinstance(call, Launch) else None
            if isinstance(call, Gemm) and library:
                callee = library.pop(0)
            found = None if callee is None else self._kernel(callee, call, reader)
            nodes.append({"number": number, **self._node(call, op, found)})
            nodes[-1] |= {"measured": times[number], **asdict(graph.calls[number])}
        return {
            "name": program.name,
            "arenaBytes": program.arena_bytes,
            "constantBytes": sum(each.nbytes for each in program.constants),
            "inputs": [f"{each.name} {each}".strip() for each in program.inputs],
            "outputs": [f"{each.name} {each}".strip() for each in program.outputs],
            "nodes": nodes,
            "tensors": [
                {**asdict(each), "first": each.first, "last": each.last} for each in graph.tensors
            ],
        }

    def _library_calls(self, function: str) -> list[kernel.FuncOp]:
        """The kernels that a library computes, in the order of their calls."""
        outlined = None if self._recorder is None else self._recorder.outlined
        if outlined is None:
            return []
        kernels = {op.sym_name.data: op for op in outlined.ops if isinstance(op, kernel.FuncOp)}
        called = [
            kernels[op.callee.root_reference.data]
            for entry in outlined.ops
            if isinstance(entry, FuncOp) and entry.sym_name.data == function
            for op in entry.walk()
            if isinstance(op, kernel.CallOp)
        ]
        return [each for each in called if config_of(each, self.device.kind) == GEMM]

    def _kernel(self, callee: kernel.FuncOp, call: Call, reader: CodeReader) -> Kernel:
        name = callee.sym_name.data
        if name not in self._kernels:
            inputs = call.inputs if isinstance(call, Launch) else ()
            constants = tuple(i for i, x in enumerate(inputs) if x.space is Space.CONSTANT)
            found = kernel_of(callee, self.machine, constants, self.texts)
            if found.config != GEMM:
                found.codes = reader.read(callee)
            self._kernels[name] = found
        return self._kernels[name]

    def _node(self, call: Call, op: Operation, found: Kernel | None) -> Record:
        reads, writes, _ = ends_of(call)
        flops = _flops(call) if found is None else found.flops
        element = "f32" if found is None else found.element
        floor = floor_of(self.machine, element, flops, reads, writes)
        origin = origin_of(op.location)
        origins = found.origins if found is not None else ((origin,) if origin else ())
        return {
            "kind": type(call).__name__.lower(),
            "kernel": None if found is None else [*self._kernels].index(found.name),
            "origin": origin,
            "origins": origins,
            "us": None if found is None else found.decision.us,
            "flops": flops,
            "bytes": sum(each.nbytes for each in (*reads, *writes)),
            "floor": floor.us,
            "bound": floor.bound,
        }


def _flops(call: Call) -> int:
    if not isinstance(call, Gemm):
        return 0
    return _MULTIPLY_ADD * call.m * call.n * call.k * call.batch


def _step(step: Step) -> Record:
    record = {
        key: getattr(step, key)
        for key in ("name", "changed", "ms", "before", "after", "flops", "bytes", "ops")
    }
    return {
        **record,
        "remarks": [_remark(each) for each in step.remarks],
        "checks": [_check(each) for each in step.checks],
    }


def _remark(remark: Remark) -> Record:
    place = "" if remark.location == "-" else remark.location.rpartition("/")[2]
    return {
        "op": remark.op,
        "origin": remark.node or ("" if place.endswith(":0:0") else place),
        "fired": remark.fired,
        "verb": remark.verb,
        "reason": remark.reason,
        "function": remark.function,
    }


def _check(found: Diagnostic) -> Record:
    return {"severity": found.severity, "message": found.message}
