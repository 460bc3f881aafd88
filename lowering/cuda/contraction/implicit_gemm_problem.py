"""A contraction as the constants of `implicit_gemm.cuh`, and the widths of its vector accesses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd, prod
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.spec import STORAGE_BYTES
from convir.lowering.cuda.contraction.epilogue import CPP_TYPES
from convir.lowering.cuda.kernel_plan import POINTER_ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from convir.lowering.contraction.spec import Axis, Contraction, Phase
    from convir.lowering.cuda.contraction.epilogue import Epilogue

INDEX_LIMIT = 1 << 31
"""Positions and offsets below it are exact in 32 bits."""


@dataclass(frozen=True)
class Widths:
    """Neighbouring elements that are moved at once."""

    a: int
    other: int
    out: int


@dataclass(frozen=True)
class Orientation:
    """Along which loops of the product the lines of its three tiles run."""

    tap_minor: bool
    """Whether the taps of one depth are neighbours in the reduction, not the depths of one tap."""
    a_by_depth: bool
    """Whether a line of A is depths of one position, not positions at one depth."""
    other_by_reduction: bool
    """Whether a line of the other input runs along the reduction, not along columns."""
    out_by_columns: bool
    """Whether neighbours of the result are columns, not rows of the product."""


def orientation(spec: Contraction) -> Orientation:
    """The directions in which the operands of `spec` are read and written."""
    tap_minor = _taps_are_neighbours(spec)
    positions_follow = any(
        axis.row_stride == 1 and axis.size > 1 for phase in spec.phases for axis in phase.axes
    )
    by_depth = spec.a.stride == 1 and not (spec.depth == 1 and positions_follow)
    if spec.result == "B":
        return Orientation(
            tap_minor=False,
            a_by_depth=by_depth,
            other_by_reduction=spec.c.stride != 1,
            out_by_columns=spec.b.column_stride < spec.b.depth_stride,
        )
    return Orientation(
        tap_minor=tap_minor,
        a_by_depth=by_depth,
        other_by_reduction=tap_minor or spec.b.depth_stride < spec.b.column_stride,
        out_by_columns=spec.c.stride <= spec.phases[0].axes[-1].out_stride,
    )


def _taps_are_neighbours(spec: Contraction) -> bool:
    """Whether a position's taps follow each other in B, and nothing is lost by reading them so."""
    return spec.result == "C" and spec.a.stride != 1 and _taps_follow(spec)


def _taps_follow(spec: Contraction) -> bool:
    """Whether B holds depth by depth the taps of every phase, in order and without gaps."""
    if len(spec.phases) != 1:
        return False
    step = 1
    for axis in reversed(spec.phases[0].axes):
        if len(axis.tap_weights) > 1:
            if axis.tap_weights[1] - axis.tap_weights[0] != step:
                return False
            step *= len(axis.tap_weights)
    return spec.b.depth_stride == step


def refusal(spec: Contraction) -> Refusal | None:
    """Why `spec` is none of the products that the template computes."""
    axes = [axis for phase in spec.phases for axis in phase.axes]
    if any(_uneven(axis.tap_rows) or _uneven(axis.tap_weights) for axis in axes):
        return Refusal("its taps are not evenly spaced")
    rows = [phase.positions for phase in spec.phases]
    reduced = [phase.taps * spec.depth for phase in spec.phases]
    if max(*rows, *reduced) >= INDEX_LIMIT >> 1:
        return Refusal("it has more rows than 32 bits count")
    return None


def _uneven(values: Sequence[int]) -> bool:
    return len({b - a for a, b in pairwise(values)}) > 1


def widths(spec: Contraction) -> Widths:
    """The widest accesses whose elements are neighbours and aligned, in whole vectors."""
    lines = orientation(spec)
    return Widths(_a_width(spec, lines), _other_width(spec, lines), _out_width(spec, lines))


def _a_width(spec: Contraction, lines: Orientation) -> int:
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.a.type]
    starts = [stride for phase in spec.phases for stride in _row_strides(phase)]
    groups = _if_many(spec.groups, spec.a.group_stride)
    if lines.a_by_depth:
        return gcd(most, spec.depth, *starts, groups) if spec.a.stride == 1 else 1
    phases = [phase for phase in spec.phases if phase.taps]
    taps = [first for phase in phases for first in _tap_offsets(phase)]
    runs = [_run(phase, (axis.row_stride * axis.step for axis in phase.axes)) for phase in phases]
    depths = _if_many(spec.depth, spec.a.stride)
    bounded = any(_leaves(axis) for phase in phases for axis in phase.axes)
    if bounded or any(run.step != 1 for run in runs):
        return 1
    return gcd(most, *(run.length for run in runs), *taps, depths, groups, *_outer(runs))


