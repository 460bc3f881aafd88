"""A contraction as the constants of `kernel.cuh`."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.sizes import ANY_SIZE
from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import (
    INDEX_LIMIT,
    first_weight,
    leaves,
    linear_out,
    linear_rows,
    orientation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase
    from convir.lowering.kernels.cuda.epilogue import Epilogue


def _span(offsets: Iterable[int]) -> int:
    return sum(abs(offset) for offset in offsets)


def _a_span(spec: Contraction) -> int:
    """More elements than lie between any two that are read from A, within a group."""
    rows = max(
        _span(
            axis.row_stride * (axis.extent + axis.size * axis.step + _reach(axis))
            for axis in phase.axes
        )
        for phase in spec.phases
    )
    return rows + spec.a.stride * spec.in_channels


def _reach(axis: Axis) -> int:
    return max((abs(row) for row in axis.tap_rows), default=0)


def _b_span(spec: Contraction) -> int:
    taps = max(
        _span(
            [
                first_weight(phase),
                *(max(map(abs, axis.tap_weights), default=0) * 2 for axis in phase.axes),
            ]
        )
        for phase in spec.phases
    )
    return (
        taps
        + spec.b.in_channel_stride * spec.in_channels
        + spec.b.out_channel_stride * spec.out_channels
    )


def _c_span(spec: Contraction) -> int:
    rows = max(
        phase.out_offset + _span(axis.out_stride * axis.size for axis in phase.axes)
        for phase in spec.phases
    )
    return rows + spec.c.stride * spec.out_channels


def _offset_type(span: int) -> str:
    return "int" if span < INDEX_LIMIT else "long long"


def problem_source(spec: Contraction, epilogue: Epilogue, name: str = "Problem") -> str:
    """The struct `name`: everything that is known of `spec`, as constants."""
    lines = orientation(spec)
    computes_b = spec.result == "B"
    other = spec.c if computes_b else spec.b
    rank = len(spec.phases[0].axes)
    bounded = [any(leaves(phase.axes[axis]) for phase in spec.phases) for axis in range(rank)]
    other_span = _c_span(spec) if computes_b else _b_span(spec)
    sum_type = {"f32": "float", "f64": "double"}[spec.element]
    integers = {
        "kAStride": spec.a.stride,
        "kAGroup": spec.a.group_stride,
        "kBInChannel": spec.b.in_channel_stride,
        "kBOutChannel": spec.b.out_channel_stride,
        "kBGroup": spec.b.group_stride,
        "kCStride": spec.c.stride,
        "kCGroup": spec.c.group_stride,
        "kALinear": linear_rows(spec),
        "kCLinear": linear_out(spec),
    }
    sizes = {
        "kAxes": rank,
        "kPhases": len(spec.phases),
        "kInChannels": spec.in_channels,
        "kOutChannels": spec.out_channels,
        "kGroups": spec.groups,
    }
    flags = {
        "kComputesB": computes_b,
        "kTapMinor": lines.tap_minor,
        "kALineIsReduced": lines.a_by_in_channel != computes_b,
        "kOtherLineIsReduced": lines.other_by_reduction,
    }
    out_channels = [operand.out_channel_stride for operand in epilogue.operands]
    groups = [operand.group_stride for operand in epilogue.operands]
    phases = ",\n".join(f"      {_phase_source(phase)}" for phase in spec.phases)
    fields = {
        "bool kBounded[]": f"{{{', '.join(map(_bool, bounded))}}}",
        "convir::implicit_gemm::Phase<kAxes> kPhase[]": f"{{\n{phases}}}",
        f"convir::implicit_gemm::Rows<kAxes> kEpilogue[][{max(1, len(out_channels))}]": (
            f"{{{_epilogue_rows(spec, epilogue)}}}"
        ),
        "long long kEpilogueColumn[]": _list(out_channels or [0]),
        "long long kEpilogueGroup[]": _list(groups or [0]),
    }
    return "\n".join(
        [
            f"struct {name} {{",
            f"  using A = {CPP_TYPES[spec.a.type]};",
            f"  using Other = {CPP_TYPES[other.type]};",
            f"  using Sum = {sum_type};",
            f"  using AOffset = {_offset_type(_a_span(spec))};",
            f"  using BOffset = {_offset_type(max(other_span, _b_span(spec)))};",
            *(f"  static constexpr bool {name} = {_bool(on)};" for name, on in flags.items()),
            *(f"  static constexpr int {name} = {size};" for name, size in sizes.items()),
            *(f"  static constexpr long long {name} = {n};" for name, n in integers.items()),
            *(f"  static constexpr {name} = {value};" for name, value in fields.items()),
            "};\n",
        ]
    )


def any_images(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes of a phase with as many images as 32 bits count, where its first axis is those."""
    images, *spatial = axes
    if images.tap_rows == (0,) and images.step == 1 and images.size == images.extent:
        most = ANY_SIZE // prod(axis.size for axis in spatial)
        images = replace(images, size=most, extent=most)
    return (images, *spatial)


def _phase_source(phase: Phase) -> str:
    axes = phase.axes
    values: list[str] = [
        str(phase.pixels),
        str(phase.taps),
        str(phase.out_offset),
        str(first_weight(phase)),
        _list([axis.size for axis in axes]),
        _list([axis.extent for axis in axes]),
        _list([axis.step for axis in axes]),
        _list([max(1, len(axis.tap_rows)) for axis in axes]),
        _list([axis.tap_rows[0] if axis.tap_rows else 0 for axis in axes]),
        _list([_distance(axis.tap_rows) for axis in axes]),
        _list([_distance(axis.tap_weights) for axis in axes]),
        _list([axis.row_stride for axis in axes]),
        _list([axis.out_stride for axis in axes]),
    ]
    return "{" + ", ".join(values) + "}"


def _epilogue_rows(spec: Contraction, epilogue: Epilogue) -> str:
    rank = len(spec.phases[0].axes)
    none = f"{{0, {_list([0] * rank)}}}"
    rows: list[str] = []
    for number in range(len(spec.phases)):
        operands = [
            f"{{{placed.offset}, {_list(placed.axis_strides)}}}"
            for operand in epilogue.operands
            for placed in operand.phases[number : number + 1]
        ]
        rows.append(f"{{{', '.join(operands or [none])}}}")
    return ", ".join(rows)


def _distance(values: Sequence[int]) -> int:
    return values[1] - values[0] if len(values) > 1 else 0


def _list(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _bool(value: bool) -> str:
    return "true" if value else "false"
