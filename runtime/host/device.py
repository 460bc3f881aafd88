"""The host device: a plan's machine code and BLAS calls on NumPy buffers.

Neighbouring steps that are machine code form a chain, which is one native call.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np

from convir.lowering.kernels.host.target import CpuTarget, target
from convir.runtime.arrays.host_memory import address_of, addresses_of, aligned_bytes, bytes_at
from convir.runtime.host.gemm import run_gemm
from convir.runtime.host.jit import load
from convir.runtime.host.plan import HostPlan, KernelLaunch
from convir.runtime.host.pool import LAUNCH_WORDS, copy_kernel, shared_pool
from convir.runtime.prepared_call import RUN, CallSteps, PreparedCall
from convir.runtime.program import Copy, Fill, Gemm, Program, memory_positions, shared_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.runtime.host.jit import Library
    from convir.runtime.host.plan import Step
    from convir.runtime.prepared_call import RawCall
    from convir.runtime.program import Array, Buffer, TensorSpec

POINTER_BYTES = 8

_NO_CONTEXT = nullcontext()

_NATIVE = (Copy, KernelLaunch)
"""Steps that are machine code."""

_KEPT_FRAMES = 4
"""How many frames an executable keeps for its next calls; more calls at once allocate."""

MIN_SHARED_COPY = 1 << 18
"""Bytes below which a copy stays on one thread."""

PythonStep: TypeAlias = "Callable[[list[Array]], None]"
"""A step in Python: takes the bytes of all memories."""


@dataclass(frozen=True)
class Link:
    """A launch of a chain: where its code and its arguments lie."""

    kernel: int
    """The address of the code."""
    start: int
    """Bytes before its pointers in the table of a frame."""
    items: int
    workers: int | None
    """At most so many threads; all cores if None."""


@dataclass(frozen=True)
class Chain:
    """Launches that follow each other: some neighbouring links of a program."""

    first: int
    count: int
    together: bool
    """Whether some launch may use more than one thread."""


class Frame:
    """The memory of one call beside its inputs and outputs: an arena, the table of pointers that
    launches find their arguments in, and the launches."""

    def __init__(self, program: HostProgram) -> None:
        self.arena = aligned_bytes(program.plan.arena_bytes)
        self.memories = [self.arena, *program.kept]
        bases = [address_of(memory) for memory in self.memories]
        first = program.plan.arena
        self.table = (ctypes.c_int64 * max(1, len(program.pointers)))()
        for position, (memory, offset) in enumerate(program.pointers):
            if memory >= first:
                self.table[position] = bases[memory - first] + offset
        self.given: Sequence[int] = ()
        """The addresses that the table holds."""
        address, pool = ctypes.addressof(self.table), shared_pool()
        words = [
            word
            for link in program.links
            for word in pool.described(link.kernel, address + link.start, link.items, link.workers)
        ]
        self.words = (ctypes.c_int64 * max(1, len(words)))(*words)
        """The launches, `LAUNCH_WORDS` each."""
        self.launches = ctypes.addressof(self.words)
        """The address of all launches."""

    def run(self, chain: Chain) -> None:
        """Run a chain of the program's."""
        launches = self.launches + chain.first * LAUNCH_WORDS * POINTER_BYTES
        shared_pool().run(launches, chain.count, together=chain.together)

    def run_step(self, step: PythonStep, memories: list[Array]) -> None:
        """Run a step of the program's that is no machine code, on the bytes of all memories."""
        step(memories)


