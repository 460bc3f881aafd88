"""`gemm`: a library's batched GEMM, by the best of a few tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.prediction.overlap import heated, launched
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
LINE = 64
"""Elements of a step of the reduction."""


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    multiply: float = 1.0
    """A factor of the cycles of tensor cores at their full rate."""
    fma: float = 1.241
    """A factor of the cycles of FMA units."""
    rate: float = 96.38
    """Bytes per cycle of a multiprocessor from L2."""
    transposed: float = 2.0
    """A factor of TF32's rate where the reduction is not contiguous in an operand: `wgmma` does not
    take it, `mma.sync` has half of its rate."""
    unaligned: float = 8.573
    """A factor of steps whose rows are not aligned to 16 bytes."""
    tile: float = 349.1
    """Cycles of a tile beside."""
    split: float = 6.845
    """µs more where reductions are split."""
    start: float = 1.643
    """µs beside an empty launch."""
    dram: float = 1.019
    """A factor of the time of DRAM."""
    dram_power: float = 2.023


FITTED = Constants()
BOUNDS = {
    "multiply": (1.0, 2.0),
    "tile": (300.0, 9000.0),
    "dram": (0.9, 1.02),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Sizes."""

    m: int
    n: int
    k: int
    batch: int
    rate: str
    bytes: int
    is_aligned: bool
    is_transposed: bool
    """Whether the reduction is not contiguous in one operand or both."""
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue) -> Work:
    """Read the sizes of the product."""
    (phase,) = spec.phases
    runs: list[list[int]] = []
    for axis in phase.axes:
        if axis.size == 1:
            continue
        step = (axis.row_stride * axis.step, axis.out_stride)
        last = runs[-1] if runs else None
        if last and (last[1], last[2]) == (step[0] * axis.size, step[1] * axis.size):
            runs[-1] = [last[0] * axis.size, *step]
        else:
            runs.append([axis.size, *step])
    inner = runs[-1][0] if runs else 1
    outer = 1
    for run in runs[:-1]:
        outer *= run[0]
    if spec.result == "C":
        m, n, k, batch = inner, spec.out_channels, spec.in_channels, outer * spec.groups
    else:
        m, n, k = phase.taps * spec.in_channels, spec.out_channels, outer * inner
        batch = spec.groups
    element = spec.a.type
    size = STORAGE_BYTES[element]
    lines = [spec.in_channels if spec.a.stride == 1 else inner, spec.out_channels]
    rate = "tf32" if spec.tf32 else element
    return Work(
        m,
        n,
        k,
        batch,
        rate,
        size,
        all(line * size % 16 == 0 for line in lines),
        spec.result == "B" or spec.a.stride != 1 or spec.b.in_channel_stride != 1,
        traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    best = min(_tile_time(work, target, k, *tile) for tile in TILES)
    return launched(heated(best), work.traffic, target, k)


def _tile_time(work: Work, target: Target, k: Constants, tm: int, tn: int) -> float:
    tiles = work.batch * ceil(work.m / tm) * ceil(work.n / tn)
    best = float("inf")
    line = LINE * 2 // work.bytes
    steps = ceil(work.k / line)
    rate = target.tensor_rate(work.rate)
    if rate is not None:
        slower = k.transposed if work.rate == "tf32" and work.is_transposed else 1.0
        multiplied = k.multiply * slower * tm * tn * line / rate
    else:
        fma_rate = target.f64_rate if work.rate == "f64" else target.fma_rate
        multiplied = k.fma * tm * tn * line / fma_rate
    copied = (tm + tn) * line * work.bytes / k.rate
    step = max(multiplied, copied) * (1.0 if work.is_aligned else k.unaligned)
    sums = tm * tn * 4
    for split in SPLITS:
        if split > 1 and steps < 4 * split:
            break
        waves = ceil(tiles * split / target.multiprocessors)
        cycles = waves * (k.tile + ceil(steps / split) * step)
        time = cycles / target.clock_mhz
        if split > 1:
            l2 = target.l2_rate * target.multiprocessors * target.clock_mhz
            time += k.split + 2 * split * tiles * sums / l2
        best = min(best, time)
    return best


def predict(spec: Contraction, epilogue: Epilogue, target: Target) -> float:
    """µs of the call."""
    return time_of(work(spec, epilogue), target)
