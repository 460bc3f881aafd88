"""When each worker ran each kernel of a call on the host.

The launches of a call run as ever, but for a kernel around each kernel that writes down what its
worker did (`trace.ll`); two looks at the clock a piece are all that it adds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from convir.runtime.arrays.host_memory import address_of, addresses_of, aligned_bytes
from convir.runtime.host.device import POINTER_BYTES, Frame
from convir.runtime.host.jit import AS_EMITTED, compile_ir
from convir.runtime.host.plan import KernelLaunch
from convir.runtime.host.pool import LAUNCH_WORDS, shared_pool
from convir.runtime.trace.slices import ALLOCATION, CALLER, COPY, STEP, Slice, timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from convir.runtime.host.device import Chain, HostProgram, PythonStep
    from convir.runtime.host.jit import Library
    from convir.runtime.program import Array

_HEAD_WORDS = _SEEN_WORDS = 8
"""Of the arguments of a traced kernel before what workers did, and of what one did: cache lines."""


def traced_on_host(
    program: HostProgram, inputs: Sequence[Array], outputs: Sequence[Array]
) -> list[Slice]:
    """Run once on C-contiguous arrays of the program's shapes and dtypes.

    No output shares memory with an input or another output.

    Returns:
        A slice for the arena, and one for each step on each thread that took part in it.
    """
    slices: list[Slice] = []
    size = {"bytes": program.plan.arena_bytes}
    frame = timed(slices, "allocate arena", ALLOCATION, lambda: _TracedFrame(program), size)
    program.run_in(frame, addresses_of((*inputs, *outputs)))
    return [*slices, *frame.slices()]


class _TracedFrame(Frame):
    """A frame that knows afterwards when each step ran."""

    def __init__(self, program: HostProgram) -> None:
        super().__init__(program)
        self._plan = program.plan
        self._workers = shared_pool().workers
        self._steps: list[Slice | int] = []
        """Of each step that ran what it was: a slice, or the number of a launch."""
        launches = len(program.links)
        row = _HEAD_WORDS + _SEEN_WORDS * self._workers
        seen = aligned_bytes(POINTER_BYTES * row * launches, zeroed=True)
        self._seen = seen.view(np.int64).reshape(launches, row)
        traced, words = tracer().address("traced"), self.words
        for number in range(launches):
            launch = number * LAUNCH_WORDS
            self._seen[number, :2] = words[launch : launch + 2]
            words[launch : launch + 2] = traced, address_of(self._seen[number])

    def run(self, chain: Chain) -> None:
        """Run a chain of the program's."""
        super().run(chain)
        self._steps += range(chain.first, chain.first + chain.count)

    def run_step(self, step: PythonStep, memories: list[Array]) -> None:
        """Run a step in Python."""
        slices: list[Slice] = []
        timed(slices, "", STEP, lambda: step(memories))
        self._steps += slices

    def slices(self) -> Iterator[Slice]:
        """What ran, in the order of steps, and of workers."""
        for step, found in enumerate(self._steps):
            calls = (self._plan.calls[step],)
            if isinstance(found, Slice):
                yield replace(found, calls=calls)
                continue
            name, stage = self._stage(step)
            rows = self._seen[found, _HEAD_WORDS:].reshape(self._workers, _SEEN_WORDS).tolist()
            for worker, (begin, end, busy, items, pieces, *_) in enumerate(rows):
                if pieces:
                    args = {**stage, "items": items, "pieces": pieces, "busy_us": busy / 1e3}
                    track = f"convir-worker-{worker}" if worker else CALLER
                    yield Slice(name, STEP, track, begin, end, calls, args)

    def _stage(self, number: int) -> tuple[str, dict[str, str]]:
        """What a step does of its call, where the call has several steps."""
        calls, step = self._plan.calls, self._plan.steps[number]
        call = calls[number]
        count = calls.count(call)
        if count == 1:
            return "", {}
        name = step.entry if isinstance(step, KernelLaunch) else COPY
        return name, {"stage": f"{number - calls.index(call) + 1} of {count}"}


@cache
def tracer() -> Library:
    """The code around traced kernels, which takes some ms to load."""
    ir = resources.files("convir.runtime.trace").joinpath("trace.ll").read_text(encoding="utf-8")
    return compile_ir(ir, exports=("traced",), options=AS_EMITTED)
