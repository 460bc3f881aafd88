"""A program that was planned and compiled for a CPU, as JSON and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convir.runtime.cache.entry_fields import (
    FormatError,
    Memories,
    StepReader,
    as_list,
    blob,
    constant,
    size,
    sizes,
    specs,
    stream,
    text,
    truth,
    written_constants,
    written_spec,
    written_step,
    written_stream,
)
from convir.runtime.host.jit import ObjectCode
from convir.runtime.host.plan import CHAIN_CODE, HostPlan, KernelLaunch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.cache.entry_fields import Json
    from convir.runtime.host.plan import Step


def written(plan: HostPlan, starts: Sequence[int]) -> dict[str, Json]:
    """The header of a plan whose codes, and then constants, begin at `starts`."""
    return {
        "function": plan.function,
        "inputs": [*map(written_spec, plan.inputs)],
        "outputs": [*map(written_spec, plan.outputs)],
        "arena": plan.arena_bytes,
        "states": plan.state_bytes,
        "kept": plan.kept_bytes,
        "numbers": plan.numbers,
        "codes": [
            [code.key, code.exports, start, len(code.code)]
            for code, start in zip(plan.codes, starts, strict=False)
        ],
        "constants": written_constants(plan.constants, starts[len(plan.codes) :]),
        "packings": [*map(_written_step, plan.packings)],
        "steps": [*map(_written_step, plan.steps)],
        "calls": plan.calls,
        "stream": written_stream(plan.stream),
    }


def read(
    header: dict[str, Json], codes: tuple[bytes, int], arrays: tuple[bytes | memoryview, int]
) -> HostPlan:
    """The plan of a header.

    Args:
        header: what `written` gave.
        codes: bytes that hold the codes, and where these begin.
        arrays: bytes that hold the constants, and where these begin.

    Raises:
        FormatError, KeyError, TypeError, ValueError, IndexError: it is none.
    """
    memories = Memories(
        specs(header["inputs"], 0),
        specs(header["outputs"], 0),
        size(header["arena"]),
        tuple([constant(row, *arrays) for row in as_list(header["constants"])]),
        sizes(header["states"]),
        sizes(header["kept"]),
    )
    found = tuple([_code(row, *codes) for row in as_list(header["codes"])])
    reader = _Steps(memories, found)
    return HostPlan(
        *vars(memories).values(),
        packings=tuple(map(reader.launch, as_list(header["packings"]))),
        codes=found,
        steps=tuple(map(reader.planned, as_list(header["steps"]))),
        stream=stream(header["stream"]),
        function=text(header["function"]),
        numbers=_numbers(header["numbers"], memories.kept_bytes),
        calls=sizes(header["calls"]),
    )


def _written_step(step: Step) -> Json:
    if not isinstance(step, KernelLaunch):
        return written_step(step)
    return ["launch", step.code, step.entry, step.items, step.arguments, step.alone]


class _Steps(StepReader):
    """Reads the steps of a plan."""

    def __init__(self, memories: Memories, codes: Sequence[ObjectCode]) -> None:
        super().__init__(memories)
        self._codes = codes

    def planned(self, row: Json) -> Step:
        return self.launch(row) if as_list(row)[0] == "launch" else self.step(row)

    def launch(self, row: Json) -> KernelLaunch:
        _, number, entry, items, arguments, alone = as_list(row)
        code = self._codes[size(number, CHAIN_CODE)]
        if entry not in code.exports:
            raise FormatError(f"no code exports {entry!r}")
        places = tuple(map(self.place, as_list(arguments)))
        return KernelLaunch(number, entry, size(items), places, truth(alone))


def _numbers(row: Json, kept: Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(as_list(row))
    if any(type(number) is not int for number in numbers):
        raise FormatError(f"{row!r} is not a list of numbers")
    if numbers and kept[0] != np.array(numbers, np.int64).nbytes:
        raise FormatError("its numbers are not those of its memory")
    return numbers


def _code(row: Json, content: bytes, begin: int) -> ObjectCode:
    key, exports, start, length = as_list(row)
    code = blob(content, begin + size(start), size(length))
    return ObjectCode(text(key), tuple(map(text, as_list(exports))), code)
