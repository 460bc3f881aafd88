"""The generated text of a wgmma kernel for gradients of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import MAX_SPATIAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig
    from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem

SYMBOL = "sm90_wgrad"

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
) -> str:
    """CUDA C++ with the kernel `SYMBOL`.

    Its arguments are B, the workspace, the flags, and the tensor maps of C and A.
    """
    cluster = f"__cluster_dims__({config.cluster}, 1, 1) " if config.cluster > 1 else ""
    body = "run" if config.roles[0] else "run_uniform"
    slides, taps = problem.rows.slides, problem.tap_axes
    axes = {
        "size": [slide.size for slide in slides],
        "step": [slide.step for slide in slides],
        "corner": [slide.corner for slide in slides],
        "taps": _padded([axis.taps for axis in taps], 1),
        "first_offset": _padded([axis.first_offset for axis in taps], 0),
        "tap_step": _padded([axis.step for axis in taps], 0),
        "weight_step": _padded([axis.weight_step for axis in taps], 0),
    }
    return (
        f"// {config}\n"
        '#include "sm90_wgrad/kernel.cuh"\n'
        "using convir::hopper::TensorMap;\n" + epilogue.source + "struct Problem {\n"
        f"  using Input = {CPP_TYPES[spec.a.type]};\n"
        "  using Epilogue = ::Epilogue;\n"
        + "".join(
            f"  static constexpr int {name} = {value};\n"
            for name, value in _constants(problem, config).items()
        )
        + f"  static constexpr bool kReadsOnce = {str(reads_once).lower()};\n"
        + f"  static constexpr bool kInterleavesSplits = {str(interleaves_splits).lower()};\n"
        + f"  static constexpr long long kOutChannelStride = {problem.out_channel_stride};\n"
        + "".join(_accessor(name, values) for name, values in axes.items())
        + "};\n"
        f"using Config = {_config(config)};\n"
        f'extern "C" __global__ void {cluster}__launch_bounds__({config.threads}, 1)\n'
        f"{SYMBOL}(Epilogue::Stored* b, float* workspace, unsigned* flags,\n"
        "    const __grid_constant__ TensorMap c, const __grid_constant__ TensorMap a) {\n"
        f"  convir::wgrad::{body}<Problem, Config>(b, workspace, flags, c, a);\n"
        "}\n"
    )


def _constants(problem: WgradProblem, config: Sm90WgradConfig) -> dict[str, int]:
    return {
        "kOutChannels": problem.out_channels,
        "kInChannels": problem.in_channels,
        "kTaps": problem.taps,
        "kFirstWeight": problem.first_weight,
        "kPixels": problem.pixels,
        "kSpatial": len(problem.rows.slides),
        "kSharedBytes": config.shared_bytes,
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
