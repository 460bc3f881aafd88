"""`simt_direct`: small convolutions without tensor cores, `kernel.cuh`.

f32 is multiplied as IEEE has it. Groups of one channel have one product for each element that a tap
reads, so plain cores keep up with memory, and no zero is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.direct.problem import Slices
from convir.lowering.kernels.cuda.direct.source import launch, reading, slice_features
from convir.lowering.kernels.cuda.registers import WARP
from convir.lowering.kernels.cuda.simt_direct.config import SimtDirectConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

VECTOR_BYTES = 16

SHAPES = ((2, 2), (1, 2), (1, 1))
"""Output rows and columns of a thread, best first."""

PLANAR_SHAPES = ((4, 1), (2, 1), (1, 1), (2, 2))
"""The same where columns are innermost: those of a thread are not its neighbour's."""

WARPS, RESIDENT = 8, 2
SMALL_WARPS, SMALL_RESIDENT = 2, 8
"""Warps of a block, and blocks of a multiprocessor whose registers fit: small blocks where there
are too few threads for all multiprocessors."""

MOST_PRODUCTS = 384
"""Products of a thread that are unrolled: with more, registers spill."""

MOST_WINDOW = 128
"""Positions along an axis that are walked one by one: far taps leave many between them, and NVRTC
does not nest as many kernel families."""

MOST_CHANNELS = 32
"""Channels of a group up to which times were measured."""

MOST_PLANAR = 64
"""Products of a pixel of a group in planes up to which times were measured."""

MOST_COUNTED = 1 << 31
"""Units of threads that 32 bits count, and a grid beyond."""

MOST_WEIGHT_BYTES = 48 << 10
"""Weights of a block: more of them leave no room for other blocks."""


@dataclass(frozen=True)
class Vectors:
    """What a thread moves at once."""

    stored: int
    """Output channels: columns of one group, or groups of one channel."""
    read: int
    """Channels of A."""
    planar: bool = False
    """Whether output pixels are innermost: adjacent threads then compute adjacent columns."""


def vectors_of(problem: DirectProblem) -> Vectors | Refusal:
    """The widest vectors that neighbours and alignment allow, or why the kernel family refuses."""
    spec = problem.contraction
    is_depthwise = spec.in_channels == 1 and spec.out_channels == 1
    if spec.groups == problem.taps * problem.slices.taps == 1:
        return Refusal("it is a matrix product")
    if max(spec.in_channels, spec.out_channels) > MOST_CHANNELS:
        return Refusal(
            f"{spec.in_channels} and {spec.out_channels} channels a group are no small groups"
        )
    needed = shared_bytes(problem)
    if needed > MOST_WEIGHT_BYTES:
        return Refusal(f"its weights take {needed} bytes of shared memory")
    slices = problem.slices
    if slices != Slices() and not _walks_slices(problem):
        return Refusal("its slices are no single phase of steps of 1, channels last")
    if not problem.is_channels_last:
        return _planar(problem)
    widest = VECTOR_BYTES // STORAGE_BYTES[spec.a.type]
    rows, cols = problem.rows, problem.cols
    a_steps = (problem.a_image, slices.a_stride, rows.a_stride, cols.a_stride)
    offsets = (phase.offset for phase in problem.phases)
    c_steps = (problem.c_image, slices.c_stride, rows.c_stride, cols.c_stride, *offsets)
    if is_depthwise:
        both = gcd(widest, spec.groups, *a_steps, *c_steps)
        return Vectors(both, both)
    return Vectors(
        gcd(widest, spec.out_channels, *c_steps), gcd(widest, spec.in_channels, *a_steps)
    )


def _walks_slices(problem: DirectProblem) -> bool:
    """Whether a window of slices has a form that was run on a GPU."""
    slices = problem.slices
    is_plain = slices.step == 1 and slices.row_step == 1 and len(problem.phases) == 1
    return is_plain and problem.is_channels_last


