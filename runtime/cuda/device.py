"""The cuda device: an rt program as generated kernels and cuBLAS calls on CuPy buffers."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import CUDA, LOOPS, config_of
from convir.lowering.kernels.cuda.launch import POINTER_ALIGNMENT, KernelPlan, Pointer
from convir.lowering.kernels.registry import names_family, plan_kernel
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.cublas import WORKSPACE_BYTES
from convir.runtime.cuda.gemm import CublasGemm
from convir.runtime.cuda.graph import CudaGraph
from convir.runtime.cuda.launch import LoadedKernel
from convir.runtime.cuda.planar_run import PACKED, in_runs, is_planar, packed, planar_run
from convir.runtime.cuda.streams import OnDevice, stream_of
from convir.runtime.prepared_call import PreparedCall
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
    reused_arguments,
    shared_outputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.runtime.cuda.launch import Place
    from convir.runtime.program import Array, Call, TensorSpec

_log = logging.getLogger(__name__)

ALIGNMENT = 256
"""Bytes: where the memory of a call is divided, as CUDA's own allocations are aligned."""

_NO_CONTEXT = "CUDA_ERROR_INVALID_CONTEXT"
"""What the driver says in a thread whose GPU is none yet."""

_Step: TypeAlias = "Callable[[Sequence[int], int], None]"
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
        cupy = toolkit.cupy()
        self.program = program
        self.arrays: Any = cupy
        self.index = index
        self._device: Any = cupy.cuda.Device(index)
        self._first = memory_positions(program)
        self._states: dict[int, list[Any]] = {}
        self._state_lock = threading.Lock()
        gemms = any(isinstance(call, Gemm) for call in program.calls)
        self._workspace_offset = -(-program.arena_bytes // ALIGNMENT) * ALIGNMENT
        self._arena_bytes = self._workspace_offset + (WORKSPACE_BYTES if gemms else 0)
        self._packed: list[Any] = []
        with self.scope():
            self._constants: list[Any] = [cupy.asarray(constant) for constant in program.constants]
            runs = in_runs(program.calls)
            self._steps = [step for run in runs for step in self._run_of(run)]
            if self._constants or self._packed:  # Calls come on any stream.
                cupy.cuda.get_current_stream().synchronize()
        self._constant_pointers = tuple(map(_pointer, self._constants))
        self._packed_pointers = tuple(map(_pointer, self._packed))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument."""
        return self.program.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result."""
        return self.program.outputs

    def scope(self, stream: Any = None) -> OnDevice:
        """A context in which this GPU is current, and `stream` if it is not None.

        Raises:
            TypeError: `stream` is no stream.
            ValueError: it belongs to another GPU.
        """
        return OnDevice(self._device, None if stream is None else stream_of(stream, self.index))

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Enqueue the program once, on dense CuPy arrays of its shapes and dtypes."""
        arena = self.arrays.cuda.alloc(max(1, self._arena_bytes))
        addresses = tuple(map(_pointer, (*inputs, *outputs)))
        stream = self._current_stream()
        if not self.program.state_bytes:
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
        end = -(-self._arena_bytes // ALIGNMENT) * ALIGNMENT
        begin = end
        for size in self.program.state_bytes:
            starts.append(end)
            end += -(-size // ALIGNMENT) * ALIGNMENT
        zero = self.arrays.cuda.runtime.memsetAsync

        def run(addresses: Sequence[int], workspace: int = 0, stream: int = 0) -> None:
            states = ()
            if starts:
                zero(workspace + begin, 0, end - begin, stream)
                states = tuple([workspace + start for start in starts])
            try:
                self._enqueue(addresses, workspace, states, stream)
            except RuntimeError as error:
                if _NO_CONTEXT not in str(error):
                    raise
                # A thread that has not used the GPU yet has no context: no kernel ran.
                self._device.use()
                self._enqueue(addresses, workspace, states, stream)

        return PreparedCall(run, end, POINTER_ALIGNMENT)

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

    def new_arena(self) -> Any:
        """Memory for the temporaries of one call at a time."""
        return self.arrays.empty(max(1, self._arena_bytes), "u1")

    def new_states(self) -> list[Any]:
        """A set of the persistent buffers, all zeros."""
        return [self.arrays.zeros(size, "u1") for size in self.program.state_bytes]

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

    def _run_of(self, calls: Sequence[Call]) -> list[_Step]:
        """What enqueues some calls: one kernel, if they are launches of planar programs."""
        launches = [call for call in calls if isinstance(call, Launch) and is_planar(call)]
        if not launches:
            return [self._step(call) for call in calls]
        found = planar_run(launches, toolkit.gpu())
        if isinstance(found, Refusal):
            _log.warning("%s: %s; loops instead", launches[0].kernel.sym_name.data, found.reason)
            return [self._launch(launch) for launch in launches]
        code, buffers = found
        weights = self.arrays.asarray(packed(code, buffers, self.program.constants))
        places = {pointer: self._place(buffer) for pointer, buffer in buffers.items()}
        behind = self._first[Space.STATE] + len(self.program.state_bytes)
        places[PACKED] = behind + len(self._packed), 0
        self._packed.append(weights)
        return [LoadedKernel(code.kernel, places).launch]

    def _step(self, call: Fill | Copy | Gemm | Launch) -> _Step:
        match call:
            case Fill():
                return self._fill(call)
            case Copy():
                return self._copy(call)
            case Gemm():
                gemm = CublasGemm(call)
                (a, x), (b, y), (c, z) = (self._place(each) for each in (call.a, call.b, call.c))
                arena, workspace = self._first[Space.ARENA], self._workspace_offset
                return lambda m, stream: gemm(
                    m[a] + x, m[b] + y, m[c] + z, m[arena] + workspace, stream
                )
            case Launch():
                return self._launch(call)

    def _copy(self, call: Copy) -> _Step:
        (source, begin), (out, start) = self._place(call.source), self._place(call.out)
        copy, size = self.arrays.cuda.runtime.memcpyAsync, call.out.nbytes
        kind = self.arrays.cuda.runtime.memcpyDeviceToDevice

        def run(memories: Sequence[int], stream: int) -> None:
            to, where = memories[out] + start, memories[source] + begin
            if to != where:
                copy(to, where, size, kind, stream)

        return run

    def _fill(self, call: Fill) -> _Step:
        (memory, offset), out = self._place(call.out), call.out
        cuda, ndarray = self.arrays.cuda, self.arrays.ndarray
        clear = cuda.runtime.memsetAsync
        if not np.full(1, call.value, out.dtype).view(np.uint8).any():
            return lambda memories, stream: clear(memories[memory] + offset, 0, out.nbytes, stream)

        def fill(memories: Sequence[int], stream: int) -> None:
            unowned = cuda.UnownedMemory(memories[memory] + offset, out.nbytes, None)
            with stream_of(stream, self.index):
                ndarray(out.shape, out.dtype, cuda.MemoryPointer(unowned, 0)).fill(call.value)

        return fill

    def _launch(self, call: Launch) -> _Step:
        plan = _plan(call)
        places = {Pointer("output", i): self._place(x) for i, x in enumerate(call.outputs)}
        places |= {Pointer("input", i): self._place(x) for i, x in enumerate(call.inputs)}
        offset = self._workspace_offset
        for i, size in enumerate(plan.workspace):
            places[Pointer("workspace", i)] = self._place(scratch(offset, size))
            offset += -(-size // ALIGNMENT) * ALIGNMENT
        self._arena_bytes = max(self._arena_bytes, offset)
        for i, state in enumerate(states_of(call)[: len(plan.state)]):
            places[Pointer("state", i)] = self._place(state)

        kernels = [LoadedKernel(kernel, places) for kernel in plan.kernels]
        buffers = tuple(places.values())
        scalar: list[list[LoadedKernel]] = []

        def launch(memories: Sequence[int], stream: int) -> None:
            chosen = kernels
            if any((memories[i] + at) % POINTER_ALIGNMENT for i, at in buffers):
                if not scalar:
                    scalar.append(_scalar_kernels(call, places))
                chosen = scalar[0]
            for kernel in chosen:
                kernel.launch(memories, stream)

        return launch


def _scalar_kernels(call: Launch, places: Mapping[Pointer, Place]) -> list[LoadedKernel]:
    """Kernels for arrays that begin anywhere, as views may."""
    _log.warning(
        "%s: an array does not begin at a multiple of %d bytes; loops on single elements instead",
        call.kernel.sym_name.data,
        POINTER_ALIGNMENT,
    )
    plan = _loops(call, aligned=False)
    return [LoadedKernel(kernel, places) for kernel in plan.kernels]


def _plan(call: Launch) -> KernelPlan:
    """What is launched for `call`: what selection chose, or loops where that is not legal."""
    callee = call.kernel
    config = config_of(callee, CUDA) or LOOPS
    if names_family(config):
        plan = plan_kernel(callee, config, toolkit.gpu())
        if isinstance(plan, KernelPlan):
            plan = _with_state(plan, call)
        if isinstance(plan, KernelPlan):
            return plan
        _log.warning("%s: %s; loops instead", callee.sym_name.data, plan.reason)
    return _loops(call, aligned=True)


def _loops(call: Launch, *, aligned: bool) -> KernelPlan:
    return plan_loops(
        call.kernel,
        restrict=not launch_overlaps(call),
        aligned=aligned,
        reused=reused_arguments(call),
    )


def states_of(call: Launch) -> list[Buffer]:
    """What persists of a launch's memory."""
    return [buffer for buffer in call.workspace if buffer.space is Space.STATE]


def _with_state(plan: KernelPlan, call: Launch) -> KernelPlan | Refusal:
    """`plan`, if the launch has the persistent memory that it needs."""
    given = [state.nbytes for state in states_of(call)]
    if len(given) < len(plan.state) or any(a < b for a, b in zip(given, plan.state, strict=False)):
        return Refusal(f"it keeps {sum(plan.state)} bytes, and its launch has rt.state of {given}")
    return plan


def scratch(offset: int, size: int) -> Buffer:
    """`size` bytes of the arena, `offset` bytes into it."""
    return Buffer(Space.ARENA, 0, offset, (size,), np.dtype(np.uint8))


def _pointer(array: Any) -> int:
    return array.data.ptr
