"""`halo_implicit_gemm`: dense convolutions from a few tens of channels, `kernel.cuh`.

An implicit GEMM that gathers A for every filter tap copies each of its elements as often as there
are taps, and a stage of few channels is copied and checked as long as a full one. Here a block
copies what its output pixels read of A once. See `README.md`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, VECTOR
from convir.lowering.kernels.cuda.direct.source import launch, reading, slice_features
from convir.lowering.kernels.cuda.halo_implicit_gemm.config import HaloImplicitGemmConfig
from convir.lowering.kernels.cuda.registers import WARP, registers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem, Slices
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

TILE = 16
"""Output pixels, and input channels, of a matrix instruction."""
GROUP = 32
"""Output channels that the lanes of a row store, 16 bytes each."""
MOST_IN_CHANNELS = 64
"""Channels past which a tap fills stages by itself."""
MOST_CHANNELS = 64
"""Output channels of a block."""
LARGEST_FILTER = 2**31 - 1
"""Elements of the filter that 32 bits count."""
LEAST_ACCUMULATORS, MOST_ACCUMULATORS = 32, 128
OTHER_REGISTERS = 40
"""Of a thread beside accumulators and fragments."""
TABLE_BYTES = 8
"""Of a tap, in the table of taps."""
ELEMENT_BYTES = 2
STAGES = (4, 3, 2)
WARPS = ((4, 2), (8, 1), (4, 3), (8, 2), (4, 1))
"""Warps of a block, and blocks of a multiprocessor."""
SIDES = (1, 2, 4, 8, 16)
COLS = (8, 16)
LINES = (64, 128, 256)
"""Output pixels of a tile along the outer axes, the innermost one, and where it is the only one."""
MOST_PIXELS = 512
"""Output pixels of a block."""


def read(contraction: Contraction, epilogue: Epilogue) -> DirectProblem | Refusal:
    """What the family sees of a contraction, or why it does not take it."""
    found = reading(contraction, epilogue, _taken, anywhere=True)
    return found if isinstance(found, Refusal) else found[1]


def _taken(problem: DirectProblem) -> DirectProblem | Refusal:
    spec, rows, cols, slices = problem.contraction, problem.rows, problem.cols, problem.slices
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if not problem.is_channels_last:
        return Refusal("channels are not innermost")
    if spec.groups != 1 or len(problem.phases) != 1 or problem.taps * slices.taps < 2:
        return Refusal("it is not a dense convolution of one phase and several taps")
    if spec.in_channels % TILE or spec.in_channels > MOST_IN_CHANNELS:
        return Refusal(f"{spec.in_channels} input channels are no multiple of 16 up to 64")
    (phase,) = problem.phases
    b = spec.b
    if 1 not in (b.in_channel_stride, b.out_channel_stride):
        return Refusal("neither channels of B are contiguous")
    steps = [problem.a_image, problem.c_image, rows.a_stride, rows.c_stride, cols.a_stride]
    steps += [cols.c_stride, phase.offset, spec.out_channels, slices.a_stride, slices.c_stride]
    steps += [*phase.rows.weights, *phase.cols.weights, slices.weight, slices.weight_step]
    steps.append(max(b.in_channel_stride, b.out_channel_stride))
    if any(step % VECTOR for step in steps):
        return Refusal("pixels of A or C, or rows of B, are not aligned to 16 bytes")
    if spec.in_channels * spec.out_channels * problem.taps * slices.taps > LARGEST_FILTER:
        return Refusal("the filter has more elements than 32 bits count")
    return problem if slices.row_step >= 0 else replace(problem, slices=_forwards(slices))


def _forwards(slices: Slices) -> Slices:
    """The same taps, from the first slice of A that they read to the last."""
    last = slices.taps - 1
    return replace(
        slices,
        row=slices.row + last * slices.row_step,
        row_step=-slices.row_step,
        weight=slices.weight + last * slices.weight_step,
        weight_step=-slices.weight_step,
    )


def halo(problem: DirectProblem, config: HaloImplicitGemmConfig) -> tuple[int, int, int]:
    """Pixels of A that a block's output pixels read, along each axis."""
    slices, rows, cols = problem.slices, problem.rows, problem.cols
    return (
        (config.slices - 1) * slices.step + (slices.taps - 1) * slices.row_step + 1,
        (config.rows - 1) * rows.step + rows.window,
        (config.cols - 1) * cols.step + cols.window,
    )