def _planar(problem: DirectProblem) -> Vectors | Refusal:
    """What a thread moves where images are planes: single elements, of one output channel."""
    spec = problem.contraction
    if problem.cols.a_stride != 1:
        return Refusal("neither channels nor columns are innermost")
    if spec.in_channels * spec.out_channels > MOST_PLANAR:
        return Refusal(f"{spec.in_channels} and {spec.out_channels} channels in planes are many")
    return Vectors(1, 1, planar=True)


def shared_bytes(problem: DirectProblem) -> int:
    """Shared memory of a block: the weights as f32."""
    spec = problem.contraction
    taps = max(1, problem.taps * problem.slices.taps)
    return taps * spec.in_channels * spec.groups * spec.out_channels * STORAGE_BYTES["f32"]


def work(problem: DirectProblem, vectors: Vectors, config: SimtDirectConfig) -> int:
    """Threads that have something to compute."""
    spec = problem.contraction
    tiles = -(-problem.row_count // config.rows) * -(-problem.col_count // config.cols)
    images = problem.images.value * problem.slices.size
    return images * tiles * spec.groups * spec.out_channels // vectors.stored


def refusal(
    problem: DirectProblem, vectors: Vectors, config: SimtDirectConfig, target: Target
) -> Refusal | None:
    """Why `config` is none for the problem: it would unroll too much, or weights do not fit."""
    spec = problem.contraction
    axes = ((problem.rows, config.rows), (problem.cols, config.cols))
    longest = max(axis.window + (size - 1) * axis.step for axis, size in axes)
    if longest > MOST_WINDOW:
        return Refusal(f"{longest} taps of a window are unrolled")
    in_channels_ = 1 if spec.in_channels == 1 else vectors.read
    products = problem.taps * config.rows * config.cols * vectors.stored * in_channels_
    if products > MOST_PRODUCTS:
        return Refusal(f"{products} products are unrolled")
    return target.shared_refusal(shared_bytes(problem))


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[SimtDirectConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why the kernel family does not take it."""
    read = reading(contraction, epilogue, vectors_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, vectors = read
    configs = tuple(_legal(problem, vectors, gpu))
    if configs:
        return configs
    return refusal(problem, vectors, _smallest(gpu), gpu) or Refusal("no config is legal")


def _legal(problem: DirectProblem, vectors: Vectors, gpu: Target) -> Iterator[SimtDirectConfig]:
    """Larger tiles read less, as long as all threads have work."""
    for rows, cols in PLANAR_SHAPES if vectors.planar else SHAPES:
        config = SimtDirectConfig(rows, cols, WARPS, (gpu.multiprocessors, RESIDENT))
        if work(problem, vectors, config) < gpu.multiprocessors * RESIDENT * WARPS * WARP:
            continue
        if refusal(problem, vectors, config, gpu) is None:
            yield config
    small = _smallest(gpu)
    if refusal(problem, vectors, small, gpu) is None:
        yield small


def _smallest(gpu: Target) -> SimtDirectConfig:
    return SimtDirectConfig(1, 1, SMALL_WARPS, (gpu.multiprocessors, SMALL_RESIDENT))


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: SimtDirectConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    read = reading(contraction, epilogue, vectors_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, vectors = read
    refused = refusal(problem, vectors, config, target)
    if refused is not None:
        return refused
    threads, units = config.warps * WARP, work(problem, vectors, config)
    schedule = {
        "vector": vectors.stored,
        "read": vectors.read,
        "unroll_rows": config.rows,
        "run": config.cols,
        "threads": threads,
        "shared_bytes": shared_bytes(problem),
        "is_counted_in_32_bits": int(units < MOST_COUNTED),
    }
    features = {
        "in_channels": contraction.in_channels,
        "out_channels": contraction.out_channels,
        "groups": contraction.groups,
        "planar": int(vectors.planar),
        "a_group": contraction.a.group_stride,
        "a_channel": contraction.a.stride,
        "c_group": contraction.c.group_stride,
        "c_channel": contraction.c.stride,
        **slice_features(problem.slices),
    }
    grid = min(-(-units // threads), config.blocks[0] * config.blocks[1])
    return launch(
        "simt_direct/kernel.cuh",
        "SimtDirect",
        problem,
        epilogue,
        features,
        schedule,
        grid,
        config.blocks[1],
    )
