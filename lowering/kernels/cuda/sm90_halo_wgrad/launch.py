"""`sm90_halo_wgrad`: gradients of the weights of few channels, from halos in shared memory.

An instruction multiplies the channels of A at several taps with those of C in several slices. The
kernel is in `kernel.cuh`; see `README.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer, TensorMap
from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import halo_wgrad_problem
from convir.lowering.kernels.cuda.sm90_halo_wgrad.sets import (
    MOST_COLUMNS,
    columns_of,
    owners_of,
    part_bytes,
    sets_of_thread,
    shared_bytes,
    splits_of,
    tap_sets,
)
from convir.lowering.kernels.cuda.sm90_halo_wgrad.source import SYMBOL, source_of
from convir.lowering.kernels.cuda.tensor_maps import stride_bytes
from convir.lowering.kernels.cuda.tile_schedule.schedule import COUNTER_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import HaloWgradConfig
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import HaloWgradProblem
    from convir.lowering.kernels.target import Target

_Swizzle = Literal[32, 64, 128]
MOST_BOX = 256
"""Elements of a box along an axis."""
MOST_ACCUMULATORS = {1: 192, 2: 168, 3: 112, 4: 72}
"""Of a thread, by how many warpgroups share the registers."""
MOST_APART = 0x3FFF * 16
"""Bytes between what two halves of an instruction read."""


def refusal(problem: HaloWgradProblem, config: HaloWgradConfig, target: Target) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    columns = columns_of(problem, config)
    if columns > MOST_COLUMNS:
        return Refusal(f"{columns} columns are more than {MOST_COLUMNS}")
    if config.pixels % 16:
        return Refusal(f"{config.pixels} pixels are no instructions of 16")
    x, y, z = problem.span
    if max(config.cols + x, config.rows + y, config.depth + z) > MOST_BOX:
        return Refusal(f"the halo of a tile is no box of at most {MOST_BOX}")
    sets = tap_sets(problem, config)
    if len(sets) < config.parts * config.consumers:
        return Refusal(f"{len(sets)} sets of taps are fewer than what multiplies them")
    held = sets_of_thread(problem, config) * columns // 2
    if held > MOST_ACCUMULATORS[config.consumers]:
        return Refusal(f"{held} accumulators of a thread exceed its registers")
    apart = max(tap_set.apart for tap_set in sets) * config.channels[0]
    slices = problem.dilation * config.rows * config.cols * config.channels[1]
    if 2 * max(apart, slices) > MOST_APART:
        return Refusal("its taps are too far apart for a descriptor")
    if owners_of(problem, config) > config.blocks:
        return Refusal("there are fewer blocks than parts of the result")
    return target.shared_refusal(shared_bytes(problem, config))


def kernels(
    spec: Contraction, epilogue: Epilogue, config: HaloWgradConfig, target: Target
) -> KernelPlan | Refusal:
    """The launch of `config`, whose blocks add up their accumulators."""
    problem = halo_wgrad_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    owners, splits = owners_of(problem, config), splits_of(problem, config)
    kernel = CudaKernel(
        source_of(spec, epilogue, problem, config),
        SYMBOL,
        (owners * splits, 1, 1),
        (config.threads, 1, 1),
        shared_bytes(problem, config),
        (
            *_maps(spec, problem, config),
            Pointer("b"),
            Pointer("workspace"),
            Pointer("state"),
            problem.images,
        ),
        is_cooperative=splits > 1,
    )
    parts = owners * splits * part_bytes(problem, config)
    return KernelPlan((kernel,), (parts,), (owners * COUNTER_BYTES,))


def _maps(
    spec: Contraction, problem: HaloWgradProblem, config: HaloWgradConfig
) -> tuple[TensorMap, TensorMap]:
    """Boxes of A, with a halo along the first two axes, and of C, of all shifts of a tile."""
    x, y, z = problem.span
    batch, images = problem.batch, problem.images.value
    of_a, of_c = config.channels
    a = TensorMap(
        Pointer("a"),
        spec.a.type,
        (problem.in_channels, *(axis.extent for axis in problem.axes), images),
        tuple(stride_bytes(axis.row_stride, spec.a.type) for axis in (*problem.axes, batch)),
        (of_a, config.cols + x, config.rows + y, config.depth, 1),
        swizzle=cast("_Swizzle", 2 * of_a),
    )
    c = TensorMap(
        Pointer("c"),
        spec.c.type,
        (problem.out_channels, *(axis.size for axis in problem.axes), images),
        tuple(stride_bytes(axis.out_stride, spec.c.type) for axis in (*problem.axes, batch)),
        (of_c, config.cols, config.rows, config.depth + z, 1),
        swizzle=cast("_Swizzle", 2 * of_c),
    )
    return a, c
