"""A traced call as Chrome's trace events, which Perfetto shows: ui.perfetto.dev, chrome://tracing.

Source: "Trace Event Format", of the Catapult project: complete events (`X`) with times in µs, and
metadata events (`M`) that name a process and its threads.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.lowering.implementations import GEMM
from convir.lowering.kernels.host.target import CpuTarget
from convir.report.kernels import kernel_of
from convir.report.programs import ends_of
from convir.report.roofs import floor_of, machine_of, name_of
from convir.report.texts import Texts
from convir.runtime.devices import find_device
from convir.runtime.program import Fill, Gemm, Launch, Space, TensorSpec
from convir.runtime.trace.slices import CALLER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.dialects.kernel import ops as kernel
    from convir.report.collect import Record
    from convir.report.kernels import Kernel
    from convir.report.roofs import Machine
    from convir.runtime.executable import Executable
    from convir.runtime.program import Buffer, Call
    from convir.runtime.trace.slices import Slice


_MULTIPLY_ADD = 2
_GIGA = 1e9
_NS_OF_US = 1e3


def trace_text(executable: Executable, slices: Sequence[Slice]) -> str:
    """The slices of a call as a file that trace viewers read, with what is known of each call.

    Args:
        executable: what was called.
        slices: as `traced_call` has them.
    """
    machine = machine_of(find_device(executable.device))
    describer = _Describer(executable, machine)
    tracks = {CALLER: 1}
    for each in slices:
        tracks.setdefault(each.track, len(tracks) + 1)
    pid = os.getpid()
    named = [("process_name", 0, f"convir: @{executable.function} on {executable.device}")]
    named += [("thread_name", number, track) for track, number in tracks.items()]
    events: list[Record] = [
        {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}}
        for name, tid, text in named
    ]
    start = min((each.begin for each in slices), default=0)
    for each in slices:
        name, args = describer.slice(each)
        events.append(
            {
                "name": name,
                "cat": each.category,
                "ph": "X",
                "ts": (each.begin - start) / _NS_OF_US,
                "dur": (each.end - each.begin) / _NS_OF_US,
                "pid": pid,
                "tid": tracks[each.track],
                "args": {**args, **each.args},
            }
        )
    told = {"machine": name_of(machine), "predictions": "are for that machine"}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": told})


@dataclass
class _Describer:
    """What is known of the steps of a program."""

    executable: Executable
    machine: Machine
    _calls: dict[int, tuple[str, Record]] = field(default_factory=dict[int, tuple[str, "Record"]])
    _kernels: dict[kernel.FuncOp, Kernel] = field(default_factory=dict["kernel.FuncOp", "Kernel"])

    def slice(self, found: Slice) -> tuple[str, Record]:
        """What a slice is called, and what is known of it."""
        if not found.calls:
            return found.name, {}
        (name, args), *more = map(self._call, found.calls)
        if more:
            return f"{name} and {len(more)} more", {"calls": [(name, args), *more]}
        return f"{name} [{found.name}]" if found.name else name, args

    def _call(self, number: int) -> tuple[str, Record]:
        if number not in self._calls:
            self._calls[number] = self._described(self.executable.program.calls[number])
        return self._calls[number]

    def _described(self, call: Call) -> tuple[str, Record]:
        reads, writes, _ = ends_of(call)
        moved: Record = {
            "reads": [*map(_type, reads)],
            "writes": [*map(_type, writes)],
            "bytes": sum(each.nbytes for each in (*reads, *writes)),
        }
        if isinstance(call, Launch):
            found = self._kernel(call)
            floor = floor_of(self.machine, found.element, found.flops, reads, writes)
            operation, flops, us = found.operation, found.flops, found.decision.us
            name = f"@{found.name} {operation}"
            rest = {"config": found.config, "origins": found.origins}
            rest |= {"warp_roles": found.warps} if found.warps else {}
        elif isinstance(call, Gemm):
            flops, us = _MULTIPLY_ADD * call.m * call.n * call.k * call.batch, None
            element = call.a.dtype.name.replace("float", "f")
            floor = floor_of(self.machine, element, flops, reads, writes)
            library = "BLAS" if isinstance(self.machine, CpuTarget) else "cuBLAS"
            batch = f" batch {call.batch}" if call.batch > 1 else ""
            operation = f"GEMM M {call.m} N {call.n} K {call.k}{batch}"
            name, rest = f"{library} {operation}", {"config": GEMM}
        else:
            name = "fill" if isinstance(call, Fill) else "copy"
            return name, {"operation": name, **moved}
        args = {
            "operation": operation,
            **rest,
            **moved,
            "gflop": flops / _GIGA,
            "predicted_us": us,
            "floor_us": floor.us,
            "bound": floor.bound,
        }
        return name, {key: value for key, value in args.items() if value not in (None, ())}

    def _kernel(self, call: Launch) -> Kernel:
        found = self._kernels.get(call.kernel)
        if found is None:
            constants = tuple(i for i, x in enumerate(call.inputs) if x.space is Space.CONSTANT)
            found = kernel_of(call.kernel, self.machine, constants, Texts())
            self._kernels[call.kernel] = found
        return found


def _type(buffer: Buffer) -> str:
    return str(TensorSpec(buffer.shape, buffer.dtype))