def _other_width(spec: Contraction, lines: Orientation) -> int:
    if spec.result == "B":
        return _c_width(spec, by_columns=not lines.other_by_reduction)
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.b.type]
    groups = _if_many(spec.groups, spec.b.group_stride)
    weights = [w for phase in spec.phases for w in (_first_weight(phase), *_tap_weights(phase))]
    if not lines.other_by_reduction:
        depths = _if_many(spec.depth, spec.b.depth_stride)
        if spec.b.column_stride != 1 and spec.columns > 1:
            return 1
        return gcd(most, spec.columns, depths, groups, *weights)
    columns = _if_many(spec.columns, spec.b.column_stride)
    if lines.tap_minor:
        return gcd(
            most, spec.depth * spec.phases[0].taps, columns, groups, _first_weight(spec.phases[0])
        )
    if spec.b.depth_stride != 1 and spec.depth > 1:
        return 1
    return gcd(most, spec.depth, columns, groups, *weights)


def _out_width(spec: Contraction, lines: Orientation) -> int:
    if spec.result == "C":
        return _c_width(spec, by_columns=lines.out_by_columns)
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.b.type]
    groups = _if_many(spec.groups, spec.b.group_stride)
    weights = [_first_weight(spec.phases[0]), *_tap_weights(spec.phases[0])]
    if lines.out_by_columns:
        if spec.b.column_stride != 1 and spec.columns > 1:
            return 1
        return gcd(most, spec.columns, _if_many(spec.depth, spec.b.depth_stride), groups, *weights)
    if spec.b.depth_stride != 1 and spec.depth > 1:
        return 1
    return gcd(most, spec.depth, _if_many(spec.columns, spec.b.column_stride), groups, *weights)


def _c_width(spec: Contraction, *, by_columns: bool) -> int:
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.c.type]
    groups = _if_many(spec.groups, spec.c.group_stride)
    offsets = [phase.out_offset for phase in spec.phases]
    if by_columns:
        if spec.c.stride != 1 and spec.columns > 1:
            return 1
        strides = [
            _if_many(axis.size, axis.out_stride) for phase in spec.phases for axis in phase.axes
        ]
        return gcd(most, spec.columns, *strides, *offsets, groups)
    runs = [_run(phase, (axis.out_stride for axis in phase.axes)) for phase in spec.phases]
    if any(run.step != 1 for run in runs):
        return 1
    columns = _if_many(spec.columns, spec.c.stride)
    return gcd(most, *(run.length for run in runs), columns, *offsets, groups, *_outer(runs))


@dataclass(frozen=True)
class _Run:
    """The longest run of positions that are evenly spaced in memory."""

    length: int
    step: int
    outer: tuple[int, ...]
    """Elements between runs."""


def _run(phase: Phase, strides: Iterable[int]) -> _Run:
    """The run at the end of a phase's positions, given the elements between two along each axis."""
    length, step = 1, 1
    outer: list[int] = []
    pairs = [(axis.size, stride) for axis, stride in zip(phase.axes, strides, strict=True)]
    for size, stride in reversed(pairs):
        if size == 1:
            continue
        if outer or (length > 1 and stride != step * length):
            outer.append(stride)
        else:
            step = stride if length == 1 else step
            length *= size
    return _Run(length, step, tuple(outer))


def _outer(runs: Iterable[_Run]) -> list[int]:
    return [stride for run in runs for stride in run.outer]


def _row_strides(phase: Phase) -> list[int]:
    return [axis.row_stride for axis in phase.axes if axis.size > 1 or any(axis.tap_rows)]


def _tap_offsets(phase: Phase) -> list[int]:
    return [row * axis.row_stride for axis in phase.axes for row in axis.tap_rows]


def _tap_weights(phase: Phase) -> list[int]:
    return [w - axis.tap_weights[0] for axis in phase.axes for w in axis.tap_weights]


def _first_weight(phase: Phase) -> int:
    return sum(axis.tap_weights[0] for axis in phase.axes if axis.tap_weights)


def _if_many(count: int, stride: int) -> int:
    """A stride that matters only if there are two to step between; 0 divides into everything."""
    return stride if count > 1 else 0