def pixels(config: HaloImplicitGemmConfig) -> int:
    """Output pixels of a block."""
    return config.slices * config.rows * config.cols


def taps(problem: DirectProblem) -> int:
    """Filter taps."""
    return problem.taps * problem.slices.taps


def blocks(problem: DirectProblem, config: HaloImplicitGemmConfig) -> int:
    """Blocks of a launch."""
    sizes = (problem.slices.size, problem.row_count, problem.col_count)
    tiles = prod(
        -(-size // tile)
        for size, tile in zip(sizes, (config.slices, config.rows, config.cols), strict=True)
    )
    channels = -(-problem.contraction.out_channels // config.channels)
    return problem.images.value * tiles * channels


def accumulators(config: HaloImplicitGemmConfig) -> int:
    """Of a thread."""
    return pixels(config) * config.channels // (config.warps * WARP)


def shared_bytes(problem: DirectProblem, config: HaloImplicitGemmConfig) -> int:
    """Shared memory of a block: its part of A, filter taps under way, and the table of taps."""
    spec = problem.contraction
    slices, rows, cols = halo(problem, config)
    step = problem.cols.step
    padded = -(-cols // step) * step
    held = slices * rows * padded * (spec.in_channels + VECTOR) * ELEMENT_BYTES
    by_out_channel = spec.b.in_channel_stride == 1
    channels = (config.channels, spec.in_channels)
    lines, line = channels if by_out_channel else reversed(channels)
    stage = lines * (line + VECTOR) * ELEMENT_BYTES
    return held + config.stages * stage + -(-taps(problem) * TABLE_BYTES // 16) * 16


def refusal(
    problem: DirectProblem, config: HaloImplicitGemmConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if pixels(config) % (config.warps * TILE) or config.channels % GROUP:
        return Refusal(f"{pixels(config)} pixels or {config.channels} channels do not fill tiles")
    held = accumulators(config)
    if held > MOST_ACCUMULATORS:
        return Refusal(f"{held} accumulators do not fit the registers of a thread")
    rows = pixels(config) // (config.warps * TILE)
    registers = held + rows * 5 + OTHER_REGISTERS
    most = registers_of(config.warps, config.resident)
    if registers > most:
        return Refusal(f"threads need {registers} registers of {most}")
    return target.shared_refusal(shared_bytes(problem, config), config.resident)


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[HaloImplicitGemmConfig, ...] | Refusal:
    """The configs for a contraction, or why the kernel family does not take it."""
    found = read(contraction, epilogue)
    if isinstance(found, Refusal):
        return found
    return tuple(_configs(found, gpu)) or Refusal("no tile of A fits into shared memory")


def _configs(problem: DirectProblem, gpu: Target) -> Iterator[HaloImplicitGemmConfig]:
    """The most stages that fit of every tile, no longer than twice the result along an axis."""
    out_channels = problem.contraction.out_channels
    channels = GROUP if out_channels <= GROUP else MOST_CHANNELS
    sizes = (problem.slices.size, problem.row_count, problem.col_count)
    of_slices, of_rows = ([side for side in SIDES if side < 2 * size] for size in sizes[:2])
    of_cols = COLS if sizes[0] * sizes[1] > 1 else LINES
    for slices, rows, cols in product(of_slices, of_rows, of_cols):
        if slices * rows * cols > MOST_PIXELS:
            continue
        for warps, resident in WARPS:
            for stages in STAGES:
                config = HaloImplicitGemmConfig(
                    slices, rows, cols, channels, stages, warps, resident
                )
                if accumulators(config) < LEAST_ACCUMULATORS:
                    break
                if refusal(problem, config, gpu) is None:
                    yield config
                    break


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: HaloImplicitGemmConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    problem = read(contraction, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    schedule = {
        "tile_slices": config.slices,
        "tile_rows": config.rows,
        "tile_cols": config.cols,
        "out_channels": config.channels,
        "stages": config.stages,
        "threads": config.warps * WARP,
        "shared_bytes": shared_bytes(problem, config),
    }
    spec = problem.contraction
    features = {"in_channels": spec.in_channels, "out_channels": spec.out_channels}
    return launch(
        "halo_implicit_gemm/kernel.cuh",
        "HaloImplicitGemm",
        problem,
        epilogue,
        features | slice_features(problem.slices),
        schedule,
        blocks(problem, config),
        config.resident,
    )