class HostProgram:
    """A program compiled for this machine; calls from several threads may overlap."""

    def __init__(
        self, program: Program, *, cpu: CpuTarget | None = None, threads: int | None = None
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
        from convir.runtime.host.planner import plan_program  # noqa: PLC0415  (brings xDSL along)

        cpu = target() if cpu is None else cpu
        self._load(plan_program(program, cpu), lambda: program, cpu, threads)

    @classmethod
    def of_plan(
        cls, plan: HostPlan, program: Callable[[], Program], threads: int | None = None
    ) -> HostProgram:
        """Load what was compiled for this machine's CPU before.

        Args:
            plan: the code, memory and steps.
            program: gives the program that the plan was made from, when somebody asks for it.
            threads: at most so many threads a launch; all cores if None.

        Raises:
            CompileError: the code needs symbols that this process lacks.
        """
        loaded = cls.__new__(cls)
        loaded._load(plan, program, target(), threads)
        return loaded

    def _load(
        self, plan: HostPlan, program: Callable[[], Program], cpu: CpuTarget, threads: int | None
    ) -> None:
        self.plan = plan
        self.arrays = np
        self.index = 0
        self.threads = threads
        self._program = program
        # Steps know their code by its address alone: it stays loaded as long as the program.
        self._libraries: list[Library] = [load(code, cpu) for code in plan.codes]
        self._state_lock = threading.Lock() if plan.state_bytes else None
        self._sizes = [spec.nbytes for spec in (*plan.inputs, *plan.outputs)]
        self._frames: deque[Frame] = deque(maxlen=_KEPT_FRAMES)
        self.pointers: list[tuple[int, int]] = []
        constants = [_bytes(constant) for constant in plan.constants]
        states = [aligned_bytes(size, zeroed=True) for size in plan.state_bytes]
        packed = [aligned_bytes(size) for size in plan.kept_bytes]
        if plan.numbers:
            packed[0].view(np.int64)[:] = plan.numbers
        self.kept: list[Array] = [*constants, *states, *packed]
        """The memories that calls share: constants, states, numbers, and packed weights."""
        self._pack()
        self._memory_numbers = memory_positions(plan)
        self.links: list[Link] = []
        self.parts = self._parts()
        self._reads_memories = not all(isinstance(part, Chain) for part in self.parts)
        self.given = [
            (position, memory, offset)
            for position, (memory, offset) in enumerate(self.pointers)
            if memory < plan.arena
        ]
        """The pointers that each call brings: their place in the table, memory and offset."""

    @property
    def program(self) -> Program:
        """The program with its kernels; lowered again on the first look if it came from a cache."""
        return self._program()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument."""
        return self.plan.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result."""
        return self.plan.outputs

    @property
    def function(self) -> str:
        """The name of what it computes."""
        return self.plan.function

    @property
    def device(self) -> str:
        """What users call where it runs."""
        return "host"

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run once on C-contiguous arrays of the program's shapes and dtypes.

        No output shares memory with an input or another output.
        """
        self.run_at(addresses_of((*inputs, *outputs)))

    def run_apart(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> set[int]:
        """Run once, as `run`, unless outputs share memory; which those are."""
        arrays = (*inputs, *outputs)
        addresses = addresses_of(arrays)
        shared = shared_outputs(addresses, self._sizes, len(inputs))
        if not shared:
            self.run_at(addresses)
        return shared

    def prepare(self) -> PreparedCall:
        """Calls by addresses alone; temporaries are memory of the program's."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Chain) and self._state_lock is None:
            chain = self.parts[0]
            return PreparedCall(self._chain_call(chain), 0, steps=lambda: self._numbers(chain))

        def run(addresses: Sequence[int], workspace: int = 0, stream: int = 0) -> None:
            del workspace, stream
            self.run_at(addresses)

        return PreparedCall(run, 0)

    def _chain_call(self, chain: Chain) -> RawCall:
        """Calls of a program that is one chain: the table, and one native call."""
        take, give, given = self._frames.pop, self._frames.append, self.given
        start = chain.first * LAUNCH_WORDS * POINTER_BYTES

        def run(addresses: Sequence[int], workspace: int = 0, stream: int = 0) -> None:
            del workspace, stream
            try:
                frame = take()
            except IndexError:
                frame = Frame(self)
            if addresses != frame.given:
                table = frame.table
                for position, memory, offset in given:
                    table[position] = addresses[memory] + offset
                frame.given = addresses
            shared_pool().run(frame.launches + start, chain.count, together=chain.together)
            give(frame)

        return run

    def _numbers(self, chain: Chain) -> CallSteps:
        """A program that is one chain, as numbers, for the pool as it is now."""
        pool = shared_pool()
        if chain.together:
            pool.start()
        words: list[int] = []
        links = self.links[chain.first : chain.first + chain.count]
        starts = [link.start // POINTER_BYTES for link in links]
        for link, start, end in zip(links, starts, [*starts[1:], len(self.pointers)], strict=True):
            kernel, _, *rest = pool.described(link.kernel, 0, link.items, link.workers)
            places = self.pointers[start:end]
            words += (kernel, *rest, len(places), *(number for place in places for number in place))
        memories = tuple((False, address_of(memory)) for memory in self.kept)
        steps = ((RUN, *pool.run_words(), len(links), *words),)
        return CallSteps(self.plan.arena_bytes, memories, steps)

    def run_at(self, addresses: Sequence[int]) -> None:
        """Run once, as `run`, on the memory at these addresses: of the inputs, then the outputs."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self)
        self.run_in(frame, addresses)
        self._frames.append(frame)

    def run_in(self, frame: Frame, addresses: Sequence[int]) -> None:
        """Run once, as `run_at`, in a frame that no other call runs in."""
        if addresses != frame.given:
            table = frame.table
            for position, memory, offset in self.given:
                table[position] = addresses[memory] + offset
            frame.given = addresses
        memories: list[Array] = []
        if self._reads_memories:
            memories = [*map(bytes_at, addresses, self._sizes), *frame.memories]
        if self._state_lock is None:
            self._run_parts(frame, memories)
        else:
            with self._state_lock:
                self._run_parts(frame, memories)

    def _run_parts(self, frame: Frame, memories: list[Array]) -> None:
        for part in self.parts:
            if isinstance(part, Chain):
                frame.run(part)
            else:
                frame.run_step(part, memories)

    def scope(self, stream: object = None) -> nullcontext[None]:
        """Nothing to set up.

        Raises:
            ValueError: a stream is named.
        """
        if stream is not None:
            raise ValueError("stream= is for programs on a GPU: this one runs on the host")
        return _NO_CONTEXT

    def capture(self, calls: int) -> NoReturn:
        """Refused: there are no graphs here.

        Raises:
            ValueError: always.
        """
        del calls
        raise ValueError("graph() is for programs on a GPU: this one runs on the host")

    def _memory_of(self, buffer: Buffer) -> int:
        return self._memory_numbers[buffer.space] + buffer.index

    def _parts(self) -> list[Chain | PythonStep]:
        """The steps, neighbouring launches as one chain."""
        parts: list[Chain | PythonStep] = []
        for is_native, steps in groupby(self.plan.steps, lambda x: isinstance(x, _NATIVE)):
            if not is_native:
                parts += [self._step(step) for step in steps]
                continue
            first = len(self.links)
            self.links += [self._link(step) for step in steps]
            added = self.links[first:]
            together = any(link.workers != 1 for link in added)
            parts.append(Chain(first, len(added), together))
        return parts

    def _step(self, step: Step) -> PythonStep:
        match step:
            case Fill():
                out = self._memory_of(step.out)
                return lambda memories: elements(memories[out], step.out).fill(step.value)
            case Gemm():
                a, b, c = (self._memory_of(x) for x in (step.a, step.b, step.c))
                return lambda memories: run_gemm(step, memories[a], memories[b], memories[c])
            case _:
                raise TypeError(f"{type(step).__name__} is not a step in Python")

    def _link(self, step: Step) -> Link:
        start = len(self.pointers) * POINTER_BYTES
        match step:
            case Copy():
                ends = (step.source, step.out)
                self.pointers += [(self._memory_of(end), end.offset) for end in ends]
                workers = 1 if step.out.nbytes < MIN_SHARED_COPY else self.threads
                return Link(copy_kernel(), start, step.out.nbytes, workers)
            case KernelLaunch():
                self.pointers += step.arguments
                kernel = self._libraries[step.code].address(step.entry)
                workers = 1 if step.alone else self.threads
                return Link(kernel, start, step.items, workers)
            case _:
                raise TypeError(f"{type(step).__name__} is not machine code")

    def _pack(self) -> None:
        """Write the memories that are kept, on all cores: the same contents for every call."""
        first = self.plan.arena + 1
        for packing in self.plan.packings:
            places = [
                address_of(self.kept[memory - first]) + offset
                for memory, offset in packing.arguments
            ]
            table = (ctypes.c_int64 * len(places))(*places)
            kernel = self._libraries[packing.code].address(packing.entry)
            shared_pool().launch(kernel, ctypes.addressof(table), packing.items, None)


def elements(memory: Array, buffer: Buffer) -> Array:
    """The elements of `buffer`, which lies in the bytes `memory`."""
    return np.ndarray(buffer.shape, buffer.dtype, memory.data, buffer.offset)


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
