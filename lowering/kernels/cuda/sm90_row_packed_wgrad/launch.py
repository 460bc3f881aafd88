"""`sm90_row_packed_wgrad`: gradients of narrow weights, with the taps of a column in one wgmma.

The kernel is in `kernel.cuh`; see `docs/kernels/wgrad.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer, TensorMap
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import WGMMA_M, refusal
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import ALIGNMENT, row_packed_problem
from convir.lowering.kernels.cuda.tile_schedule.schedule_type import schedule_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import RowPackedWgradConfig
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import RowPackedProblem
    from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule
    from convir.lowering.kernels.target import Target

SYMBOL = "row_packed_wgrad"
SPILL_BYTES = 512
"""What a block keeps from tile to tile may wait in memory while it reduces one."""
_INT_LIMIT = 1 << 31
_REDUCTIONS = {"linear": "kLinear", "tree": "kTree", "reduce-scatter": "kReduceScatter"}


def kernels(
    spec: Contraction,
    epilogue: Epilogue,
    config: RowPackedWgradConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of `config`."""
    problem = row_packed_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(spec, problem, config, target)
    if refused is not None:
        return refused
    schedule = config.schedule(spec, problem)
    has_slots = bool(schedule.slots) and config.cluster == 1
    kernel = CudaKernel(
        _source(spec, epilogue, problem, config, schedule),
        SYMBOL,
        (schedule.units, 1, 1),
        (config.threads, 1, 1),
        config.shared_bytes(problem, spec.out_channels),
        (
            _input_map(spec, problem, config),
            Pointer("c"),
            Pointer("b"),
            *((Pointer("workspace"), Pointer("state")) if has_slots else ()),
        ),
        is_cooperative=schedule.has_shares and config.cluster == 1,
        spill_bytes=SPILL_BYTES,
    )
    if not has_slots:
        return KernelPlan((kernel,))
    accumulators = config.kept * 4 * config.roles[1] * 32
    flags = schedule.flag_bytes * (config.consumer_warpgroups if config.finishes_apart else 1)
    return KernelPlan((kernel,), (schedule.workspace_bytes(accumulators),), (flags,))


def _input_map(
    spec: Contraction, problem: RowPackedProblem, config: RowPackedWgradConfig
) -> TensorMap:
    """64 channels of the output pixels of X of a step."""
    axes = (problem.cols, problem.rows, problem.images)
    return TensorMap(
        Pointer("a"),
        spec.a.type,
        (spec.groups * spec.in_channels, *(axis.extent for axis in axes)),
        tuple(
            axis.row_stride * 2
            if axis.extent > 1
            else -(-axis.row_stride * 2 // ALIGNMENT) * ALIGNMENT
            for axis in axes
        ),
        (WGMMA_M, config.step[1], config.step[0], 1),
        128,
    )


def _source(
    spec: Contraction,
    epilogue: Epilogue,
    problem: RowPackedProblem,
    config: RowPackedWgradConfig,
    schedule: Schedule,
) -> str:
    """`#include`, the constants, and the instance."""
    images, rows, cols = problem.images, problem.rows, problem.cols
    span = sum(axis.size * abs(axis.out_stride) for axis in (rows, cols)) + spec.out_channels
    is_clustered = config.cluster > 1
    constants = {
        "int kInChannels": spec.in_channels,
        "int kOutChannels": spec.out_channels,
        "int kGroups": spec.groups,
        "int kRows": rows.extent,
        "int kCols": cols.extent,
        "int kOutRows": rows.size,
        "int kOutCols": cols.size,
        "int kAllTapRows": len(rows.tap_rows),
        "int kAllTapCols": len(cols.tap_rows),
        "int kFirstTapRow": rows.tap_rows[0],
        "int kYPiece": problem.y_piece,
        "Offset kYRow": rows.out_stride,
        "Offset kYCol": cols.out_stride,
        "long long kYImage": images.out_stride,
        "long long kYGroup": spec.c.group_stride,
        "bool kRowsFollow": "true" if problem.rows_follow else "false",
        "long long kBGroup": spec.b.group_stride,
        "long long kBInChannel": spec.b.in_channel_stride,
        "long long kBOutChannel": spec.b.out_channel_stride,
        f"int kTapCol[{len(cols.tap_rows)}]": _list(cols.tap_rows),
        f"long long kWeightOfRow[{len(rows.tap_rows)}]": _list(rows.tap_weights),
        f"long long kWeightOfCol[{len(cols.tap_rows)}]": _list(cols.tap_weights),
    }
    last = config.last_tap_cols(problem)
    each, rest = divmod(schedule.steps, config.cluster)
    choices = {
        "int kTapRows": config.tap_rows,
        "int kTapCols": config.tap_cols,
        "int kOutChannels": config.out_channels,
        "int kRows": config.step[0],
        "int kCols": config.step[1],
        "int kPitch": config.pitch(problem),
        "int kSlabRows": config.slab_rows,
        f"int kLastTapCol[{len(last)}]": _list(last),
        "int kReach": config.reach(problem),
        "int kStages": config.stages,
        "int kWaiting": config.staging,
        "int kTogether": config.prologue,
        "int kLoadWarps": config.roles[0],
        "int kConsumerWarpgroups": config.consumer_warpgroups,
        "int kInChannelGroups": config.tile_m // WGMMA_M,
        "int kSplits": config.cluster,
        "int kSplitSteps": each if rest == 0 else 0,
        "int kSharedBytes": config.shared_bytes(problem, spec.out_channels),
        "bool kHasRegisters": "true" if config.x == "registers" else "false",
        "bool kIsBulk": "true" if config.is_bulk else "false",
        "bool kIsRing": "true" if config.y == "ring" else "false",
        "bool kTradesRegisters": "true" if config.trades_registers else "false",
    }
    reduction = "kWithinCluster" if is_clustered else _REDUCTIONS[config.partition.reduction]
    has_slots = bool(schedule.slots) and not is_clustered
    splits = ", float* workspace, unsigned* flags" if has_slots else ""
    given = "workspace, flags" if has_slots else "nullptr, nullptr"
    cluster = f"__cluster_dims__({config.cluster}, 1, 1) " if is_clustered else ""
    return (
        f'// {config}\n#include "sm90_row_packed_wgrad/kernel.cuh"\n\n'
        f"struct Problem {{\n  using E = {CPP_TYPES[spec.a.type]};\n"
        f"  using Offset = {'int' if span < _INT_LIMIT else 'long long'};\n"
        f"{_fields(constants)}}};\n\n"
        f"struct Config {{\n{_fields(choices)}"
        "  static constexpr convir::consumer_warpgroups::Reduction kReduction =\n"
        f"      convir::consumer_warpgroups::{reduction};\n}};\n\n"
        f"using Schedule = {schedule_type(schedule)};\n\n"
        f"{epilogue.source}\n"
        f'extern "C" __global__ void {cluster}__launch_bounds__({config.threads}, 1)\n'
        f"{SYMBOL}(const __grid_constant__ convir::hopper::TensorMap x, const Problem::E* y,\n"
        f"    Epilogue::Stored* out{splits}) {{\n"
        "  convir::row_packed_wgrad::run<Problem, Config, Schedule, Epilogue>"
        f"(x, y, out, {given});\n}}\n"
    )


def _list(values: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _fields(constants: Mapping[str, object]) -> str:
    return "".join(f"  static constexpr {name} = {value};\n" for name, value in constants.items())
