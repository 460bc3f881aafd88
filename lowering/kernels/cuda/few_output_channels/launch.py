"""`few_output_channels`: convolutions to a few output channels, `kernel.cuh`.

With 3 channels a tile of columns is mostly empty, unless all phases of a strided backward data
convolution are columns of one product: their inputs are one window, and their weights are folded
into it. See `README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, VECTOR
from convir.lowering.kernels.cuda.direct.ring import (
    ASYNC,
    BANK_SKEW,
    ELEMENT_BYTES,
    RingShape,
    barrier_bytes,
    ring_bytes,
)
from convir.lowering.kernels.cuda.direct.source import launch, reading
from convir.lowering.kernels.cuda.few_output_channels.config import FewOutputChannelsConfig
from convir.lowering.kernels.cuda.registers import WARP, registers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

STEP = 16
"""Channels of A of a matrix instruction, and output pixels of one."""

COLUMN_TILE = 8
"""Columns of a matrix instruction."""

ACCUMULATOR_BYTES = 4

MOST_COLUMNS = 4
"""Output channels past which an implicit GEMM fills its tiles."""

MOST_TAPS = 64
"""Taps past which unrolling all of them makes no kernel to compile."""

RESERVED_BYTES = 1024
"""Shared memory that every block takes beside its own."""

SHAPES = ((145, 3, 8, 2), (73, 3, 8, 2), (32, 2, 16, 1), (16, 2, 8, 1))
"""Configs, best first: columns of a list row, stages, warps, and blocks of a multiprocessor."""

OTHER_REGISTERS = 16
"""Registers of a thread for all but weights and accumulators; the warps of a position share the
channels of A until their weights leave so many."""

MOST_BARRIERS = 14
"""Barriers that groups of warps may have beside the block's own."""


