"""Launches of planar programs as one CUDA kernel: a function for each program, and calls of these.

    __device__ void planar0(float *p0, int s0, int t0, …, int w3, …)    strides of rows and taps
    __global__ void planar(…) { planar0(a0 + 16, 528, 2, …); planar1(…); … }

A frame is a lane of some warps, which share the channels; a tile of frames passes through all
stages of a launch before the next one, and what they hand on lies in shared memory. The blocks of a
kernel are one cluster: a launch begins when all of them have finished the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.scalar_program import Operand, Result, ScalarProgram, Sum
from convir.lowering.bodies.planar.program import Column, Parameter, Rows, Temporary
from convir.lowering.bodies.planar.read import read_planar
from convir.lowering.kernels.cuda.config import MAX_CLUSTER
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer
from convir.lowering.loops.cuda.scalars import ScalarPrinter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.contraction.scalar_program import Term as Scalar
    from convir.lowering.bodies.planar.program import Binding, PlanarProgram, Read, Stage, Term
    from convir.lowering.kernels.target import Target

_THREADS = 256
_WARP, _TILE = 32, 64
"""Frames of a tile, where there are few and where there are more."""
_MOST_CHANNELS = 8
"""Of a thread: every element that it loads is used so often."""
_FLOAT_BYTES = 4
_VECTOR = 4
"""Floats that are loaded at once, where all begin at a multiple."""


@dataclass(frozen=True)
class PlanarLaunch:
    """One launch: a program, and where its arguments lie."""

    program: PlanarProgram
    binding: Binding
    arguments: tuple[Pointer, ...]
    """Inputs of the kernel, then outputs."""


@dataclass(frozen=True)
class Kept:
    """Numbers that all frames are computed with, and their place in one packed array."""

    argument: Pointer
    place: int
    count: int
    """Both in elements."""


@dataclass(frozen=True)
class PlanarCode:
    """A kernel, whose last argument is the packed array of what is kept."""

    kernel: CudaKernel
    kept: tuple[Kept, ...]

    @property
    def kept_floats(self) -> int:
        """The size of the packed array."""
        return max((_aligned(kept.place + kept.count) for kept in self.kept), default=0)


def planar_code(
    launches: Sequence[PlanarLaunch], packed: Pointer, gpu: Target
) -> PlanarCode | Refusal:
    """The kernel of launches, one after the other, or why there is none.

    Args:
        launches: in order.
        packed: the packed array.
        gpu: where they run.
    """
    if any(launch.binding.images > 1 for launch in launches):
        return Refusal("it computes several images")
    frames = max(launch.binding.frames for launch in launches)
    tile = _WARP if frames <= _WARP else _TILE
    blocks = 1
    while gpu.is_hopper and blocks < MAX_CLUSTER and blocks * tile < frames:
        blocks *= 2
    writer = _Writer(tile)
    try:
        for launch in launches:
            writer.launch(launch)
    except PassFailedException as error:
        return Refusal(str(error))
    code = writer.code(packed, blocks)
    if code.kernel.shared_bytes > gpu.shared_bytes:
        return Refusal(
            f"weights and rows take {code.kernel.shared_bytes} bytes of shared memory, "
            f"a block has {gpu.shared_bytes}"
        )
    return code


def plan_planar(callee: kernel.FuncOp, gpu: Target) -> KernelPlan | Refusal:
    """The kernel of a launch of its own, whose packed array is its workspace."""
    found = read_planar(callee, splits=False)
    if isinstance(found, Refusal):
        return found
    inputs, outputs = callee.function_type.inputs, callee.function_type.outputs
    arguments = (
        *(Pointer("input", i) for i in range(len(inputs))),
        *(Pointer("output", i) for i in range(len(outputs))),
    )
    code = planar_code(
        [PlanarLaunch(found.program, found.binding, arguments)], Pointer("workspace"), gpu
    )
    if isinstance(code, Refusal):
        return code
    return KernelPlan((code.kernel,), (code.kept_floats * _FLOAT_BYTES,))


def _aligned(count: int) -> int:
    return -(-count // _VECTOR) * _VECTOR


def _kept_counts(program: PlanarProgram) -> dict[int, int]:
    """Elements of every parameter that holds weights, or a number for each channel."""
    counts: dict[int, int] = {}
    for stage in program.stages:
        for term in stage.terms:
            if isinstance(term.weights, Parameter):
                counts[term.weights.number] = stage.channels * term.depth * term.taps
        for read in stage.reads:
            if isinstance(read, Column):
                counts[read.array.number] = stage.channels
    return counts


@dataclass
class _Writer:
    tile: int
    functions: dict[tuple[PlanarProgram, int], str] = field(
        default_factory=dict["tuple[PlanarProgram, int]", str]
    )
    arguments: list[Pointer] = field(default_factory=list[Pointer])
    calls: list[str] = field(default_factory=list[str])
    kept: dict[Pointer, Kept] = field(default_factory=dict[Pointer, Kept])
    kept_floats: int = 0
    temporary_floats: int = 0

    def launch(self, launch: PlanarLaunch) -> None:
        """Add a launch."""
        program, binding = launch.program, launch.binding
        key = program, binding.frames
        if key not in self.functions:
            number = len(self.functions)
            self.functions[key] = _Function(program, binding.frames, self.tile).text(number)
        self.temporary_floats = max(self.temporary_floats, sum(program.temporaries) * self.tile)
        counts = _kept_counts(program)
        given: list[str] = []
        for number, bound in enumerate(binding.parameters):
            pointer = launch.arguments[bound.argument]
            if number in counts:
                given.append(str(self._keep(pointer, counts[number])))
                continue
            if pointer not in self.arguments:
                self.arguments.append(pointer)
            name = f"a{self.arguments.index(pointer)} + {bound.offset}"
            given += [name, str(bound.row_stride), str(bound.reach)]
        order = list(self.functions).index(key)
        self.calls.append(f"planar{order}({', '.join(given)});")

    def _keep(self, pointer: Pointer, count: int) -> int:
        found = self.kept.get(pointer)
        if found is None or found.count < count:
            found = self.kept[pointer] = Kept(pointer, self.kept_floats, count)
            self.kept_floats += _aligned(count)
        return found.place

    def code(self, packed: Pointer, blocks: int) -> PlanarCode:
        """The kernel of all launches so far."""
        begin = _aligned(self.temporary_floats)
        parameters = [f"float* a{i}" for i in range(len(self.arguments))]
        cluster = f"__cluster_dims__({blocks}, 1, 1) " if blocks > 1 else ""
        between = "  convir::hopper::cluster_sync();\n" if blocks > 1 else ""
        headers = '#include "ptx/cluster.cuh"\n' if blocks > 1 else ""
        text = (
            f'{headers}#include "generated/planar.cuh"\n\n'
            "extern __shared__ __align__(16) float shared[];\n"
            f"constexpr int kKept = {begin};\n\n"
            + "".join(self.functions.values())
            + f'extern "C" __global__ void {cluster}__launch_bounds__({_THREADS}, 1)\n'
            f"    planar({', '.join([*parameters, 'const float* packed'])}) {{\n"
            f"  convir::keep<{self.kept_floats}, {_THREADS}>(shared + kKept, packed);\n"
            "  __syncthreads();\n" + between.join(f"  {call}\n" for call in self.calls) + "}\n"
        )
        kernel = CudaKernel(
            text,
            "planar",
            (blocks, 1, 1),
            (_THREADS, 1, 1),
            (begin + self.kept_floats) * _FLOAT_BYTES,
            (*self.arguments, packed),
        )
        return PlanarCode(kernel, tuple(self.kept.values()))


@dataclass
class _Function:
    """The function of one program."""

    program: PlanarProgram
    frames: int
    tile: int

    def text(self, number: int) -> str:
        """Its definition."""
        counts = _kept_counts(self.program)
        parameters = ", ".join(
            f"int w{n}" if n in counts else f"float* p{n}, int s{n}, int t{n}"
            for n in range(self.program.parameters)
        )
        stages = "".join(
            f"    {line}\n" for stage in self.program.stages for line in self._stage(stage)
        )
        return (
            f"__device__ __forceinline__ void planar{number}({parameters}) {{\n"
            f"  const int lane = threadIdx.x % {self.tile}, unit = threadIdx.x / {self.tile};\n"
            f"  for (int tile = blockIdx.x * {self.tile}; tile < {self.frames};"
            f" tile += gridDim.x * {self.tile}) {{\n"
            "    const int frame = tile + lane;\n"
            f"{stages}"
            "  }\n}\n\n"
        )

    def _stage(self, stage: Stage) -> list[str]:
        units = _THREADS // self.tile
        size = _channels_of_a_thread(stage, units)
        body = [
            *(line for n, read in enumerate(stage.reads) for line in self._read(n, read, size)),
            f"float sums[{size}] = {{}};",
            *(self._term(stage, term, size) for term in stage.terms),
            *self._values(stage, size),
        ]
        channels = stage.channels
        first = f"frame < {self.frames} ? unit * {size} : {channels}"
        return [
            f"for (int channel = {first}; channel < {channels}; channel += {units * size}) {{",
            *(f"  {line}" for line in body),
            "}",
            "__syncthreads();",
        ]

    def _read(self, number: int, read: Read, size: int) -> list[str]:
        if isinstance(read, Column):
            element = f"shared[kKept + w{read.array.number} + channel + o]"
        else:
            element = self._element(read, "channel + o")
        return [f"float e{number}[{size}];", *_each(size, f"e{number}[o] = {element};")]

    def _term(self, stage: Stage, term: Term, size: int) -> str:
        per_group = stage.channels // term.groups
        row = f"channel / {per_group} * {term.depth}" if term.groups > 1 else "0"
        at = f"&{self._element(term.rows, row)}"
        if isinstance(term.rows.array, Parameter):
            stride, reach = (f"{x}{term.rows.array.number}" for x in "st")
        else:
            stride, reach = str(self.tile), "0"
        sizes = f"{size}, {term.depth}, {term.taps}"
        if not isinstance(term.weights, Parameter):
            weight = ScalarPrinter("int", {}).constant(FloatAttr(term.weights, f32))
            return f"convir::add_filled<{sizes}>(sums, {at}, {stride}, {reach}, {weight});"
        first = f"shared + kKept + w{term.weights.number} + channel * {term.depth * term.taps}"
        return f"convir::add_term<{sizes}>(sums, {at}, {stride}, {reach}, {first});"

    def _values(self, stage: Stage, size: int) -> list[str]:
        """What is computed of the sums, and stores of it."""
        values = list(dict.fromkeys(write.value for write in stage.writes))
        scalars = ScalarProgram(values[0], stage.steps).as_block(f32, [f32] * len(stage.reads))
        total, *operands = scalars.block.args
        names: dict[SSAValue, str] = {total: "sums[o]"}
        terms: dict[Scalar, str] = {Sum(): "sums[o]"}
        for n, operand in enumerate(operands):
            names[operand] = terms[Operand(n)] = f"e{n}[o]"
        printer = ScalarPrinter("int", names)
        names |= {value: printer.constant(number) for value, number in scalars.constants.items()}
        steps: list[str] = []
        for n, op in enumerate(scalars.block.ops):
            kind = printer.type_name(op.results[0].type)
            steps.append(f"const {kind} v{n} = {printer.expression(op)};")
            names[op.results[0]] = terms[Result(n)] = f"v{n}"
        stored = [f"y{i}[o] = {terms[value]};" for i, value in enumerate(values)]
        stores = [
            f"{self._element(write.rows, 'channel + o')} = y{values.index(write.value)}[o];"
            for write in stage.writes
        ]
        # All loads of a thread come before its stores, which may go to the memory of other loads.
        return [
            *(f"float y{i}[{size}];" for i in range(len(values))),
            *_each(size, *steps, *stored),
            *_each(size, *stores),
        ]

    def _element(self, rows: Rows, channel: str) -> str:
        """The element of this thread's frame in a row."""
        at = f"({rows.first} + {channel})"
        if isinstance(rows.array, Temporary):
            before = sum(self.program.temporaries[: rows.array.number]) * self.tile
            return f"shared[{before} + {at} * {self.tile} + lane]"
        number = rows.array.number
        return f"p{number}[{at} * s{number} + frame]"


def _each(size: int, *lines: str) -> list[str]:
    """Lines for each channel `o` of a thread."""
    inner = [f"  {line}" for line in lines]
    return ["#pragma unroll", f"for (int o = 0; o < {size}; ++o) {{", *inner, "}"]


def _channels_of_a_thread(stage: Stage, units: int) -> int:
    """As many as share what is loaded, while there are some for all threads."""
    sizes = [n for n in range(1, _MOST_CHANNELS + 1) if stage.block % n == 0]
    return max((n for n in sizes if stage.channels // n >= units), default=1)
