"""A program that was planned and compiled for a GPU, as JSON and bytes.

Sources are bytes; their cubins lie in the cache of cubins, under keys that the JSON has. So do
programs share them, and a cubin that was removed is compiled again from its source.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, get_args

from convir.lowering.kernels.cuda.launch import Argument, CudaKernel, Place, Pointer
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
from convir.runtime.cuda.plan import Cubin, CudaPlan, PlannedLaunch
from convir.runtime.cuda.tensor_maps import ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.cache.entry_fields import Json
    from convir.runtime.cuda.plan import Step

_KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Argument)}
"""The classes of arguments."""
_ONE_OF: Final[dict[str, tuple[object, ...]]] = {
    "place": get_args(Place),
    "element": tuple(ELEMENTS),
    "swizzle": (0, 32, 64, 128),
    "promotion": (128, 256),
}
"""The values of fields that have few."""
_LEAST = -(1 << 63)


def written(plan: CudaPlan, starts: Sequence[int]) -> dict[str, Json]:
    """The header of a plan whose sources, then constants and packed weights, begin at `starts`."""
    sources = plan.sources
    numbers = {source: number for number, source in enumerate(sources)}
    arrays = written_constants((*plan.constants, *plan.packed), starts[len(sources) :])
    first = len(plan.constants)
    return {
        "function": plan.name,
        "inputs": [*map(written_spec, plan.inputs)],
        "outputs": [*map(written_spec, plan.outputs)],
        "arena": plan.arena_bytes,
        "workspace": plan.workspace_offset,
        "states": plan.state_bytes,
        "sources": [
            [plan.cubins[source].key, start, len(source.encode())]
            for source, start in zip(sources, starts, strict=False)
        ],
        "constants": arrays[:first],
        "packed": arrays[first:],
        "steps": [_written_step(step, numbers) for step in plan.steps],
        "stream": written_stream(plan.stream),
        "summary": plan.summary,
        "calls": plan.calls,
    }


def read(
    header: dict[str, Json], sources: tuple[bytes, int], arrays: tuple[bytes | memoryview, int]
) -> CudaPlan:
    """The plan of a header.

    Args:
        header: what `written` gave.
        sources: bytes that hold the sources, and where these begin.
        arrays: bytes that hold the arrays, and where these begin.

    Raises:
        FormatError, KeyError, TypeError, ValueError, IndexError: it is none.
    """
    constants, packed = (
        tuple([constant(row, *arrays) for row in as_list(header[name])])
        for name in ("constants", "packed")
    )
    memories = Memories(
        specs(header["inputs"], 0),
        specs(header["outputs"], 0),
        size(header["arena"]),
        constants,
        sizes(header["states"]),
        tuple(array.nbytes for array in packed),
    )
    codes = [_source(row, *sources) for row in as_list(header["sources"])]
    reader = _Steps(memories, [source for _, source in codes])
    return CudaPlan(
        text(header["function"]),
        memories.inputs,
        memories.outputs,
        memories.arena_bytes,
        size(header["workspace"]),
        constants,
        memories.state_bytes,
        packed,
        tuple(map(reader.planned, as_list(header["steps"]))),
        stream(header["stream"]),
        tuple(map(text, as_list(header["summary"]))),
        {source: Cubin(key) for key, source in codes},
        tuple(map(sizes, as_list(header["calls"]))),
    )


def _source(row: Json, content: bytes, begin: int) -> tuple[str, str]:
    """The key of a cubin, and its source."""
    key, start, length = as_list(row)
    return _key(text(key)), blob(content, begin + size(start), size(length)).decode()


def _key(key: str) -> str:
    """A key, if it is one: it becomes a part of a path."""
    if not key.isalnum() or not key.isascii():
        raise FormatError(f"{key!r} is not a key")
    return key


def _written_step(step: Step, numbers: dict[str, int]) -> Json:
    if not isinstance(step, PlannedLaunch):
        return written_step(step)
    kernels = [_written_kernel(kernel, numbers[kernel.source]) for kernel in step.kernels]
    places = [[_written_argument(pointer), place] for pointer, place in step.places.items()]
    return ["launch", kernels, places, step.call]


def _written_kernel(kernel: CudaKernel, source: int) -> Json:
    arguments = [*map(_written_argument, kernel.arguments)]
    shape = (kernel.grid, kernel.block, kernel.shared_bytes)
    flags = (kernel.is_cooperative, kernel.triggers_dependents, kernel.is_dependent)
    return [source, kernel.symbol, *shape, arguments, *flags, kernel.spill_bytes]


def _written_argument(argument: Argument) -> Json:
    values = (getattr(argument, field.name) for field in fields(argument))
    written = (_written_argument(each) if isinstance(each, Pointer) else each for each in values)
    return [type(argument).__name__, *written]


class _Steps(StepReader):
    """Reads the steps of a plan."""

    def __init__(self, memories: Memories, sources: Sequence[str]) -> None:
        super().__init__(memories)
        self._sources = sources

    def planned(self, row: Json) -> Step:
        kind, *values = as_list(row)
        if kind != "launch":
            return self.step(row)
        kernels, rows, call = values
        places = {_pointer(pointer): self.place(place) for pointer, place in map(as_list, rows)}
        launch = PlannedLaunch(
            tuple(map(self._kernel, as_list(kernels))), places, None if call is None else size(call)
        )
        for kernel in launch.kernels:
            for argument in kernel.arguments:
                pointer = argument if isinstance(argument, Pointer) else _buffer_of(argument)
                if pointer is not None and pointer not in places:
                    raise FormatError(f"{pointer} has no place")
        return launch

    def _kernel(self, row: Json) -> CudaKernel:
        source, symbol, grid, block, shared, arguments, *flags, spilled = as_list(row)
        is_cooperative, triggers_dependents, is_dependent = map(truth, flags)
        return CudaKernel(
            self._sources[size(source)],
            text(symbol),
            _shape(grid),
            _shape(block),
            size(shared),
            tuple(map(_argument, as_list(arguments))),
            is_cooperative,
            triggers_dependents,
            is_dependent,
            size(spilled),
        )


def _buffer_of(argument: Argument) -> Pointer | None:
    """Whose memory an argument is about; None if it is about none."""
    found = getattr(argument, "buffer", None)
    return found if isinstance(found, Pointer) else None


def _shape(row: Json) -> tuple[int, int, int]:
    x, y, z = sizes(row, 1)
    return x, y, z


def _pointer(row: Json) -> Pointer:
    found = _argument(row)
    if not isinstance(found, Pointer):
        raise FormatError(f"{row!r} is not a pointer")
    return found


def _argument(row: Json) -> Argument:
    name, *values = as_list(row)
    kind = _KINDS[text(name)]
    named = zip((field.name for field in fields(kind)), values, strict=True)
    return kind(**{field: _value(field, value) for field, value in named})


def _value(field: str, value: Json) -> Any:
    """What a field of an argument holds: a pointer, numbers, a number or a truth."""
    if field in _ONE_OF:
        if value not in _ONE_OF[field] or isinstance(value, bool):
            raise FormatError(f"{value!r} is not a {field}")
        return value
    if field == "buffer":
        return _pointer(value)
    if isinstance(value, list):
        return sizes(value, _LEAST)
    return value if isinstance(value, bool) else size(value, _LEAST)
