"""The generated text of a gradient from halos: what is constant of the problem and the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.sizes import Sizes
from convir.lowering.kernels.cuda.sm90_halo_wgrad.sets import (
    channel_tiles,
    shared_bytes,
    splits_of,
    tap_sets,
    tiles_of,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.source import braced

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import HaloWgradConfig
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import HaloWgradProblem

SYMBOL = "sm90_halo_wgrad"


def source_of(
    contraction: Contraction, epilogue: Epilogue, problem: HaloWgradProblem, config: HaloWgradConfig
) -> str:
    """CUDA C++ with the kernel `SYMBOL`.

    Its arguments are the maps of A and of C, B, the workspace, the counters and the batch.
    """
    images = Sizes.of({"images": problem.images})
    sets = tap_sets(problem, config)
    a_tiles, c_tiles = channel_tiles(problem, config)
    members = [-1 if tap is None else tap for each in sets for tap in each.taps]
    of_problem = {
        "in_channels": problem.in_channels,
        "out_channels": problem.out_channels,
        "shifts": len(problem.shifts),
        "dilation": problem.dilation,
        "sets": len(sets),
        "corner[3]": braced(problem.corner),
        "span[3]": braced(problem.span),
    }
    schedule = {
        "depth": config.depth,
        "rows": config.rows,
        "cols": config.cols,
        "a_channels": config.channels[0],
        "c_channels": config.channels[1],
        "a_tiles": a_tiles,
        "c_tiles": c_tiles,
        "stages": config.stages,
        "consumers": config.consumers,
        "registers": config.consumer_registers,
        "parts": config.parts,
        "splits": splits_of(problem, config),
        "threads": config.threads,
        "producer_warps": 4,
        "shared_bytes": shared_bytes(problem, config),
        "tiles[3]": braced(tiles_of(problem, config)),
    }
    parameters = ", ".join(
        (
            "const __grid_constant__ convir::hopper::TensorMap a",
            "const __grid_constant__ convir::hopper::TensorMap c",
            "Epilogue::Stored* b",
            "float* parts",
            "unsigned* counters",
            *images.parameters,
        )
    )
    return (
        f"// {config}\n"
        '#include "sm90_halo_wgrad/kernel.cuh"\n'
        + epilogue.source
        + f"__constant__ const int pixels[] = {braced([each.pixel for each in sets])};\n"
        f"__constant__ const int aparts[] = {braced([each.apart for each in sets])};\n"
        f"__constant__ const long long taps[] = {braced(members)};\n"
        f"__constant__ const long long shift_elements[] = {braced(problem.shifts)};\n"
        "struct Problem {\n"
        f"  using Element = {CPP_TYPES[contraction.a.type]};\n"
        "  using Epilogue = ::Epilogue;\n"
        + "".join(f"  static constexpr int {name} = {n};\n" for name, n in of_problem.items())
        + f"  static constexpr long long b_in_channel = {problem.b_in_channel};\n"
        f"  static constexpr long long b_out_channel = {problem.b_out_channel};\n"
        "  static __device__ int pixel(int i) { return pixels[i]; }\n"
        "  static __device__ int apart(int i) { return aparts[i]; }\n"
        "  static __device__ long long tap(int i) { return taps[i]; }\n"
        "  static __device__ long long shift(int i) { return shift_elements[i]; }\n"
        "};\n"
        "struct Schedule {\n"
        + "".join(f"  static constexpr int {name} = {n};\n" for name, n in schedule.items())
        + "};\n"
        f'extern "C" __global__ void __launch_bounds__({config.threads}, 1)\n'
        f"{SYMBOL}({parameters}) {{\n"
        "  convir::Sm90HaloWgrad<Problem, Schedule>::run(&a, &c, b, parts, counters, images);\n"
        "}\n"
    )
