"""A strided scatter into zeros, in one pass over the result, as LLVM IR.

    for line:    the runs along the innermost dimension with zero-filled outputs
      zeros before, then each run of the source and the zeros behind it; or zeros alone

A run is what source and result have in one piece. Results that no cache holds are written around
the caches: an ordinary store would read the line first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
    vector,
    zero,
)
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS

if TYPE_CHECKING:
    from convir.lowering.kernels.host.scatter.problem import Scatter
    from convir.lowering.kernels.host.target import CpuTarget

ENTRY = "scatter"
"""The kernel's name; its arguments are the addresses of the source and of the result."""

MAX_STRAIGHT = 16
"""Vectors that are written without a loop."""


@dataclass(frozen=True)
class _Movers:
    """The functions that write a run."""

    clear: Function
    copy: Function
    streams: bool
    """Around the caches."""


@dataclass(frozen=True)
class ScatterKernel:
    """Writes the kernel of one scatter for one CPU."""

    scatter: Scatter
    cpu: CpuTarget
    entry: str = ENTRY

    is_final = True

    @property
    def items(self) -> int:
        """How many items of work there are: one per line."""
        return self.scatter.lines

    @property
    def ir(self) -> str:
        """LLVM assembly that defines the entry."""
        module = Module()
        movers = self._movers(module, streams=False)
        streaming = self._movers(module, streams=True) if self.scatter.streams else None
        module.add(self._entry(movers, streaming))
        return module.text()

    @property
    def _vector_bytes(self) -> int:
        return self.cpu.vector_bits // 8

    def _movers(self, module: Module, *, streams: bool) -> _Movers:
        prefix = "stream_" if streams else ""
        return _Movers(
            module.add(self._mover(f"{prefix}clear", streams=streams, copies=False)),
            module.add(self._mover(f"{prefix}copy", streams=streams, copies=True)),
            streams,
        )

    def _entry(self, movers: _Movers, streaming: _Movers | None) -> Function:
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        source, result = (
            f.load(PTR, f.offset(f.argument("args"), POINTER_BYTES * i), POINTER_BYTES, name)
            for i, name in enumerate(("source", "result"))
        )
        if streaming is None:
            self._lines(f, movers, source, result)
            return f
        address = f.emit(I64, "address", f"ptrtoint {result} to i64")
        behind = f.emit(I64, "behind", f"and {address}, {LINE_BYTES - 1}")
        with f.when(f.compare("eq", behind, 0), "aligned"):
            self._lines(f, streaming, source, result)
            f.fence()
        with f.when(f.compare("ne", behind, 0), "apart"):
            self._lines(f, movers, source, result)
        return f

    def _lines(self, f: Function, movers: _Movers, source: Value, result: Value) -> None:
        """All lines of the items."""
        scatter = self.scatter
        line_of_source = scatter.source[scatter.inner] * scatter.run_bytes
        with f.loop("line", f.argument("begin"), f.argument("end")) as line:
            target = f.element(result, line.index, scatter.line_bytes, "target")
            number, inside = self._source_line(f, line.index)
            with f.when(inside, "inside"):
                at = f.element(source, number, line_of_source, "source.line")
                self._line(f, movers, at, target)
            with f.when(f.emit("i1", "outside", f"xor {inside}, true"), "outside"):
                self._clear(f, movers, target, scatter.line_bytes)

    def _source_line(self, f: Function, line: Value) -> tuple[Value, Value]:
        """Which line of the source lands in a line of the result, and whether one does."""
        scatter = self.scatter
        inside, number = Value("i1", "true"), Value(I64, "0")
        step = 1
        for dim in reversed(range(scatter.inner)):
            place = f.rem(line, scatter.result[dim], "place") if dim else line
            line = f.div(line, scatter.result[dim], "left") if dim else line
            shifted = f.sub(place, scatter.offsets[dim], "shifted")
            quotient = f.div(shifted, scatter.strides[dim], "quotient")
            tests = [f.compare("sge", shifted, 0), f.compare("slt", quotient, scatter.source[dim])]
            if scatter.strides[dim] != 1:
                tests.append(f.compare("eq", f.rem(shifted, scatter.strides[dim]), 0))
            for test in tests:
                inside = f.emit("i1", "inside", f"and {inside}, {test.text}")
            number = f.add(number, f.mul(quotient, step), "number")
            step *= scatter.source[dim]
        return number, inside

    def _line(self, f: Function, movers: _Movers, source: Value, target: Value) -> None:
        """A line that a line of the source lands in."""
        scatter, run = self.scatter, self.scatter.run_bytes
        dim = scatter.inner
        first, stride, count = scatter.offsets[dim], scatter.strides[dim], scatter.source[dim]
        self._clear(f, movers, target, first * run)
        target = f.offset(target, first * run, "first")
        if stride == 1:
            self._copy(f, movers, source, target, count * run)
        else:
            with f.loop("run", 0, count, runs=True) as index:
                at = f.element(target, index.index, stride * run)
                self._copy(f, movers, f.element(source, index.index, run), at, run)
                with f.when(f.compare("ne", index.index, count - 1), "gap"):
                    self._clear(f, movers, f.offset(at, run), (stride - 1) * run)
        end = (count - 1) * stride + 1
        rest = scatter.result[dim] - first - end
        self._clear(f, movers, f.offset(target, end * run, "tail"), rest * run)

    def _clear(self, f: Function, movers: _Movers, target: Value, size: int) -> None:
        if size > MAX_STRAIGHT * self._vector_bytes:
            f.call(movers.clear, target, target, size)
            return
        for at in self._vectors(size):
            self._write(f, at, target, target, streams=movers.streams, copies=False)

    def _copy(self, f: Function, movers: _Movers, source: Value, target: Value, size: int) -> None:
        if size > MAX_STRAIGHT * self._vector_bytes:
            f.call(movers.copy, source, target, size)
            return
        for at in self._vectors(size):
            self._write(f, at, source, target, streams=movers.streams, copies=True)

    def _vectors(self, size: int) -> list[Value]:
        """Where the vectors of a short run begin; the last one may cover some of the one before."""
        if not size:
            return []
        last = size - self._vector_bytes
        return [Value(I64, str(at)) for at in (*range(0, last, self._vector_bytes), last)]

    def _write(
        self, f: Function, at: Value, source: Value, target: Value, *, streams: bool, copies: bool
    ) -> None:
        """One vector, `at` bytes on."""
        type_ = vector("i8", self._vector_bytes)
        written = f.load(type_, f.offset(source, at), 1) if copies else zero(type_)
        if streams:
            f.stream(written, f.offset(target, at), self._vector_bytes)
        else:
            f.store(written, f.offset(target, at), 1)

    def _mover(self, name: str, *, streams: bool, copies: bool) -> Function:
        """The function that writes `size` bytes, at least a vector: zeros, or those of `source`."""
        f = Function(name, ((PTR, "source"), (PTR, "target"), (I64, "size")))
        source, target, size = (f.argument(n) for n in ("source", "target", "size"))
        # The last vector may cover some of the one before; what is streamed is whole vectors.
        last = f.sub(size, self._vector_bytes, "last")
        with f.loop("at", 0, last, self._vector_bytes) as at:
            self._write(f, at.index, source, target, streams=streams, copies=copies)
        self._write(f, last, source, target, streams=streams, copies=copies)
        return f
