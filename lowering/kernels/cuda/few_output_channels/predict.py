"""`few_output_channels`: steps of 16 output pixels, whose pixels warps read from shared memory
and multiply."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.few_output_channels import launch as narrow
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.few_output_channels.config import FewOutputChannelsConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    fragment: float = 1.803
    """Cycles of a multiprocessor for 16 x 16 elements from shared memory."""
    multiply: float = 1.7
    """The same for 16 x 8 x 16 products."""
    store: float = 0.5465
    """The same for what 16 output pixels store, by tile of 8 columns."""
    pixel: float = 2.967
    """Cycles for 128 bytes of A that are copied to shared memory."""
    step: float = 559.5
    """Cycles of a step that no other block's hide."""
    start: float = 3.137
    """µs beside an empty launch, weights among it."""
    dram: float = 0.9034
    """A factor of the time of DRAM."""
    power: float = 2.0


FIXED = ("multiply", "power")
FITTED = Constants()


@dataclass(frozen=True)
class Work:
    """Counts."""

    steps: int
    """Of the busiest block."""
    blocks: int
    """Of a multiprocessor."""
    fragments: float
    """Of a step."""
    products: float
    stores: float
    bytes: float
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: FewOutputChannelsConfig, target: Target
) -> Work:
    """Count."""
    read = reading(spec, epilogue, narrow.runs_of, planes=True)
    assert not isinstance(read, Refusal)
    problem, runs = read
    tiles = -(-problem.col_count // config.cols)
    pixels = problem.images.value * problem.row_count * tiles * config.cols
    blocks = config.blocks[0] * config.blocks[1]
    steps = ceil(ceil(pixels / config.step_pixels) / blocks)
    window = problem.rows.window * problem.cols.window
    groups = config.step_pixels / 16
    out_channels = runs.out_channels(spec.out_channels) / 8
    of_step = window * spec.in_channels / 16 * groups
    used = min(1.0, problem.taps / len(problem.phases) * runs.phases / window)
    halo = ((config.cols - 1) * problem.cols.step + problem.cols.window) / config.cols
    return Work(
        steps=steps,
        blocks=config.blocks[1],
        fragments=of_step,
        products=of_step * out_channels * (used if runs.runs > 1 else 1.0),
        stores=groups * out_channels * config.k_warps,
        bytes=config.step_pixels * halo * problem.rows.step * spec.in_channels * 2,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    shared = k.fragment * work.fragments + k.pixel * work.bytes / 128
    step = overlap(k.power, shared, k.multiply * work.products, k.store * work.stores)
    busy = work.steps * (step * work.blocks + k.step) / target.clock_mhz
    time = overlap(k.power, busy, k.dram * work.traffic.time(target))
    return target.launch + k.start + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: FewOutputChannelsConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
