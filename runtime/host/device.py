"""The host device: an rt program as machine code and BLAS calls on NumPy buffers."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.read_kernel import read_contraction
from convir.lowering.implementations import CONTRACTION, HOST, config_of
from convir.lowering.llvm.entry import entry_of, llvm_ir, llvm_module
from convir.lowering.llvm.target import Target, target
from convir.lowering.loops.nests import lower_kernel, range_size
from convir.runtime.host.contraction import compile_contraction
from convir.runtime.host.gemm import run_gemm
from convir.runtime.host.jit import Library, compile_ir
from convir.runtime.host.pool import shared_pool
from convir.runtime.program import (
    Buffer,
    Copy,
    Fill,
    Gemm,
    Launch,
    Program,
    launch_overlaps,
    memory_positions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects import kernel
    from convir.runtime.program import Array

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

_NO_CONTEXT = nullcontext()

_KEPT_ARENAS = 4
"""How many arenas an executable keeps for its next calls; more calls at once allocate."""


@dataclass(frozen=True)
class _Compiled:
    """One loop function: its code, and how many iterations its outermost loop has."""

    library: Library
    address: int
    range_size: int


@dataclass
class _Run:
    """The memory of one call."""

    memories: list[Array]
    """The bytes of the inputs, outputs, arena, constants and states, in that order."""
    arguments: int
    """The address of the table of buffer pointers of all launches."""
    bases: Array
    """The address of every memory."""
    scratch: int
    """The address of memory that any kernel may overwrite."""
    threads: int | None

    def address(self, memory: int, offset: int) -> int:
        """The address of a byte of a memory."""
        return int(self.bases[memory]) + offset


_Step: TypeAlias = "Callable[[_Run], None]"


class HostProgram:
    """An rt program compiled for this machine; calls from several threads may overlap."""

    def __init__(
        self, program: Program, *, cpu: Target | None = None, threads: int | None = None
    ) -> None:
        """Compile every kernel of `program`.

        Args:
            program: what to run.
            cpu: the processor to compile for; the host's if None.
            threads: at most so many threads a launch; all cores if None.

        Raises:
            PassFailedException: a kernel has no code for the host.
            CompileError: LLVM refuses the code.
        """
        self.program = program
        self.arrays = np
        self.index = 0
        self.threads = threads
        self._cpu = target() if cpu is None else cpu
        self._first = memory_positions(program)
        self._constants = [_bytes(np.ascontiguousarray(c)) for c in program.constants]
        self._states = [aligned_bytes(size, zeroed=True) for size in program.state_bytes]
        self._state_lock = threading.Lock()
        self._arenas: deque[Array] = deque(maxlen=_KEPT_ARENAS)
        self._table: list[tuple[int, int]] = []
        self._scratch_bytes = 0
        self._steps = [self._step(call) for call in program.calls]
        self._table_memory = np.array([m for m, _ in self._table], dtype=np.int64)
        self._table_offset = np.array([o for _, o in self._table], dtype=np.int64)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run once on C-contiguous arrays of the program's shapes and dtypes.

        No output shares memory with an input or another output.
        """
        arena = self._arena()
        memories = [_bytes(array) for array in (*inputs, *outputs)]
        memories += [arena, *self._constants, *self._states]
        bases = np.array([m.__array_interface__["data"][0] for m in memories], dtype=np.int64)
        table = bases[self._table_memory] + self._table_offset
        arguments = table.__array_interface__["data"][0]
        scratch = arena.__array_interface__["data"][0] + self._scratch_offset
        run = _Run(memories, arguments, bases, scratch, self.threads)
        if self._states:
            with self._state_lock:
                self._run_steps(run)
        else:
            self._run_steps(run)
        self._arenas.append(arena)

    def scope(self, stream: object = None) -> nullcontext[None]:
        """Nothing to set up.

        Raises:
            ValueError: a stream is named.
        """
        if stream is not None:
            raise ValueError("stream= is for programs on a GPU: this one runs on the host")
        return _NO_CONTEXT

    def capture(self) -> NoReturn:
        """Refused: there are no graphs here.

        Raises:
            ValueError: always.
        """
        raise ValueError("graph() is for programs on a GPU: this one runs on the host")

    @property
    def _scratch_offset(self) -> int:
        return _aligned(self.program.arena_bytes)

    def _arena(self) -> Array:
        try:
            return self._arenas.pop()
        except IndexError:
            return aligned_bytes(self._scratch_offset + self._scratch_bytes)

    def _run_steps(self, run: _Run) -> None:
        for step in self._steps:
            step(run)

    def _memory_of(self, buffer: Buffer) -> int:
        return self._first[buffer.space] + buffer.index

    def _step(self, call: Fill | Copy | Gemm | Launch) -> _Step:
        match call:
            case Fill():
                return self._fill(call)
            case Copy():
                return self._copy(call)
            case Gemm():
                a, b, c = (self._memory_of(x) for x in (call.a, call.b, call.c))
                return lambda run: run_gemm(call, run.memories[a], run.memories[b], run.memories[c])
            case Launch():
                return self._launch(call)

    def _fill(self, call: Fill) -> _Step:
        memory, out = self._memory_of(call.out), call.out
        return lambda run: elements(run.memories[memory], out).fill(call.value)

    def _copy(self, call: Copy) -> _Step:
        source, out = self._memory_of(call.source), self._memory_of(call.out)

        def copy(run: _Run) -> None:
            target_elements = elements(run.memories[out], call.out).reshape(-1)
            target_elements[...] = elements(run.memories[source], call.source).reshape(-1)

        return copy

    def _launch(self, call: Launch) -> _Step:
        if config_of(call.kernel, HOST) == CONTRACTION:
            return self._contraction(call)
        buffers = (*call.inputs, *call.outputs)
        start = len(self._table)
        self._table += [(self._memory_of(buffer), buffer.offset) for buffer in buffers]
        functions = compile_kernel(call.kernel, self._cpu, noalias=not launch_overlaps(call))
        pool = shared_pool()
        pointer_size = 8

        def launch(run: _Run) -> None:
            arguments = run.arguments + start * pointer_size
            for function in functions:
                pool.launch(function.address, arguments, function.range_size, run.threads)

        return launch

    def _contraction(self, call: Launch) -> _Step:
        """A register-tiled kernel: its weights are packed, then its rows are contracted."""
        reading = read_contraction(call.kernel)
        if isinstance(reading, Refusal):
            raise PassFailedException(f"@{call.kernel.sym_name.data}: {reading.reason}")
        compiled = compile_contraction(reading.spec, self._cpu)
        out = call.outputs[0]
        init = None if reading.init is None else call.inputs[reading.init]
        copy = None if init is None or init == out else self._copy(Copy(init, out))
        a, other = call.inputs[reading.a], call.inputs[reading.other]
        b, c = (other, out) if reading.spec.result == "C" else (out, other)
        offsets: dict[Any, int] = {}
        size = 0
        for name, nbytes in compiled.workspace.items():
            offsets[name] = size
            size += _aligned(nbytes)
        self._scratch_bytes = max(self._scratch_bytes, size)
        places = {
            name: (self._memory_of(x), x.offset) for name, x in zip("abc", (a, b, c), strict=True)
        }

        def contract(run: _Run) -> None:
            if copy is not None:
                copy(run)
            buffers: dict[Any, int] = {name: run.address(*place) for name, place in places.items()}
            buffers |= {name: run.scratch + offset for name, offset in offsets.items()}
            compiled.pack(buffers, run.threads)
            compiled.run(buffers, run.threads)

        return contract


def compile_kernel(body: kernel.FuncOp, cpu: Target, *, noalias: bool) -> list[_Compiled]:
    """The machine code of a kernel's loops, as functions to launch in order.

    Raises:
        PassFailedException: the body has no loops, or the loops no LLVM code.
        CompileError: LLVM refuses the code.
    """
    loops = lower_kernel(body)
    module = llvm_module(loops, noalias=noalias, f16_in_hardware=cpu.f16_in_hardware)
    names = [entry_of(function) for function in loops]
    library = compile_ir(llvm_ir(module, cpu.triple), exports=names, cpu=cpu)
    return [
        _Compiled(library, library.address(name), range_size(function))
        for name, function in zip(names, loops, strict=True)
    ]


def elements(memory: Array, buffer: Buffer) -> Array:
    """The elements of `buffer`, which lies in the bytes `memory`."""
    return np.ndarray(buffer.shape, buffer.dtype, memory.data, buffer.offset)


def aligned_bytes(size: int, *, zeroed: bool = False) -> Array:
    """`size` bytes that begin at a multiple of the alignment."""
    make = np.zeros if zeroed else np.empty
    raw = make(size + ALIGNMENT, dtype=np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[start : start + size]


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