def _leaves(axis: Axis) -> bool:
    """Whether a tap of some position lies outside."""
    if not axis.tap_rows:
        return False
    last = (axis.size - 1) * axis.step + max(axis.tap_rows)
    return min(axis.tap_rows) < 0 or last >= axis.extent


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
    return rows + spec.a.stride * spec.depth


def _reach(axis: Axis) -> int:
    return max((abs(row) for row in axis.tap_rows), default=0)


def _b_span(spec: Contraction) -> int:
    taps = max(
        _span(
            [
                _first_weight(phase),
                *(max(map(abs, axis.tap_weights), default=0) * 2 for axis in phase.axes),
            ]
        )
        for phase in spec.phases
    )
    return taps + spec.b.depth_stride * spec.depth + spec.b.column_stride * spec.columns


def _c_span(spec: Contraction) -> int:
    rows = max(
        phase.out_offset + _span(axis.out_stride * axis.size for axis in phase.axes)
        for phase in spec.phases
    )
    return rows + spec.c.stride * spec.columns


def _offset_type(span: int) -> str:
    return "int" if span < INDEX_LIMIT else "long long"


def problem_source(spec: Contraction, epilogue: Epilogue) -> str:
    """The struct `Problem`: everything that is known of `spec`, as constants."""
    lines = orientation(spec)
    computes_b = spec.result == "B"
    other = spec.c if computes_b else spec.b
    rank = len(spec.phases[0].axes)
    bounded = [any(_leaves(phase.axes[axis]) for phase in spec.phases) for axis in range(rank)]
    other_span = _c_span(spec) if computes_b else _b_span(spec)
    sum_type = {"f32": "float", "f64": "double"}[spec.element]
    integers = {
        "kAStride": spec.a.stride,
        "kAGroup": spec.a.group_stride,
        "kBDepth": spec.b.depth_stride,
        "kBColumn": spec.b.column_stride,
        "kBGroup": spec.b.group_stride,
        "kCStride": spec.c.stride,
        "kCGroup": spec.c.group_stride,
    }
    sizes = {
        "kAxes": rank,
        "kPhases": len(spec.phases),
        "kDepth": spec.depth,
        "kColumns": spec.columns,
        "kGroups": spec.groups,
    }
    flags = {
        "kComputesB": computes_b,
        "kTapMinor": lines.tap_minor,
        "kALineIsReduced": lines.a_by_depth != computes_b,
        "kOtherLineIsReduced": lines.other_by_reduction,
    }
    columns = [operand.column_stride for operand in epilogue.operands]
    groups = [operand.group_stride for operand in epilogue.operands]
    phases = ",\n".join(f"      {_phase_source(phase)}" for phase in spec.phases)
    fields = {
        "bool kBounded[]": f"{{{', '.join(map(_bool, bounded))}}}",
        "convir::igemm::Phase<kAxes> kPhase[]": f"{{\n{phases}}}",
        f"convir::igemm::Rows<kAxes> kEpilogue[][{max(1, len(columns))}]": (
            f"{{{_epilogue_rows(spec, epilogue)}}}"
        ),
        "long long kEpilogueColumn[]": _list(columns or [0]),
        "long long kEpilogueGroup[]": _list(groups or [0]),
    }
    return "\n".join(
        [
            "struct Problem {",
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


def _phase_source(phase: Phase) -> str:
    axes = phase.axes
    values: list[str] = [
        str(phase.positions),
        str(phase.taps),
        str(phase.out_offset),
        str(_first_weight(phase)),
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


def rows_of(spec: Contraction) -> list[int]:
    """Rows of the product of one group, per phase."""
    if spec.result == "B":
        return [phase.taps * spec.depth for phase in spec.phases]
    return [phase.positions for phase in spec.phases]


def reduced_of(spec: Contraction) -> list[int]:
    """The length of the reduction, per phase."""
    if spec.result == "B":
        return [phase.positions for phase in spec.phases]
    return [phase.taps * spec.depth for phase in spec.phases]


def bytes_of(spec: Contraction) -> int:
    """The bytes that the operands span, roughly."""
    phases = spec.phases
    a = max(prod(axis.extent for axis in phase.axes) for phase in phases) * spec.depth
    c = sum(phase.positions for phase in phases) * spec.columns
    weights = max(phase.taps for phase in phases) * spec.depth * spec.columns
    sizes = STORAGE_BYTES[spec.a.type], STORAGE_BYTES[spec.c.type], STORAGE_BYTES[spec.b.type]
    return spec.groups * sum(n * size for n, size in zip((a, c, weights), sizes, strict=True))
