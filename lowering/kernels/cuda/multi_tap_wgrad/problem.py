"""Which gradients of weights the `multi_tap_wgrad` kernel family computes, as output pixels on
one grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Channels, Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue

MAX_PIXELS = 1 << 30
"""Output pixels of the grid, which 32 bits count."""
PIECES = (16, 8, 4)
"""Bytes that cp.async copies."""


@dataclass(frozen=True)
class Plane:
    """The output pixels of X that are a step apart: the first one, and how many along each axis."""

    offset: int
    """Elements of X before the first one."""
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Tap:
    """One tap: how far behind a position of X its position of dY lies, and where its weights are.

    `shift` counts output pixels of the grid, `weight` elements of B.
    """

    plane: Plane
    """What it reads of X."""
    shift: int
    weight: int


@dataclass(frozen=True)
class MultiTapProblem:
    """A gradient of weights on one grid of output pixels."""

    grid: tuple[int, ...]
    """Positions along each axis, slowest first."""
    taps: tuple[Tap, ...]
    """In the order of B's axes."""
    x_piece: int
    """Bytes of X that are copied at once."""
    y_piece: int

    @property
    def pixels(self) -> int:
        """Output pixels of the grid: the length of the reduction."""
        return prod(self.grid)

    def planes(self) -> dict[Plane, tuple[Tap, ...]]:
        """The taps that read each plane, in order."""
        found: dict[Plane, tuple[Tap, ...]] = {}
        for tap in self.taps:
            found[tap.plane] = (*found.get(tap.plane, ()), tap)
        return found


@lru_cache(maxsize=256)
def multi_tap_problem(spec: Contraction, epilogue: Epilogue) -> MultiTapProblem | Refusal:
    """What the kernel family sees of a contraction and its epilogue, or why it refuses them."""
    return epilogue.operands_refusal or problem_of(spec)


def problem_of(spec: Contraction) -> MultiTapProblem | Refusal:
    """The grid of `spec`, or why the kernel family does not compute it."""
    reason = small_gradient_refusal(spec)
    if reason is not None:
        return Refusal(reason)
    axes = spec.phases[0].axes
    grid = tuple(map(_grid_of, axes))
    pitches = [prod(grid[i + 1 :]) for i in range(len(grid))]
    taps: list[Tap] = []
    for index in product(*(range(len(axis.tap_rows)) for axis in axes)):
        rows = [divmod(axis.tap_rows[i], axis.step) for axis, i in zip(axes, index, strict=True)]
        plane = Plane(
            sum(first * axis.row_stride for (_, first), axis in zip(rows, axes, strict=True)),
            tuple(
                -(-(axis.extent - first) // axis.step)
                for (_, first), axis in zip(rows, axes, strict=True)
            ),
        )
        shift = sum(behind * pitch for (behind, _), pitch in zip(rows, pitches, strict=True))
        weight = sum(axis.tap_weights[i] for axis, i in zip(axes, index, strict=True))
        taps.append(Tap(plane, shift, weight))
    if prod(grid) >= MAX_PIXELS:
        return Refusal(f"{prod(grid)} output pixels are more than 32 bits count")
    pieces = [
        copied_bytes(channels, count, strides)
        for channels, count, strides in (
            (spec.a, spec.in_channels, [axis.row_stride for axis in axes if axis.extent > 1]),
            (spec.c, spec.out_channels, [axis.out_stride for axis in axes if axis.size > 1]),
        )
    ]
    if min(pieces) < min(PIECES):
        return Refusal("its rows of single elements are not copied without registers in between")
    return MultiTapProblem(grid, tuple(taps), *pieces)


def small_gradient_refusal(spec: Contraction) -> str | None:
    """Why tensor cores do not multiply the rows of `spec` as they lie; None if they do."""
    if spec.result != "B":
        return "it is not a gradient of weights"
    if spec.a.type != spec.c.type or spec.a.type not in ("f16", "bf16"):
        return f"tensor cores do not multiply {spec.a.type} and {spec.c.type}"
    if spec.accumulate:
        return "it adds to its result"
    if spec.a.stride != 1 or spec.c.stride != 1:
        return "its channels are not innermost"
    (phase,) = spec.phases
    if phase.out_offset:
        return "its gradient does not begin at the first element"
    if any(axis.step < 1 for axis in phase.axes):
        return "its output pixels are walked backwards"
    return None


def _grid_of(axis: Axis) -> int:
    """So many output pixels that a tap which leaves an axis meets none of its neighbours'
    elements."""
    last = max(0, *(row // axis.step for row in axis.tap_rows))
    first = min(0, *(row // axis.step for row in axis.tap_rows))
    return max(axis.size + last, -(-axis.extent // axis.step) - first)


def copied_bytes(channels: Channels, count: int, strides: list[int]) -> int:
    """Bytes of the widest copies that divide every row.

    Args:
        channels: how an operand stores its channels.
        count: channels of a row.
        strides: elements between adjacent rows.
    """
    distances = gcd(count, *strides, channels.group_stride)
    return gcd(max(PIECES), STORAGE_BYTES[channels.type] * distances)
