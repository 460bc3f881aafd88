"""An rt program as a graph: launches are nodes, buffers with their places are edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.dialects.rt import ops as rt
from convir.runtime.program import Buffer, Copy, Fill, Gemm, Launch, Space, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation, SSAValue

    from convir.runtime.program import Call, Program

CALLS = (rt.FillOp, rt.CopyOp, rt.GemmOp, rt.LaunchOp)


@dataclass
class Tensor:
    """What one call writes, or the program is given, and where it lies."""

    name: str
    space: str
    """`input`, `output`, `arena`, `constant`, `state` or `workspace`."""
    index: int
    offset: int
    """Bytes from the beginning of its memory."""
    bytes: int
    sizes: str
    """`1x8x8x64 float32`."""
    writer: int | None = None
    """The number of the call that writes it; None for what the program is given."""
    readers: list[int] = field(default_factory=list[int])

    @property
    def first(self) -> int:
        """The first call that names it."""
        return self.writer if self.writer is not None else min(self.readers, default=0)

    @property
    def last(self) -> int:
        """The last call that names it."""
        return max(self.readers, default=self.first)


@dataclass
class Ends:
    """What one call reads and writes, as numbers of tensors."""

    reads: list[int]
    writes: list[int]
    workspace: list[int]


@dataclass
class Graph:
    """The tensors of a program, and what each call does with them."""

    tensors: list[Tensor]
    calls: list[Ends]


def calls_in(function: FuncOp) -> list[Operation]:
    """The runtime calls of a program, as `Program.calls` has them."""
    return [op for op in function.body.block.ops if isinstance(op, CALLS)]


def graph_of(program: Program, ops: Sequence[Operation]) -> Graph:
    """Who writes what, and who reads it, by the places in memory alone.

    Args:
        program: the calls.
        ops: what each was read from, which has the names.
    """
    reader = _Reader(program)
    for number, (call, op) in enumerate(zip(program.calls, ops, strict=True)):
        reader.read(number, call, _names(op))
    return Graph(reader.tensors, reader.ends)


@dataclass
class _Reader:
    program: Program
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    ends: list[Ends] = field(default_factory=list[Ends])
    live: dict[tuple[Space, int], list[int]] = field(
        default_factory=dict[tuple[Space, int], list[int]]
    )
    """In each memory, the tensors that nothing has overwritten."""

    def read(self, number: int, call: Call, names: dict[str, list[str]]) -> None:
        sources, targets, workspace = ends_of(call)
        reads = [
            found
            for buffer, name in zip(sources, names["reads"], strict=True)
            for found in self._reading(number, buffer, name)
        ]
        writes = [
            self._written(number, buffer, name)
            for buffer, name in zip(targets, names["writes"], strict=True)
        ]
        room = [self._written(number, buffer, "workspace") for buffer in workspace]
        for tensor in room:
            self.tensors[tensor].space += " workspace"
        self.ends.append(Ends(list(dict.fromkeys(reads)), writes, room))

    def _reading(self, number: int, buffer: Buffer, name: str) -> list[int]:
        there = self.live.setdefault((buffer.space, buffer.index), [])
        found = self._sources(there, buffer)
        if not found:
            given = self._port(buffer, name)
            self.tensors.append(_tensor(buffer, given, None))
            found = [len(self.tensors) - 1]
            there += found
        for i in found:
            readers = self.tensors[i].readers
            if not readers or readers[-1] != number:
                readers.append(number)
        return found

    def _sources(self, there: Sequence[int], buffer: Buffer) -> list[int]:
        """The tensors that hold the bytes of a buffer: the last ones that were written there."""
        found: list[int] = []
        missing = [(buffer.offset, buffer.offset + buffer.nbytes)]
        for i in reversed(there):
            tensor = self.tensors[i]
            first, end = tensor.offset, tensor.offset + tensor.bytes
            if any(first < high and low < end for low, high in missing):
                found.append(i)
                around = (((low, min(high, first)), (max(low, end), high)) for low, high in missing)
                cut = [piece for pieces in around for piece in pieces]
                missing = [(low, high) for low, high in cut if low < high]
            if not missing:
                break
        return found[::-1]

    def _written(self, number: int, buffer: Buffer, name: str) -> int:
        there = self.live.setdefault((buffer.space, buffer.index), [])
        there[:] = [i for i in there if not _covers(buffer, self.tensors[i])]
        self.tensors.append(_tensor(buffer, self._port(buffer, name), number))
        there.append(len(self.tensors) - 1)
        return there[-1]

    def _port(self, buffer: Buffer, name: str) -> str:
        ports = {Space.INPUT: self.program.inputs, Space.OUTPUT: self.program.outputs}
        specs = ports.get(buffer.space, ())
        port = specs[buffer.index].name if specs else ""
        return port or name or f"{buffer.space.value}{buffer.index}"


def _tensor(buffer: Buffer, name: str, writer: int | None) -> Tensor:
    sizes = str(TensorSpec(buffer.shape, buffer.dtype))
    return Tensor(
        name, buffer.space.value, buffer.index, buffer.offset, buffer.nbytes, sizes, writer
    )


def _covers(buffer: Buffer, tensor: Tensor) -> bool:
    end = buffer.offset + buffer.nbytes
    return buffer.offset <= tensor.offset and tensor.offset + tensor.bytes <= end


def ends_of(call: Call) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...], tuple[Buffer, ...]]:
    """What a call reads and writes, and its workspace."""
    match call:
        case Fill():
            return (), (call.out,), ()
        case Copy():
            return (call.source,), (call.out,), ()
        case Gemm():
            sums = (call.c,) if call.accumulate else ()
            return (call.a, call.b, *sums), (call.c,), ()
        case Launch():
            return call.inputs, call.outputs, call.workspace


def _names(op: Operation) -> dict[str, list[str]]:
    """The names of what a call reads and writes, as `ends_of` has it."""
    match op:
        case rt.FillOp():
            values: tuple[Sequence[SSAValue], Sequence[SSAValue]] = (), (op.out,)
        case rt.CopyOp():
            values = (op.source,), (op.out,)
        case rt.GemmOp():
            sums = (op.c,) if "accumulate" in op.properties else ()
            values = (op.a, op.b, *sums), (op.c,)
        case rt.LaunchOp():
            values = tuple(op.inputs), tuple(op.outputs)
        case _:
            values = (), ()
    reads, writes = ([_hint(value) for value in each] for each in values)
    return {"reads": reads, "writes": writes}


def _hint(value: SSAValue) -> str:
    if isinstance(value.owner, rt.ViewOp) and value.name_hint is None:
        return _hint(value.owner.source)
    return "" if isinstance(value.owner, rt.ArenaOp) else value.name_hint or ""
