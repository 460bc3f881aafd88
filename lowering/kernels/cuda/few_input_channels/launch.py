"""`few_input_channels`: convolutions from a few channels, `kernel.cuh`.

A network's first layer reduces 3 channels of a pixel, which no TMA and no 16-byte vector
takes; but the pixels that a row of the filter reads are contiguous, and together fill the input
channels of matrix instructions. See `README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.config import TILE
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, VECTOR
from convir.lowering.kernels.cuda.direct.source import launch, reading
from convir.lowering.kernels.cuda.few_input_channels.config import (
    COLUMNS,
    TILES,
    FewInputChannelsConfig,
)
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.layout_conversion.copies import copied, copy_launches, copyable
from convir.lowering.kernels.cuda.registers import WARP, registers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.layout_conversion.copies import Copy
    from convir.lowering.kernels.target import Target

ELEMENT_BYTES = 2
MOST_IN_CHANNELS = 16
"""Channels past which a tap fills the input channels of matrix instructions by itself."""
MOST_STEPS = 96
"""Blocks of 8 input channels of a window that are unrolled."""
GROUP_COLUMNS, GROUP_BYTES = 32, 512
"""Columns that a lane holds 8 neighbours of, and bytes of their weights for 8 input channels."""
ROWS = (2, 4, 1, 8, 3)
"""Output rows of a strip."""
MOST_WARPS, LEAST_WARPS = 8, 4
RESIDENT = (3, 2, 1)
"""Blocks of a multiprocessor: while one waits, the others multiply and store."""
OTHER_REGISTERS = 48
"""Of a thread beside its accumulators."""
PLANAR_SPILL_BYTES = 48
"""Addresses of a thread, loaded once a strip, where results are stored to planes on sm_80."""


@dataclass(frozen=True)
class Lines:
    """Rows of A in shared memory, in elements: the same rule as in the kernel family."""

    copied: int
    """Elements of a copy; 1 if they pass through registers."""
    blocks: int
    """Blocks of 8 elements that hold what a row of the filter reads."""
    pitch: int
    """Of a line, its padding included."""
    alternates: bool
    """Whether every second window begins at an odd element."""
    planar: bool
    """Whether C is planes, one for each channel."""


def lines_of(problem: DirectProblem) -> Lines | Refusal:
    """How rows of A lie in shared memory, or why the kernel family refuses the problem."""
    spec, rows, cols = problem.contraction, problem.rows, problem.cols
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if spec.groups != 1 or len(problem.phases) != 1 or not problem.taps:
        return Refusal("it is not a dense convolution of one phase")
    if spec.in_channels > MOST_IN_CHANNELS:
        return Refusal(f"{spec.in_channels} channels are not few")
    (phase,) = problem.phases
    if sorted(phase.cols.pixels) != list(range(cols.window)) or cols.a_stride != spec.in_channels:
        return Refusal("the pixels of a filter row are not contiguous")
    line = cols.extent * spec.in_channels
    copied = gcd(VECTOR, line, problem.a_image, rows.a_stride if rows.extent > 1 else 0)
    alternates = cols.step * spec.in_channels % 2 != 0
    if spec.a.stride != 1 and spec.in_channels > 1:
        return Refusal("channels of A are not innermost")
    planar = spec.c.stride != 1 and spec.out_channels > 1
    steps = [problem.c_image, phase.offset]
    if planar:
        if cols.c_stride != 1 or rows.c_stride not in (0, problem.col_count):
            return Refusal("rows of C do not follow each other")
        steps += [spec.c.stride, problem.row_count * problem.col_count]
    else:
        steps += [rows.c_stride, cols.c_stride, spec.out_channels]
    if problem.slices.size * problem.slices.taps != 1:
        return Refusal("it has windows of slices")
    if any(step % VECTOR for step in (*steps, spec.out_channels)):
        return Refusal("pixels of C are not aligned to 16 bytes")
    pixel = -(-max(0, -cols.origin) * spec.in_channels // VECTOR) * VECTOR
    first = pixel + cols.origin * spec.in_channels
    shift = 0 if alternates else first % 2
    blocks = -(-(shift + cols.window * spec.in_channels) // VECTOR)
    if blocks * len(phase.rows.pixels) > MOST_STEPS:
        return Refusal("its window is too large to unroll")
    last = first - shift + (problem.col_count - 1) * cols.step * spec.in_channels + blocks * VECTOR
    last += 2 if alternates else 0
    pitch = -(-max(pixel + line, last) // VECTOR) * VECTOR
    return Lines(copied, blocks, pitch, alternates, planar)


def shared_bytes(problem: DirectProblem, lines: Lines, config: FewInputChannelsConfig) -> int:
    """Shared memory of a block: two strips of A, and the filter."""
    rows = (config.rows - 1) * problem.rows.step + problem.rows.window
    taps = len(problem.phases[0].rows.pixels)
    weights = taps * lines.blocks * (config.out_channels // GROUP_COLUMNS) * GROUP_BYTES
    return 2 * rows * lines.pitch * ELEMENT_BYTES + weights


def refusal(
    problem: DirectProblem, lines: Lines, config: FewInputChannelsConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if lines.planar and config.rows * problem.col_count % VECTOR != 0:
        return Refusal(f"{config.rows} rows of a plane are not aligned to 16 bytes")
    registers = config.out_channels * config.tiles * TILE // WARP + OTHER_REGISTERS
    most = registers_of(config.warps, config.blocks[1])
    if registers > most:
        return Refusal(f"threads need {registers} registers of {most}")
    return target.shared_refusal(shared_bytes(problem, lines, config), config.blocks[1])


def by_pixel(contraction: Contraction) -> tuple[Contraction, tuple[Copy, ...]]:
    """A contraction on an image whose channels are contiguous, and the copy that makes them so.

    A copy of few channels takes as long as reading it, and saves that of single elements.
    """
    is_planar = "a" in copyable(contraction) and contraction.in_channels <= MOST_IN_CHANNELS
    return copied(contraction, "a" if is_planar else "")


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[FewInputChannelsConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why the kernel family does not take it."""
    contraction, _ = by_pixel(contraction)
    read = reading(contraction, epilogue, lines_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, lines = read
    configs = sorted(_legal(problem, lines, gpu), key=lambda config: _cost(problem, config))
    return tuple(configs) or Refusal("no strip of its rows fits into shared memory")


def _legal(problem: DirectProblem, lines: Lines, gpu: Target) -> Iterator[FewInputChannelsConfig]:
    out_channels = COLUMNS[0] if problem.contraction.out_channels > COLUMNS[1] else COLUMNS[1]
    for resident in RESIDENT:
        for rows in ROWS:
            for tiles in TILES:
                for warps in range(MOST_WARPS, LEAST_WARPS - 1, -1):
                    blocks = (gpu.multiprocessors, resident)
                    config = FewInputChannelsConfig(rows, out_channels, tiles, warps, blocks)
                    if refusal(problem, lines, config, gpu) is None:
                        yield config


def _cost(problem: DirectProblem, config: FewInputChannelsConfig) -> float:
    """Turns of a block's warps, each as long as a multiprocessor takes for all that have theirs."""
    strips = problem.images.value * -(-problem.row_count // config.rows)
    strips *= -(-problem.contraction.out_channels // config.out_channels)
    rounds = -(-strips // (config.blocks[0] * config.blocks[1]))
    pixels = config.rows * problem.col_count
    turns = -(-pixels // (config.warps * config.tiles * TILE))
    at_once = config.blocks[1] * config.warps * config.tiles
    lines = (config.rows - 1) * problem.rows.step + problem.rows.window
    copied = 1 + _COPYING * lines / (config.rows * problem.rows.step)
    single = _SINGLE if config.tiles == 1 else 1
    return rounds * turns * max(at_once, _SATURATED) * copied * single


_SATURATED = 32
"""Tiles of a multiprocessor's warps below which a turn is no shorter."""
_COPYING = 0.03
"""What a line of A costs, of what is multiplied with the lines of a row of outputs."""
_SINGLE = 1.3
"""Warps with one tile read the filter twice as often."""


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: FewInputChannelsConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launches of one config, or why it is not legal for the contraction."""
    contraction, copies = by_pixel(contraction)
    read = reading(contraction, epilogue, lines_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, lines = read
    refused = refusal(problem, lines, config, target)
    if refused is not None:
        return refused
    schedule = {
        "strip_rows": config.rows,
        "out_channels": config.out_channels,
        "tiles": config.tiles,
        "vector": lines.copied,
        "planar": int(lines.planar),
        "threads": config.warps * WARP,
        "shared_bytes": shared_bytes(problem, lines, config),
    }
    features = {
        "in_channels": contraction.in_channels,
        "out_channels": contraction.out_channels,
        "c_channel": contraction.c.stride,
    }
    tiles = -(-contraction.out_channels // config.out_channels)
    strips = problem.images.value * -(-problem.row_count // config.rows)
    blocks = min(strips, max(1, config.blocks[0] * config.blocks[1] // tiles)) * tiles
    rows = Pointer("workspace") if copies else Pointer("a")
    resident = config.blocks[1]
    multiply = launch(
        "few_input_channels/kernel.cuh",
        "FewInputChannels",
        problem,
        epilogue,
        features,
        schedule,
        blocks,
        resident,
        rows,
    )
    first = copy_launches([(copy, Pointer("workspace", i)) for i, copy in enumerate(copies)])
    spilled = PLANAR_SPILL_BYTES if lines.planar else 0
    kernels = (replace(kernel, spill_bytes=spilled) for kernel in multiply.kernels)
    return KernelPlan((*first, *kernels), tuple(copy.nbytes for copy in copies))
