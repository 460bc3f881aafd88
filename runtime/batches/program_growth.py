"""A program for any batch, from what the passes made of it for three.

Buffers, copies, fills and calls of BLAS grow with the batch by what they mean: their sizes are
those of tensors. Temporaries keep their order in the arena. What kernels launch is asked of their
families, device by device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from convir.analysis.refusal import Refusal
from convir.runtime.batches.growth import Growth, growth_of
from convir.runtime.program import Call, Launch, Program, Space, buffers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.program import Array, Buffer, TensorSpec

MOST_TEMPORARIES = 64
"""Of a program: each two of them are compared for every batch."""

_Specs: TypeAlias = "tuple[TensorSpec, ...]"
_Ends: TypeAlias = "tuple[tuple[Buffer, ...], ...]"


@dataclass(frozen=True)
class ProgramGrowth:
    """A program for every batch."""

    first: Program
    """As it is for the first batch."""
    _specs: Growth[tuple[_Specs, _Specs]]
    _calls: tuple[Growth[Call] | Growth[_Ends], ...]
    """Calls; of launches the buffers."""
    _apart: tuple[tuple[int, int], ...]
    """Temporaries that share no memory, by their numbers, the one that lies first first."""

    def at(self, batch: int) -> Program | Refusal:
        """The program for a batch; its kernels' bodies are still those of the first batch."""
        inputs, outputs = self._specs.at(batch)
        calls = tuple(
            _call(known, growth.at(batch))
            for known, growth in zip(self.first.calls, self._calls, strict=True)
        )
        temporaries = _temporaries(calls)
        if any(_end(temporaries[a]) > temporaries[b].offset for a, b in self._apart):
            return Refusal("its temporaries do not grow evenly")
        end = max(map(_end, temporaries), default=0)
        return replace(
            self.first,
            inputs=inputs,
            outputs=outputs,
            calls=calls,
            arena_bytes=end,
        )


def program_growth(programs: Sequence[Program], batches: Sequence[int]) -> ProgramGrowth | Refusal:
    """What a program is for any batch, or why that cannot be said.

    Args:
        programs: of one function, for three batches.
        batches: each program's.
    """
    first = programs[0]
    kinds = [tuple(map(type, program.calls)) for program in programs]
    if any(kind != kinds[0] for kind in kinds):
        return Refusal("other calls compute it for other batches")
    if any(program.state_bytes != first.state_bytes for program in programs):
        return Refusal("what it keeps between calls depends on the batch")
    if not all(_same_constants(program, first) for program in programs):
        return Refusal("its constants depend on the batch")
    specs = growth_of([(program.inputs, program.outputs) for program in programs], batches)
    if isinstance(specs, Refusal):
        return specs
    calls: list[Growth[Call] | Growth[_Ends]] = []
    for alike in zip(*(program.calls for program in programs), strict=True):
        launches = [call for call in alike if isinstance(call, Launch)]
        growth = growth_of(list(map(_ends, launches)) if launches else list(alike), batches)
        if isinstance(growth, Refusal):
            return growth
        calls.append(growth)
    temporaries = _temporaries(
        [_call(call, growth.first) for call, growth in zip(first.calls, calls, strict=True)]
    )
    if len(temporaries) > MOST_TEMPORARIES:
        return Refusal(f"it has {len(temporaries)} temporaries")
    apart = [
        (a, b) if temporaries[a].offset < temporaries[b].offset else (b, a)
        for a, b in combinations(range(len(temporaries)), 2)
        if _are_apart(temporaries[a], temporaries[b])
    ]
    return ProgramGrowth(first, specs, tuple(calls), tuple(apart))


def _call(known: Call, grown: Call | _Ends) -> Call:
    if not isinstance(grown, tuple) or not isinstance(known, Launch):
        return cast("Call", grown)
    inputs, outputs, workspace = grown
    return replace(known, inputs=inputs, outputs=outputs, workspace=workspace)


def _ends(launch: Launch) -> _Ends:
    # A workspace is what a kernel asks for, which need not be linear: its planner finds room.
    kept = tuple(buffer for buffer in launch.workspace if buffer.space is not Space.ARENA)
    return launch.inputs, launch.outputs, kept


def _same_constants(one: Program, other: Program) -> bool:
    return len(one.constants) == len(other.constants) and all(
        a is b or (a.dtype == b.dtype and np.array_equal(_bits(a), _bits(b)))
        for a, b in zip(one.constants, other.constants, strict=True)
    )


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _temporaries(calls: Sequence[Call]) -> list[Buffer]:
    """The buffers in the arena, in an order that depends on the calls alone."""
    return [buffer for call in calls for buffer in buffers_of(call) if buffer.space is Space.ARENA]


def _end(buffer: Buffer) -> int:
    return buffer.offset + buffer.nbytes


def _are_apart(one: Buffer, other: Buffer) -> bool:
    return _end(one) <= other.offset or _end(other) <= one.offset
