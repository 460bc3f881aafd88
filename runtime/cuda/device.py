"""The cuda device: an rt program as generated kernels and cuBLAS calls on CuPy buffers."""

from __future__ import annotations

import logging
import threading
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from convir.lowering.kernels.cuda.launch import POINTER_ALIGNMENT
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.code import LoadedCode
from convir.runtime.cuda.gemm import CublasGemm
from convir.runtime.cuda.graph import CudaGraph
from convir.runtime.cuda.launch import LoadedKernel
from convir.runtime.cuda.plan import PlannedLaunch
from convir.runtime.cuda.streams import OnDevice, stream_of
from convir.runtime.prepared_call import COPY, ZERO, CallSteps, PreparedCall
from convir.runtime.program import (
    Buffer,
    Copy,
    Fill,
    Gemm,
    Launch,
    Program,
    Space,
    memory_positions,
    shared_outputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.lowering.kernels.cuda.launch import Pointer
    from convir.runtime.cuda.plan import CudaPlan, Place, Step
    from convir.runtime.program import Array, TensorSpec

_log = logging.getLogger(__name__)

ALIGNMENT = 256
"""Bytes: where the memory of a call is divided, as CUDA's own allocations are aligned."""

_NO_CONTEXT = "CUDA_ERROR_INVALID_CONTEXT"
"""What the driver says in a thread whose GPU is none yet."""

RawStep: TypeAlias = "Callable[[Sequence[int], int], None]"
"""Enqueues something: takes where each memory begins, and the stream."""


class CudaProgram:
    """An rt program compiled for one GPU.

    A call only enqueues work, on the current stream of its scope. Its temporaries come from
    CuPy's pool in the order of that stream, so calls from several threads and on several streams
    may overlap. What persists (`rt.state`) exists once per stream: it starts as zeros and is
    dropped when a call fails.
    """

    def __init__(self, program: Program, index: int = 0) -> None:
        """Compile every kernel of `program` for GPU number `index`.

        Raises:
            PassFailedException: a kernel has no code for the GPU.
            CompileError: NVRTC refuses the code.
            NoGpuError: a part of the CUDA toolkit is missing.
            GpuMemoryError: the constants do not fit on the GPU.
        """
        from convir.runtime.cuda.planner import plan_program  # noqa: PLC0415  (brings xDSL along)

        self._load(plan_program(program, toolkit.gpu(index)), lambda: program, index)

    @classmethod
    def of_plan(cls, plan: CudaPlan, program: Callable[[], Program], index: int) -> CudaProgram:
        """Load what was planned for this kind of GPU before.

        Args:
            plan: the kernels, memory and steps.
            program: gives the program that the plan was made from, when somebody asks for it.
            index: which GPU.

        Raises:
            CompileError: NVRTC refuses the code, or the driver does.
            NoGpuError: a part of the CUDA toolkit is missing.
            GpuMemoryError: the constants do not fit on the GPU.
        """
        loaded = cls.__new__(cls)
        loaded._load(plan, program, index)
        return loaded

    def rebound(self, plan: CudaPlan, program: Callable[[], Program]) -> CudaProgram:
        """The same function for other sizes, on the code and the constants of this one.

        Args:
            plan: has no source and no constant that this program's has not.
            program: gives a program for these sizes, when somebody asks for it, which need not be
                what the plan was made from.
        """
        loaded = type(self).__new__(type(self))
        loaded._load(plan, program, self.index, self)
        return loaded

    def _load(
        self,
        plan: CudaPlan,
        program: Callable[[], Program],
        index: int,
        like: CudaProgram | None = None,
    ) -> None:
        cupy = toolkit.cupy()
        self.plan = plan
        self.arrays: Any = cupy
        self.index = index
        self._program = program
        self._device: Any = cupy.cuda.Device(index)
        self._first = memory_positions(plan)
        self._states: dict[int, list[Any]] = {}
        self._state_lock = threading.Lock()
        with self.scope():
            if like is None:
                self._constants: list[Any] = [cupy.asarray(each) for each in plan.constants]
                self._packed: list[Any] = [cupy.asarray(weights) for weights in plan.packed]
                self._code = LoadedCode(plan, toolkit.architecture())
                if self._constants or self._packed:  # Calls come on any stream.
                    cupy.cuda.get_current_stream().synchronize()
            else:
                self._constants, self._packed = like._constants, like._packed
                self._code = like._code
            self._numbers: list[Callable[[], tuple[int, ...] | None]] = []
            each = [self._step(step) for step in plan.steps]
            self._steps = [checked for checked, _ in each]
            self._aligned_steps = [step for _, aligned in each for step in aligned]
        self._is_rebound = like is not None
        self._constant_pointers = tuple(map(_pointer, self._constants))
        self._packed_pointers = tuple(map(_pointer, self._packed))

    @property
    def program(self) -> Program:
        """The program with its kernels; lowered again on the first look if only its plan came."""
        return self._program()

    @cached_property
    def _lowered(self) -> CudaProgram:
        """`program`, planned for itself."""
        return CudaProgram(self.program, self.index)

    @property
    def function(self) -> str:
        """The name of what it computes."""
        return self.plan.name

    @property
    def device(self) -> str:
        """What users call where it runs."""
        return f"cuda:{self.index}"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument."""
        return self.plan.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result."""
        return self.plan.outputs

    def scope(self, stream: Any = None) -> OnDevice:
        """A context in which this GPU is current, and `stream` if it is not None.

        Raises:
            TypeError: `stream` is not a stream.
            ValueError: it belongs to another GPU.
        """
        return OnDevice(self._device, None if stream is None else stream_of(stream, self.index))

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Enqueue the program once, on dense CuPy arrays of its shapes and dtypes."""
        addresses = tuple(map(_pointer, (*inputs, *outputs)))
        if self._is_rebound and any(address % POINTER_ALIGNMENT for address in addresses):
            # Which loops take such arrays, only a program that was lowered for these sizes says.
            self._lowered.run(inputs, outputs)
            return
        arena = self.arrays.cuda.alloc(max(1, self.plan.arena_bytes))
        stream = self._current_stream()
        if not self.plan.state_bytes:
            self._enqueue(addresses, arena.ptr, (), stream)
            return
        with self._state_lock:
            states = self._states.pop(stream, None) or self.new_states()
            self._enqueue(addresses, arena.ptr, tuple(map(_pointer, states)), stream)
            self._states[stream] = states

    def prepare(self) -> PreparedCall:
        """Calls by addresses alone, on memory and a stream of the caller's.

        What a kernel finds as zeros is part of the workspace, and filled by each call.
        """
        starts: list[int] = []
        end = -(-self.plan.arena_bytes // ALIGNMENT) * ALIGNMENT
        begin = end
        for size in self.plan.state_bytes:
            starts.append(end)
            end += -(-size // ALIGNMENT) * ALIGNMENT
        zero = self.arrays.cuda.runtime.memsetAsync
        steps, constants = self._aligned_steps, self._constant_pointers
        packed = self._packed_pointers

        def run(addresses: Sequence[int], workspace: int = 0, stream: int = 0) -> None:
            states = ()
            if starts:
                zero(workspace + begin, 0, end - begin, stream)
                states = tuple([workspace + start for start in starts])
            memories = (*addresses, workspace, *constants, *states, *packed)
            try:
                for step in steps:
                    step(memories, stream)
            except RuntimeError as error:
                if _NO_CONTEXT not in str(error):
                    raise
                # A thread that has not used the GPU yet has no context: no kernel ran.
                self._device.use()
                for step in steps:
                    step(memories, stream)

        fixed = (*constants, *(starts), *packed)

        def numbers() -> CallSteps | None:
            """`run` as numbers, once it has run."""
            steps = [make() for make in self._numbers]
            if starts:
                place = self._first[Space.ARENA], begin
                steps.insert(0, (ZERO, *place, end - begin))
            if None in steps:
                return None
            states = range(len(constants), len(constants) + len(starts))
            memories = tuple((i in states, at) for i, at in enumerate(fixed))
            known = tuple(step for step in steps if step is not None)
            return CallSteps(end, memories, known)

        return PreparedCall(run, end, POINTER_ALIGNMENT, numbers)

    def run_apart(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> set[int]:
        """Enqueue the program once, as `run`, unless outputs share memory; which those are."""
        arrays = (*inputs, *outputs)
        sizes = [array.nbytes for array in arrays]
        shared = shared_outputs([*map(_pointer, arrays)], sizes, len(inputs))
        if not shared:
            self.run(inputs, outputs)
        return shared

    def capture(self, calls: int) -> CudaGraph:
        """The program, so many times in a row, as a CUDA graph with memory of its own."""
        return CudaGraph(self, calls)

    def watched(self, watch: Callable[[int, RawStep], RawStep]) -> CudaProgram:
        """The same program, which runs what `watch` makes of each step and its number."""
        found = copy(self)
        found._steps = [watch(number, step) for number, step in enumerate(self._steps)]
        return found

    def new_arena(self) -> Any:
        """Memory for the temporaries of one call at a time."""
        return self.arrays.empty(max(1, self.plan.arena_bytes), "u1")

    def new_states(self) -> list[Any]:
        """A set of the persistent buffers, all zeros."""
        return [self.arrays.zeros(size, "u1") for size in self.plan.state_bytes]

    def run_in(
        self, inputs: Sequence[Array], outputs: Sequence[Array], arena: Any, states: Sequence[Any]
    ) -> None:
        """Enqueue the program once on memory from `new_arena` and `new_states`."""
        addresses = tuple(map(_pointer, (*inputs, *outputs)))
        kept = tuple(map(_pointer, states))
        self._enqueue(addresses, _pointer(arena), kept, self._current_stream())

    def _current_stream(self) -> int:
        return self.arrays.cuda.get_current_stream().ptr

    def _enqueue(
        self, addresses: Sequence[int], arena: int, states: tuple[int, ...], stream: int
    ) -> None:
        """Enqueue every step; `addresses` are those of inputs and outputs."""
        kept = self._constant_pointers
        memories = (*addresses, arena, *kept, *states, *self._packed_pointers)
        for step in self._steps:
            step(memories, stream)

    def _place(self, buffer: Buffer) -> Place:
        return self._first[buffer.space] + buffer.index, buffer.offset

    def _step(self, call: Step) -> tuple[RawStep, list[RawStep]]:
        """What enqueues a call, and what does so where all arrays are aligned."""
        match call:
            case Fill():
                step = self._fill(call)
            case Copy():
                step = self._copy(call)
            case Gemm():
                step = self._gemm(call)
            case PlannedLaunch():
                return self._launch(call)
        return step, [step]

    def _gemm(self, call: Gemm) -> RawStep:
        gemm = CublasGemm(call)
        self._numbers.append(lambda: None)
        (a, x), (b, y), (c, z) = (self._place(each) for each in (call.a, call.b, call.c))
        arena, workspace = self._first[Space.ARENA], self.plan.workspace_offset
        return lambda m, stream: gemm(m[a] + x, m[b] + y, m[c] + z, m[arena] + workspace, stream)

    def _copy(self, call: Copy) -> RawStep:
        (source, begin), (out, start) = self._place(call.source), self._place(call.out)
        copy, size = self.arrays.cuda.runtime.memcpyAsync, call.out.nbytes
        self._numbers.append(lambda: (COPY, out, start, source, begin, size))
        kind = self.arrays.cuda.runtime.memcpyDeviceToDevice

        def run(memories: Sequence[int], stream: int) -> None:
            to, where = memories[out] + start, memories[source] + begin
            if to != where:
                copy(to, where, size, kind, stream)

        return run

    def _fill(self, call: Fill) -> RawStep:
        (memory, offset), out = self._place(call.out), call.out
        cuda, ndarray = self.arrays.cuda, self.arrays.ndarray
        clear = cuda.runtime.memsetAsync
        if not np.full(1, call.value, out.dtype).view(np.uint8).any():
            self._numbers.append(lambda: (ZERO, memory, offset, out.nbytes))
            return lambda memories, stream: clear(memories[memory] + offset, 0, out.nbytes, stream)

        self._numbers.append(lambda: None)

        def fill(memories: Sequence[int], stream: int) -> None:
            unowned = cuda.UnownedMemory(memories[memory] + offset, out.nbytes, None)
            with stream_of(stream, self.index):
                ndarray(out.shape, out.dtype, cuda.MemoryPointer(unowned, 0)).fill(call.value)

        return fill

    def _launch(self, planned: PlannedLaunch) -> tuple[RawStep, list[RawStep]]:
        code, places = self._code, planned.places
        kernels = [LoadedKernel(each, places, code.function(each)) for each in planned.kernels]
        aligned: list[RawStep] = [kernel.launch for kernel in kernels]
        self._numbers += [kernel.numbers for kernel in kernels]
        if planned.call is None:
            (kernel,) = kernels
            return kernel.launch, aligned
        buffers, call = tuple(planned.places.values()), planned.call
        unaligned: list[list[LoadedKernel]] = []

        def launch(memories: Sequence[int], stream: int) -> None:
            chosen = kernels
            if any((memories[i] + at) % POINTER_ALIGNMENT for i, at in buffers):
                if not unaligned:
                    unaligned.append(self._unaligned(call, planned.places))
                chosen = unaligned[0]
            for kernel in chosen:
                kernel.launch(memories, stream)

        if any(at % POINTER_ALIGNMENT for _, at in buffers):  # Views, wherever their arrays begin.
            aligned = [launch]
        return launch, aligned

    def _unaligned(self, number: int, places: Mapping[Pointer, Place]) -> list[LoadedKernel]:
        """Kernels of a call for arrays that begin anywhere, as views may."""
        from convir.runtime.cuda.planner import unaligned_kernels  # noqa: PLC0415  (as above)

        call = self.program.calls[number]
        if not isinstance(call, Launch):
            raise TypeError(f"call {number} is not a launch")
        _log.warning(
            "%s: an array does not begin at a multiple of %d bytes; loops on single elements "
            "instead",
            call.kernel.sym_name.data,
            POINTER_ALIGNMENT,
        )
        return [LoadedKernel(kernel, places) for kernel in unaligned_kernels(call).kernels]


def _pointer(array: Any) -> int:
    return array.data.ptr
