"""How an implicit GEMM reads and writes its operands: along which loops, how many at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.launch import POINTER_ALIGNMENT
from convir.lowering.kernels.cuda.prediction.traffic import KEPT_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase

INDEX_LIMIT = 1 << 31
"""Output pixels and offsets below it are exact in 32 bits."""


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
    """Whether the taps of one depth are contiguous in the reduction, not the input channels of
    one tap."""
    a_by_in_channel: bool
    """Whether a line of A is input channels of one position, not output pixels at one depth."""
    other_by_reduction: bool
    """Whether a line of the other input runs along the reduction, not along columns."""
    stored_by_out_channel: bool
    """Whether neighbours of the result are columns, not rows of the product."""


@lru_cache(maxsize=KEPT_PROBLEMS)
def orientation(spec: Contraction) -> Orientation:
    """The directions in which the operands of `spec` are read and written."""
    tap_minor = _taps_are_contiguous(spec)
    positions_follow = any(
        axis.row_stride == 1 and axis.size > 1 for phase in spec.phases for axis in phase.axes
    )
    by_depth = spec.a.stride == 1 and not (spec.in_channels == 1 and positions_follow)
    if spec.result == "B":
        return Orientation(
            tap_minor=False,
            a_by_in_channel=by_depth,
            other_by_reduction=spec.c.stride != 1,
            stored_by_out_channel=spec.b.out_channel_stride < spec.b.in_channel_stride,
        )
    return Orientation(
        tap_minor=tap_minor,
        a_by_in_channel=by_depth,
        other_by_reduction=tap_minor or spec.b.in_channel_stride < spec.b.out_channel_stride,
        stored_by_out_channel=spec.c.stride <= spec.phases[0].axes[-1].out_stride,
    )


def _taps_are_contiguous(spec: Contraction) -> bool:
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
    return spec.b.in_channel_stride == step


def unsupported(spec: Contraction) -> Refusal | None:
    """Why `spec` is none of the products that the kernel family computes."""
    axes = [axis for phase in spec.phases for axis in phase.axes]
    if any(_uneven(axis.tap_rows) or _uneven(axis.tap_weights) for axis in axes):
        return Refusal("its taps are not evenly spaced")
    rows = [phase.pixels for phase in spec.phases]
    reduced = [phase.taps * spec.in_channels for phase in spec.phases]
    if max(*rows, *reduced) >= INDEX_LIMIT >> 1:
        return Refusal("it has more rows than 32 bits count")
    return None


def _uneven(values: Sequence[int]) -> bool:
    return len({b - a for a, b in pairwise(values)}) > 1


def rows_of(spec: Contraction) -> list[int]:
    """Rows of the product of one group, per phase."""
    if spec.result == "B":
        return [phase.taps * spec.in_channels for phase in spec.phases]
    return [phase.pixels for phase in spec.phases]


def reduced_of(spec: Contraction) -> list[int]:
    """The length of the reduction, per phase."""
    if spec.result == "B":
        return [phase.pixels for phase in spec.phases]
    return [phase.taps * spec.in_channels for phase in spec.phases]


@lru_cache(maxsize=KEPT_PROBLEMS)
def widths(spec: Contraction) -> Widths:
    """The widest accesses whose elements are contiguous and aligned, in whole vectors."""
    lines = orientation(spec)
    return Widths(_a_width(spec, lines), _other_width(spec, lines), _out_width(spec, lines))


def _a_width(spec: Contraction, lines: Orientation) -> int:
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.a.type]
    starts = [stride for phase in spec.phases for stride in _row_strides(phase)]
    groups = _if_many(spec.groups, spec.a.group_stride)
    if lines.a_by_in_channel:
        return gcd(most, spec.in_channels, *starts, groups) if spec.a.stride == 1 else 1
    phases = [phase for phase in spec.phases if phase.taps]
    taps = [first for phase in phases for first in _tap_offsets(phase)]
    runs = [_run(phase, (axis.row_stride * axis.step for axis in phase.axes)) for phase in phases]
    in_channels_ = _if_many(spec.in_channels, spec.a.stride)
    bounded = any(leaves(axis) for phase in phases for axis in phase.axes)
    if bounded or any(run.step != 1 for run in runs):
        return 1
    return gcd(most, *(run.length for run in runs), *taps, in_channels_, groups, *_outer(runs))


def _other_width(spec: Contraction, lines: Orientation) -> int:
    if spec.result == "B":
        return _c_width(spec, by_columns=not lines.other_by_reduction)
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.b.type]
    groups = _if_many(spec.groups, spec.b.group_stride)
    weights = [w for phase in spec.phases for w in (first_weight(phase), *_tap_weights(phase))]
    if not lines.other_by_reduction:
        in_channels_ = _if_many(spec.in_channels, spec.b.in_channel_stride)
        if spec.b.out_channel_stride != 1 and spec.out_channels > 1:
            return 1
        return gcd(most, spec.out_channels, in_channels_, groups, *weights)
    out_channels = _if_many(spec.out_channels, spec.b.out_channel_stride)
    if lines.tap_minor:
        return gcd(
            most,
            spec.in_channels * spec.phases[0].taps,
            out_channels,
            groups,
            first_weight(spec.phases[0]),
        )
    if spec.b.in_channel_stride != 1 and spec.in_channels > 1:
        return 1
    return gcd(most, spec.in_channels, out_channels, groups, *weights)


def _out_width(spec: Contraction, lines: Orientation) -> int:
    if spec.result == "C":
        return _c_width(spec, by_columns=lines.stored_by_out_channel)
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.b.type]
    groups = _if_many(spec.groups, spec.b.group_stride)
    weights = [first_weight(spec.phases[0]), *_tap_weights(spec.phases[0])]
    if lines.stored_by_out_channel:
        if spec.b.out_channel_stride != 1 and spec.out_channels > 1:
            return 1
        return gcd(
            most,
            spec.out_channels,
            _if_many(spec.in_channels, spec.b.in_channel_stride),
            groups,
            *weights,
        )
    if spec.b.in_channel_stride != 1 and spec.in_channels > 1:
        return 1
    return gcd(
        most,
        spec.in_channels,
        _if_many(spec.out_channels, spec.b.out_channel_stride),
        groups,
        *weights,
    )


def _c_width(spec: Contraction, *, by_columns: bool) -> int:
    most = POINTER_ALIGNMENT // STORAGE_BYTES[spec.c.type]
    groups = _if_many(spec.groups, spec.c.group_stride)
    offsets = [phase.out_offset for phase in spec.phases]
    if by_columns:
        if spec.c.stride != 1 and spec.out_channels > 1:
            return 1
        strides = [
            _if_many(axis.size, axis.out_stride) for phase in spec.phases for axis in phase.axes
        ]
        return gcd(most, spec.out_channels, *strides, *offsets, groups)
    runs = [_run(phase, (axis.out_stride for axis in phase.axes)) for phase in spec.phases]
    if any(run.step != 1 for run in runs):
        return 1
    out_channels = _if_many(spec.out_channels, spec.c.stride)
    return gcd(most, *(run.length for run in runs), out_channels, *offsets, groups, *_outer(runs))


def linear_rows(spec: Contraction) -> int:
    """Elements of A between two output pixels, where all of them are evenly spaced and inside; else
    0.

    A phase without taps reads none.
    """
    phases = [phase for phase in spec.phases if phase.taps]
    if any(leaves(axis) for phase in phases for axis in phase.axes):
        return 0
    return _even([_run(p, (axis.row_stride * axis.step for axis in p.axes)) for p in phases])


def linear_out(spec: Contraction) -> int:
    """Elements of C between two output pixels, where all of them are evenly spaced; else 0."""
    return _even([_run(p, (axis.out_stride for axis in p.axes)) for p in spec.phases])


def _even(runs: Sequence[_Run]) -> int:
    steps = {run.step for run in runs}
    return runs[0].step if len(steps) == 1 and not any(run.outer for run in runs) else 0


@dataclass(frozen=True)
class _Run:
    """The longest run of output pixels that are evenly spaced in memory."""

    length: int
    step: int
    outer: tuple[int, ...]
    """Elements between runs."""


def _run(phase: Phase, strides: Iterable[int]) -> _Run:
    """The run at the end of a phase's output pixels, given the elements between two along each
    axis."""
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


def first_weight(phase: Phase) -> int:
    """Elements of B before a phase's first tap."""
    return sum(axis.tap_weights[0] for axis in phase.axes if axis.tap_weights)


def _if_many(count: int, stride: int) -> int:
    """A stride that matters only if there are two to step between; 0 divides into everything."""
    return stride if count > 1 else 0


def leaves(axis: Axis) -> bool:
    """Whether a tap of some position lies outside."""
    if not axis.tap_rows:
        return False
    last = (axis.size - 1) * axis.step + max(axis.tap_rows)
    return min(axis.tap_rows) < 0 or last >= axis.extent
