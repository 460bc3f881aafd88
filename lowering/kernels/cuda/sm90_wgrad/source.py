"""The generated text of a wgmma kernel for gradients of weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.kernels.cuda.sizes import Sizes
from convir.lowering.kernels.cuda.sm80_implicit_gemm.problem import any_images, problem_source
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import ALIGNMENT, MAX_SPATIAL
from convir.lowering.kernels.cuda.sm90_wgrad.problem import BLOCK_K
from convir.lowering.kernels.cuda.tile_schedule.partition import DATA_PARALLEL, STREAM_K

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig
    from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem
    from convir.lowering.kernels.protocol import Size

SYMBOL = "sm90_wgrad"
CHUNK_TYPE = 2
"""Bytes of elements that are stored in chunks of 16 bytes."""
TILE_K = 16
"""Output pixels of a matrix instruction."""
MOST_LAG = 4
"""Steps that one warpgroup is behind the other at most, so that they do not store together."""

_KINDS = {"data-parallel": "kDataParallel", "split-k": "kSplitK", "stream-k": "kStreamK"}
_REDUCTIONS = {"linear": "kLinear", "tree": "kTree", "reduce-scatter": "kReduceScatter"}


def source_of(
    spec: Contraction,
    epilogue: Epilogue,
    problem: WgradProblem,
    config: Sm90WgradConfig,
    *,
    reads_once: bool,
    interleaves_splits: bool,
) -> tuple[str, tuple[Scalar, ...]]:
    """CUDA C++ with the kernel `SYMBOL`, and its arguments behind B, the workspace and the flags.

    The tensor maps of C and A follow.
    """
    is_split = config.products > 1
    sizes: dict[str, Size] = {"steps": _steps(problem, config)}
    if is_split:
        sizes["pixels"] = problem.pixels
    steps = Sizes.of(sizes)
    cluster = f"__cluster_dims__({config.cluster}, 1, 1) " if config.cluster > 1 else ""
    body = "run_lines" if problem.converts_a else "run" if config.roles[0] else "run_uniform"
    raw = ["const float* elements_of_a", "const float* elements_of_c"] if is_split else []
    elements = "{elements_of_a, elements_of_c, static_cast<int>(pixels)}, " if is_split else "{}, "
    elements = elements if problem.converts_a else ""
    slides, taps, planes = problem.rows.slides, problem.tap_axes, problem.planes
    axes = {
        "size": [slide.size for slide in slides],
        "step": [slide.step for slide in slides],
        "corner": [slide.corner for slide in slides],
        "taps": _padded([axis.taps for axis in taps], 1),
        "first_offset": _padded([axis.first_offset for axis in taps], 0),
        "tap_step": _padded([axis.step for axis in taps], 0),
        "weight_step": _padded([axis.weight_step for axis in taps], 0),
        "line_steps": [planes.line_steps, *planes.outer] if planes else [],
    }
    flags = {
        "kReadsOnce": reads_once,
        "kInterleavesSplits": interleaves_splits,
        "kPlanesC": planes is not None,
        "kPlanesA": problem.reads_planes,
        "kStoresChunks": problem.vector == ALIGNMENT and STORAGE_BYTES[spec.b.type] == CHUNK_TYPE,
        "kStoresPairs": problem.vector % 2 == 0,
    }
    maps = "const __grid_constant__ TensorMap c, const __grid_constant__ TensorMap a"
    given = ["Epilogue::Stored* b", "float* workspace", "unsigned* flags", *raw, *steps.parameters]
    source = (
        f"// {config}\n"
        '#include "sm90_wgrad/kernel.cuh"\n'
        "using convir::hopper::TensorMap;\n"
        + epilogue.source
        + (_elements_source(spec, epilogue) if is_split else "")
        + "struct Problem {\n"
        f"  using Input = {CPP_TYPES[spec.a.type]};\n"
        "  using Epilogue = ::Epilogue;\n"
        + f"  using Elements = {'::Elements' if is_split else 'void'};\n"
        + "".join(
            f"  static constexpr int {name} = {value};\n"
            for name, value in _constants(problem, config, steps).items()
        )
        + "".join(
            f"  static constexpr bool {name} = {str(is_so).lower()};\n"
            for name, is_so in flags.items()
        )
        + f"  static constexpr long long kOutChannelStride = {problem.out_channel_stride};\n"
        + f"  static constexpr long long kGroupStride = {problem.group_stride};\n"
        + "".join(_accessor(name, values) for name, values in axes.items())
        + "};\n"
        f"using Config = {_config(config)};\n"
        f'extern "C" __global__ void {cluster}__launch_bounds__({config.threads}, 1)\n'
        f"{SYMBOL}({', '.join(given)},\n    {maps}) {{\n"
        f"  convir::wgrad::{body}<Problem, Config>(b, workspace, flags, "
        f"{'steps' if 'steps' in steps.scalars else 'Problem::kSteps'}, {elements}c, a);\n"
        "}\n"
    )
    return source, steps.arguments


def _steps(problem: WgradProblem, config: Sm90WgradConfig) -> Size:
    """The steps of a tile. Stream-K divides by them, and loops over few of them are unrolled."""
    kind, steps = config.partition.kind, problem.steps
    is_short = kind == DATA_PARALLEL and steps < config.stages
    return steps if kind == STREAM_K or is_short else Scalar(steps)


def _elements_source(spec: Contraction, epilogue: Epilogue) -> str:
    """Where the elements of the operands lie, by which results that are not finite are computed
    again. The code has any number of images."""
    (phase,) = spec.phases
    phases = (replace(phase, axes=any_images(phase.axes)),)
    return problem_source(replace(spec, phases=phases), epilogue, "Elements")


def _most_lag(problem: WgradProblem, config: Sm90WgradConfig) -> int:
    """Steps of a part that one warpgroup may be behind another."""
    if problem.taps == 1 or config.consumer_warpgroups == 1:
        return 0
    return min(problem.steps // config.partition.splits // 2, MOST_LAG)


def _last_step(problem: WgradProblem, config: Sm90WgradConfig) -> int:
    """Multiplications of 16 output pixels in the last step of a part."""
    is_whole = config.partition.kind == DATA_PARALLEL and problem.planes is None
    is_whole = is_whole and not problem.converts_a
    return (problem.pixels.value - 1) % BLOCK_K // TILE_K + 1 if is_whole else BLOCK_K // TILE_K


def _constants(problem: WgradProblem, config: Sm90WgradConfig, steps: Sizes) -> dict[str, int]:
    return {
        "kOutChannels": problem.out_channels,
        "kInChannels": problem.in_channels,
        "kTaps": problem.taps,
        "kGroups": problem.groups,
        "kFirstWeight": problem.first_weight,
        "kSteps": steps.constants.get("steps", 0),
        "kMostLag": _most_lag(problem, config),
        "kOfLast": _last_step(problem, config),
        "kSpatial": len(problem.rows.slides),
        "kOuter": len(problem.planes.outer) if problem.planes else 0,
        "kImagePixels": problem.planes.axes[0].size if problem.planes else 0,
        "kInChannelStride": problem.in_channel_stride,
        "kSharedBytes": config.shared_bytes,
        "kLinesAhead": config.lines_ahead,
    }


def _config(config: Sm90WgradConfig) -> str:
    partition = config.partition
    values = (
        config.block_m,
        config.block_n,
        config.stages,
        config.roles[0],
        config.consumer_warpgroups,
        config.cluster,
        config.drained or 0,
        f"convir::partition::Kind::{_KINDS[partition.kind]}",
        partition.splits,
        f"convir::wgrad::{_REDUCTIONS[partition.reduction]}",
        str(partition.waves == "blocks").lower(),
        config.blocks,
        config.products,
    )
    return f"convir::wgrad::Config<{', '.join(map(str, values))}>"


def _accessor(name: str, values: Sequence[int]) -> str:
    """A function of an axis, innermost first."""
    listed = ", ".join(map(str, values)) or "0"
    return (
        f"  static __device__ constexpr int {name}(int axis) {{\n"
        f"    constexpr int values[] = {{{listed}}};\n    return values[axis];\n  }}\n"
    )


def _padded(values: Sequence[int], unit: int) -> list[int]:
    return [*values, *(unit,) * (MAX_SPATIAL - len(values))]
