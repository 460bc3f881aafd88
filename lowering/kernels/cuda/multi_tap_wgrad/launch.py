"""`multi_tap_wgrad`: gradients of weights that keep the accumulators of all taps of a tile in
registers.

Pipeline, partition and math are chosen independently. The kernel is in `kernel.cuh`;
see `docs/kernels/wgrad.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import base_of, reach, refusal
from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import multi_tap_problem
from convir.lowering.kernels.cuda.tile_schedule.schedule_type import schedule_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.multi_tap_wgrad.config import MultiTapWgradConfig
    from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import MultiTapProblem
    from convir.lowering.kernels.target import Target

SYMBOL = "multi_tap_wgrad"
SPILL_BYTES = 512
"""What a block keeps from tile to tile may wait in memory while it reduces one."""
_INT_LIMIT = 1 << 31


def kernels(
    spec: Contraction,
    epilogue: Epilogue,
    config: MultiTapWgradConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of `config`."""
    problem = multi_tap_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(spec, problem, config, target)
    if refused is not None:
        return refused
    schedule = config.schedule(spec, problem)
    accumulators = config.kept * 4 * config.roles[1] * 32
    kernel = CudaKernel(
        _source(spec, epilogue, problem, config),
        SYMBOL,
        (schedule.units, 1, 1),
        (config.threads, 1, 1),
        config.shared_bytes(problem),
        (
            Pointer("a"),
            Pointer("c"),
            Pointer("b"),
            *((Pointer("workspace"), Pointer("state")) if schedule.slots else ()),
        ),
        is_cooperative=schedule.has_shares,
        spill_bytes=SPILL_BYTES,
    )
    if not schedule.slots:
        return KernelPlan((kernel,))
    return KernelPlan((kernel,), (schedule.workspace_bytes(accumulators),), (schedule.flag_bytes,))


def _list(values: Iterable[object]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _source(
    spec: Contraction, epilogue: Epilogue, problem: MultiTapProblem, config: MultiTapWgradConfig
) -> str:
    """`#include`, the constants, and the instance."""
    axes = spec.phases[0].axes
    groups = config.tap_groups(problem)
    padded = [[*group, *[None] * (config.taps - len(group))] for group in groups]
    spans = [
        sum((axis.extent + axis.step) * abs(axis.row_stride) for axis in axes),
        sum(axis.size * abs(axis.out_stride) for axis in axes),
    ]
    offset = (
        "int" if max(spans) + spec.in_channels + spec.out_channels < _INT_LIMIT else "long long"
    )
    schedule = config.schedule(spec, problem)
    count = len(axes)
    shifts = (
        _list(0 if tap is None else tap.shift - base_of(group) for tap in line)
        for line, group in zip(padded, groups, strict=True)
    )
    weights = (_list(-1 if tap is None else tap.weight for tap in line) for line in padded)
    integers = {
        "kAxes": count,
        "kPixels": problem.pixels,
        "kInChannels": spec.in_channels,
        "kOutChannels": spec.out_channels,
        "kGroups": spec.groups,
        "kTapGroups": len(groups),
        "kTaps": config.taps,
        "kReach": reach(groups),
        "kXPiece": problem.x_piece,
        "kYPiece": problem.y_piece,
    }
    arrays = {
        f"int kGrid[{count}]": _list(problem.grid),
        f"int kExtentX[{len(groups)}][{count}]": _list(_list(g[0].plane.extents) for g in groups),
        f"long long kOffsetX[{len(groups)}]": _list(group[0].plane.offset for group in groups),
        f"int kExtentY[{count}]": _list(axis.size for axis in axes),
        f"Offset kStrideX[{count}]": _list(axis.row_stride * axis.step for axis in axes),
        f"Offset kStrideY[{count}]": _list(axis.out_stride for axis in axes),
        f"int kBase[{len(groups)}]": _list(map(base_of, groups)),
        f"int kShift[{len(groups)}][{config.taps}]": _list(shifts),
        f"long long kWeight[{len(groups)}][{config.taps}]": _list(weights),
        "long long kXGroup": spec.a.group_stride,
        "long long kYGroup": spec.c.group_stride,
        "long long kBGroup": spec.b.group_stride,
        "long long kBInChannel": spec.b.in_channel_stride,
        "long long kBOutChannel": spec.b.out_channel_stride,
    }
    choices = {
        "int kLoadWarps": config.roles[0],
        "int kConsumerWarpgroups": config.consumer_warpgroups,
        "int kStages": config.stages,
        "int kN8": config.out_channels // 8,
        "int kSharedBytes": config.shared_bytes(problem),
        "bool kIsWgmma": _bool(config.instruction == "wgmma"),
        "bool kTradesRegisters": _bool(config.trades_registers),
        "bool kIsTree": _bool(config.partition.reduction == "tree"),
        "bool kHasShares": _bool(schedule.has_shares),
    }
    splits = ", float* workspace, unsigned* flags" if schedule.slots else ""
    given = "workspace, flags" if schedule.slots else "nullptr, nullptr"
    constants = {f"int {name}": value for name, value in integers.items()} | arrays
    return (
        f'// {config}\n#include "multi_tap_wgrad/kernel.cuh"\n\n'
        f"struct Problem {{\n  using E = {CPP_TYPES[spec.a.type]};\n  using Offset = {offset};\n"
        f"{_fields(constants)}}};\n\n"
        f"struct Config {{\n{_fields(choices)}}};\n\n"
        f"using Schedule = {schedule_type(schedule)};\n\n"
        f"{epilogue.source}\n"
        f'extern "C" __global__ void __launch_bounds__({config.threads}, 1)\n'
        f"{SYMBOL}(const Problem::E* x, const Problem::E* y, Epilogue::Stored* out{splits}) {{\n"
        "  convir::multi_tap_wgrad::run<Problem, Config, Schedule, Epilogue>"
        f"(x, y, out, {given});\n}}\n"
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _fields(constants: Mapping[str, object]) -> str:
    return "".join(f"  static constexpr {name} = {value};\n" for name, value in constants.items())