@dataclass(frozen=True)
class Runs:
    """Outputs of a position that are contiguous in memory, or those of each channel's plane are."""

    phases: int
    """Phases of a run."""
    runs: int
    word_elements: int
    """Elements of a store, 1 or 2."""

    def out_channels(self, channels: int) -> int:
        """Columns of the product, those that fill tiles included."""
        return self.runs * -(-self.phases * channels // COLUMN_TILE) * COLUMN_TILE


def runs_of(problem: DirectProblem) -> Runs | Refusal:
    """How the phases of a problem make runs, or why they do not."""
    spec = problem.contraction
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if spec.groups != 1 or spec.out_channels > MOST_COLUMNS:
        return Refusal("it is not a dense convolution to a few channels")
    if spec.in_channels % STEP != 0 or problem.taps > MOST_TAPS:
        return Refusal(f"it reduces {spec.in_channels} channels and {problem.taps} taps")
    if any(s % VECTOR for s in (problem.a_image, problem.rows.a_stride, problem.cols.a_stride)):
        return Refusal("pixels are not aligned to 16 bytes")
    neighbour = spec.out_channels if spec.c.stride == 1 else 1
    count, rest = divmod(problem.cols.c_stride, neighbour)
    if rest != 0 or count == 0 or len(problem.phases) % count != 0:
        return Refusal("phases leave zero-filled outputs between pixels")
    firsts = range(0, len(problem.phases), count)
    for run in (problem.phases[first : first + count] for first in firsts):
        offsets = [phase.offset - run[0].offset for phase in run]
        if offsets != [i * neighbour for i in range(count)]:
            return Refusal("phases leave zero-filled outputs between pixels")
    starts = [problem.phases[first].offset for first in firsts]
    steps = (problem.c_image, problem.rows.c_stride, problem.cols.c_stride, *starts)
    # The elements of a word are stored together: none may lie outside of its phase alone.
    is_whole = spec.out_channels % 2 == 0 or len({phase.cols.size for phase in problem.phases}) == 1
    has_words = spec.c.stride == 1 and is_whole and all(step % 2 == 0 for step in steps)
    return Runs(count, len(starts), 2 if has_words else 1)


def shared_bytes(problem: DirectProblem, runs: Runs, config: FewOutputChannelsConfig) -> int:
    """Shared memory of a block: rows of A, and behind them weights or accumulators."""
    spec = problem.contraction
    shape = RingShape(config.cols, 1, config.stages, config.step_pixels, ASYNC)
    ring = ring_bytes(problem, spec.in_channels, shape)
    out_channels = runs.out_channels(spec.out_channels)
    window = problem.rows.window * problem.cols.window
    weights = window * out_channels * (spec.in_channels * ELEMENT_BYTES + BANK_SKEW)
    accumulators = (
        2 * config.warps * out_channels * STEP * ACCUMULATOR_BYTES if config.k_warps > 1 else 0
    )
    return ring + max(weights, accumulators) + barrier_bytes(config.stages, config.producer_warps)


def refusal(
    problem: DirectProblem, runs: Runs, config: FewOutputChannelsConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    in_channels = problem.contraction.in_channels
    if in_channels % (STEP * config.k_warps) != 0 or config.warps % config.k_warps != 0:
        return Refusal(
            f"{config.k_warps} of {config.warps} warps do not share {in_channels} channels"
        )
    if config.k_warps > 1 and config.warps // config.k_warps > MOST_BARRIERS:
        return Refusal(f"{config.warps // config.k_warps} groups of warps have no barrier each")
    copying = config.producer_warps or config.warps
    if in_channels // VECTOR > copying * WARP:
        return Refusal(f"{copying} warps do not copy {in_channels} channels of a pixel")
    return target.shared_refusal(shared_bytes(problem, runs, config), config.blocks[1])


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[FewOutputChannelsConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why the kernel family does not take it."""
    found = reading(contraction, epilogue, runs_of, planes=True)
    if isinstance(found, Refusal):
        return found
    problem, runs = found
    configs = tuple(_legal(problem, runs, gpu))
    return configs or Refusal("no config has registers and shared memory for its weights")


def _legal(problem: DirectProblem, runs: Runs, gpu: Target) -> Iterator[FewOutputChannelsConfig]:
    window = problem.rows.window * problem.cols.window
    out_channels = runs.out_channels(problem.contraction.out_channels)
    weights = window * problem.contraction.in_channels * out_channels // (COLUMN_TILE * VECTOR)
    accumulators = STEP * out_channels // WARP
    for target, stages, warps, resident in SHAPES:
        room = registers_of(warps + 1, resident) - accumulators - OTHER_REGISTERS
        if room <= 0:
            continue
        in_channels = 1
        while weights > room * in_channels:
            in_channels *= 2
        if in_channels > 1 and resident > 1:
            continue
        tiles_of_cols = -(-problem.col_count // target)
        cols = -(-problem.col_count // tiles_of_cols)
        blocks = (gpu.multiprocessors, resident)
        config = FewOutputChannelsConfig(cols, in_channels, 1, stages, warps, 1, blocks)
        if refusal(problem, runs, config, gpu) is None:
            yield config


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: FewOutputChannelsConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    found = reading(contraction, epilogue, runs_of, planes=True)
    if isinstance(found, Refusal):
        return found
    problem, runs = found
    refused = refusal(problem, runs, config, target)
    if refused is not None:
        return refused
    schedule = {
        "tile_cols": config.cols,
        "unroll_rows": 1,
        "k_warps": config.k_warps,
        "tiles": config.tiles,
        "stages": config.stages,
        "threads": (config.warps + config.producer_warps) * WARP,
        "producer_warps": config.producer_warps,
        "tma": 0,
        "step_pixels": config.step_pixels,
        "shared_bytes": shared_bytes(problem, runs, config),
    }
    features = {
        "in_channels": contraction.in_channels,
        "out_channels": contraction.out_channels,
        "run_phases": runs.phases,
        "word_elements": runs.word_elements,
        "c_channel": contraction.c.stride,
    }
    grid = config.blocks[0] * config.blocks[1]
    return launch(
        "few_output_channels/kernel.cuh",
        "FewOutputChannels",
        problem,
        epilogue,
        features,
        schedule,
        grid,
        config.blocks[1],
    )
