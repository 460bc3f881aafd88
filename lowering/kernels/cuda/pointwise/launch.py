"""`pointwise`: 1x1 convolutions from up to 128 input channels, `kernel.cuh`.

Few input channels are few products for each element that moves: the time is that of memory. The
filter fits into shared memory, warps load pixels as fragments of matrix instructions, and store
results from registers. See `README.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, VECTOR, Slices
from convir.lowering.kernels.cuda.direct.source import launch, reading
from convir.lowering.kernels.cuda.pointwise.config import TILE, PointwiseConfig
from convir.lowering.kernels.cuda.registers import WARP, registers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem, WindowAxis
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

ELEMENT_BYTES = 2
MOST_IN_CHANNELS = 128
"""A lane keeps an eighth of a row's in words, of every row and once more of the next tile."""
ROWS = (2 * TILE, TILE)
WARPS = (8, 4, 16)
RESIDENT = (6, 5, 4, 3, 2, 1)
OTHER_REGISTERS = 46
"""Of a thread beside its rows, its accumulators, and where its pixels begin."""
DIVIDED_REGISTERS = 12
"""Of a thread that finds rows and columns of pixels."""


def _walks_inside(axis: WindowAxis, count: int) -> bool:
    """Whether every output pixel along an axis reads a pixel of A."""
    last = (count - 1) * axis.step + axis.origin
    return axis.window == 1 and axis.origin >= 0 and last < axis.extent


def is_linear(problem: DirectProblem) -> bool | Refusal:
    """Whether output pixels lie evenly apart in A and in C; or why the kernel family refuses the
    problem."""
    spec, rows, cols = problem.contraction, problem.rows, problem.cols
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if spec.groups != 1 or len(problem.phases) != 1 or problem.taps != 1:
        return Refusal("it is not a dense convolution of one phase and one tap")
    if problem.slices != Slices():
        return Refusal("it has windows of slices")
    counts = problem.row_count, problem.col_count
    if not _walks_inside(rows, counts[0]) or not _walks_inside(cols, counts[1]):
        return Refusal("it reads padding")
    if spec.in_channels > MOST_IN_CHANNELS:
        return Refusal(f"{spec.in_channels} channels are not few")
    steps_a = problem.a_image, rows.a_stride, cols.a_stride
    steps_c = problem.c_image, rows.c_stride, cols.c_stride, problem.phases[0].offset
    if any(step % VECTOR for step in (*steps_a, *steps_c, spec.in_channels, spec.out_channels)):
        return Refusal("pixels of A or C are not aligned to 16 bytes")
    return rows.origin == cols.origin == 0 and all(
        _is_even(problem, *steps)
        for steps in (
            (problem.a_image, rows.a_stride * rows.step, cols.a_stride * cols.step),
            (problem.c_image, rows.c_stride, cols.c_stride),
        )
    )


def _is_even(problem: DirectProblem, image: int, row: int, col: int) -> bool:
    """Whether a pixel is as far from the next one at the end of a row and of an image."""
    rows, cols = problem.row_count, problem.col_count
    return (rows == 1 or row == cols * col) and image == rows * cols * col


def shared_bytes(spec: Contraction) -> int:
    """Shared memory of a block: the filter."""
    return spec.in_channels * spec.out_channels * ELEMENT_BYTES


def refusal(
    spec: Contraction,
    epilogue: Epilogue,
    config: PointwiseConfig,
    target: Target,
    *,
    linear: bool,
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not.

    Args:
        spec: the contraction.
        epilogue: what is applied before the store.
        config: the choices.
        target: the GPU.
        linear: what `is_linear` says.
    """
    most = registers_of(config.warps, config.blocks[1])
    needed = registers(spec, epilogue, config, linear=linear)
    if needed > most:
        return Refusal(f"threads need {needed} registers of {most}")
    return target.shared_refusal(shared_bytes(spec), config.blocks[1])


def registers(
    spec: Contraction, epilogue: Epilogue, config: PointwiseConfig, *, linear: bool
) -> int:
    """What a thread is taken to need: two tiles of A, the accumulators of 32 columns, the operands
    of their epilogue, and for each of its pixels where it begins."""
    tiles = config.rows // TILE
    pixels = 2 * tiles
    words = pixels * spec.in_channels // VECTOR
    operands = VECTOR // 2 * pixels * len(epilogue.operands)
    places = 0 if linear else DIVIDED_REGISTERS
    return 2 * words + tiles * TILE + 3 * pixels + operands + places + OTHER_REGISTERS


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[PointwiseConfig, ...] | Refusal:
    """The configs for a contraction, or why the kernel family does not take it."""
    read = reading(contraction, epilogue, is_linear)
    if isinstance(read, Refusal):
        return read
    configs = tuple(_legal(contraction, epilogue, gpu, linear=read[1]))
    return configs or Refusal("its filter does not fit into shared memory")


def _legal(
    spec: Contraction, epilogue: Epilogue, gpu: Target, *, linear: bool
) -> Iterator[PointwiseConfig]:
    """Of every size of tiles and blocks, the two that have the most warps at a time."""
    for rows in ROWS:
        for warps in WARPS:
            resident = (
                PointwiseConfig(rows, warps, (gpu.multiprocessors, blocks)) for blocks in RESIDENT
            )
            legal = [
                config
                for config in resident
                if refusal(spec, epilogue, config, gpu, linear=linear) is None
            ]
            yield from legal[:2]


def kernels(
    contraction: Contraction, epilogue: Epilogue, config: PointwiseConfig, target: Target
) -> KernelPlan | Refusal:
    """The launches of one config, or why it is not legal for the contraction."""
    read = reading(contraction, epilogue, is_linear)
    if isinstance(read, Refusal):
        return read
    problem, linear = read
    refused = refusal(contraction, epilogue, config, target, linear=linear)
    if refused is not None:
        return refused
    schedule = {
        "tiles": config.rows // TILE,
        "threads": config.warps * WARP,
        "shared_bytes": shared_bytes(contraction),
    }
    features = {
        "in_channels": contraction.in_channels,
        "out_channels": contraction.out_channels,
        "is_linear": int(linear),
    }
    blocks = min(config.blocks[0] * config.blocks[1], blocks_of(problem, config))
    return launch(
        "pointwise/kernel.cuh",
        "Pointwise",
        problem,
        epilogue,
        features,
        schedule,
        blocks,
        config.blocks[1],
    )


def blocks_of(problem: DirectProblem, config: PointwiseConfig) -> int:
    """Blocks whose warps have a tile each."""
    return -(-problem.pixels // (config.rows * config.warps))
