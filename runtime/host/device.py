"""The host device: an rt program as machine code and BLAS calls on NumPy buffers."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.read_kernel import read_contraction
from convir.lowering.implementations import CONTRACTION, HOST, config_of
from convir.lowering.llvm.contraction.workspace import ALIGNMENT, layout_workspace
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
    Space,
    launch_overlaps,
    memory_positions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects import kernel
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.llvm.contraction.plan import Buffer as Name
    from convir.runtime.host.contraction import HostKernel
    from convir.runtime.program import Array

_log = logging.getLogger(__name__)

POINTER_BYTES = 8

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
    """The bytes of the inputs, outputs, arena, constants, states and packed weights, in that
    order."""
    arguments: int
    """The address of the table of buffer pointers of all launches."""
    threads: int | None


_Step: TypeAlias = "Callable[[_Run], None]"
_Place: TypeAlias = tuple[int, int]
"""The number of a memory, and a byte of it."""


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
        self._memories = self._first[Space.STATE] + len(self._states)
        self._kept: list[Array] = []
        self._packed: dict[tuple[Buffer, Contraction], _Place] = {}
        self._kernels: dict[Contraction, HostKernel] = {}
        # Steps know their code by its address alone: it stays loaded as long as the program.
        self._libraries: list[Library] = []
        self._table: list[_Place] = []
        self._beside_bytes = 0
        self._steps = [self._step(call) for call in program.calls]
        self._table_memory = np.array([m for m, _ in self._table], dtype=np.int64)
        self._table_offset = np.array([o for _, o in self._table], dtype=np.int64)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run once on C-contiguous arrays of the program's shapes and dtypes.

        No output shares memory with an input or another output.
        """
        arena = self._arena()
        memories = [_bytes(array) for array in (*inputs, *outputs)]
        memories += [arena, *self._constants, *self._states, *self._kept]
        bases = np.array([m.__array_interface__["data"][0] for m in memories], dtype=np.int64)
        table = bases[self._table_memory] + self._table_offset
        arguments = table.__array_interface__["data"][0]
        run = _Run(memories, arguments, self.threads)
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

    def _arena(self) -> Array:
        try:
            return self._arenas.pop()
        except IndexError:
            return aligned_bytes(_aligned(self.program.arena_bytes) + self._beside_bytes)

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
        buffers = [self._place(buffer) for buffer in (*call.inputs, *call.outputs)]
        functions = compile_kernel(call.kernel, self._cpu, noalias=not launch_overlaps(call))
        self._libraries += [function.library for function in functions]
        return self._launches([(f.address, f.range_size, buffers) for f in functions])

    def _place(self, buffer: Buffer) -> _Place:
        return self._memory_of(buffer), buffer.offset

    def _launches(self, launches: Sequence[tuple[int, int, Sequence[_Place]]]) -> _Step:
        """Launches in order: each the address of its code, its items, and its arguments."""
        prepared: list[tuple[int, int, int]] = []
        for address, items, arguments in launches:
            prepared.append((address, items, len(self._table) * POINTER_BYTES))
            self._table += arguments
        launch = shared_pool().launch

        def run_launches(run: _Run) -> None:
            for address, items, start in prepared:
                launch(address, run.arguments + start, items, run.threads)

        return run_launches

    def _contraction(self, call: Launch) -> _Step:
        """A register-tiled kernel: its weights are packed, at once if they are constant, then its
        rows are contracted."""
        reading = read_contraction(call.kernel)
        if isinstance(reading, Refusal):
            raise PassFailedException(f"@{call.kernel.sym_name.data}: {reading.reason}")
        kernel = self._kernels.get(reading.spec)
        if kernel is None:
            kernel = self._kernels[reading.spec] = compile_contraction(reading.spec, self._cpu)
        out = call.outputs[0]
        a, other = call.inputs[reading.a], call.inputs[reading.other]
        b, c = (other, out) if reading.spec.result == "C" else (out, other)
        places: dict[Name, _Place] = {"a": self._place(a), "b": self._place(b), "c": self._place(c)}
        constants = [i for i, x in enumerate(call.inputs) if x.space is Space.CONSTANT]
        is_constant = reading.has_constant_weights(constants)
        layout = layout_workspace(kernel.plan, constant_weights=is_constant)
        memory, start = self._workspace(call, layout.nbytes)
        places |= {name: (memory, start + offset) for name, offset in layout.offsets.items()}
        stages = kernel.plan.stages
        if is_constant:
            places["packed"] = self._packed_constant(kernel, b)
        else:
            stages = (*kernel.plan.prepare, *stages)
        contract = self._launches(
            [(kernel.address(s), s.items, [places[name] for name in s.buffers]) for s in stages]
        )
        init = None if reading.init is None else call.inputs[reading.init]
        if init is None or init == out:
            return contract
        copy = self._copy(Copy(init, out))

        def copy_and_contract(run: _Run) -> None:
            copy(run)
            contract(run)

        return copy_and_contract

    def _workspace(self, call: Launch, nbytes: int) -> _Place:
        """Memory for what a kernel needs beside its operands."""
        if call.workspace and call.workspace[0].nbytes >= nbytes:
            return self._place(call.workspace[0])
        if nbytes:
            given = sum(buffer.nbytes for buffer in call.workspace)
            _log.warning(
                "@%s takes %d bytes beside the plan: it needs them on %s, its launch has %d",
                call.kernel.sym_name.data, nbytes, self._cpu.name, given,
            )  # fmt: skip
        self._beside_bytes = max(self._beside_bytes, nbytes)
        return self._first[Space.ARENA], _aligned(self.program.arena_bytes)

    def _packed_constant(self, kernel: HostKernel, weights: Buffer) -> _Place:
        """Weights that are packed once for all calls, and for all launches that read them so."""
        key = (weights, kernel.plan.spec)
        if key not in self._packed:
            packed = aligned_bytes(kernel.workspace["packed"])
            constant = self._constants[weights.index].__array_interface__["data"][0]
            addresses: dict[Name, int] = {
                "b": constant + weights.offset,
                "packed": packed.__array_interface__["data"][0],
            }
            kernel.pack(addresses, self.threads)
            self._packed[key] = (self._memories + len(self._kept), 0)
            self._kept.append(packed)
        return self._packed[key]


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
