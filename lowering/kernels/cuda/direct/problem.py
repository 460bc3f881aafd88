"""A contraction as the direct kernel families see it: images of rows and columns, and what a window
is.

The kernel families know one batch axis (*images*) and two axes with windows (*rows* and *columns*);
a 1-D problem has a single row, and a volume is an image where one of its axes has no window: slices
then are images, or an image is a row of pixels. Other volumes have windows of *slices*, which a
kernel family takes or not. All phases read A with the same steps and write C with the same strides,
so together they are one product of output pixels with one window of A.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import Axis, Contraction, Result, StorageType
from convir.lowering.kernels.cuda.launch import Scalar

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand

ELEMENT_TYPES: dict[StorageType, str] = {"f16": "__half", "bf16": "__nv_bfloat16", "f32": "float"}
"""Types that the kernel families read and write, and their names in CUDA C++."""

TENSOR_CORE_TYPES = ("f16", "bf16")
"""Those of them that tensor cores multiply exactly."""

VECTOR = 8
"""16-bit elements of a copy of 16 bytes."""

MOST_AXES = 3
"""Images, rows and columns."""

LARGEST_INDEX = 2**30
"""Output pixels are counted in 32 bits with a sign, rounded up to whole tiles."""

LARGEST_RESULT = 2**32 - 1
"""Elements of C are counted in 32 bits."""


@dataclass(frozen=True)
class WindowAxis:
    """What all phases share along one axis."""

    extent: int
    step: int
    a_stride: int
    c_stride: int
    origin: int
    """Position of A where the window of output pixel 0 begins; may be negative."""
    window: int
    """Pixels of A from the first that a tap reads to the last."""


@dataclass(frozen=True)
class Slices:
    """An axis around rows and columns with a window of its own, the same for all phases."""

    size: int = 1
    """Output slices of an image."""
    extent: int = 1
    step: int = 1
    a_stride: int = 0
    c_stride: int = 0
    row: int = 0
    """Position of A that the first tap reads at output slice 0; may be negative."""
    row_step: int = 0
    """Pixels of A from a tap to the next."""
    weight: int = 0
    """Offset in B of the first tap."""
    weight_step: int = 0
    taps: int = 1


@dataclass(frozen=True)
class Taps:
    """The taps of one phase along one axis."""

    size: int
    """Output pixels of the phase."""
    pixels: tuple[int, ...]
    """For each tap, its position in the window."""
    weights: tuple[int, ...]
    """For each tap its offset in B, in elements."""


@dataclass(frozen=True)
class DirectPhase:
    """One phase: its outputs and its taps along rows and columns."""

    offset: int
    """Elements of C before output pixel 0."""
    rows: Taps
    cols: Taps

    @property
    def taps(self) -> int:
        """Taps of the phase; 0 if it is a zero-filled output."""
        return len(self.rows.pixels) * len(self.cols.pixels)


@dataclass(frozen=True)
class DirectProblem:
    """A contraction on images; strides count elements. Its code is the same for any batch."""

    contraction: Contraction
    element: str
    images: Scalar
    a_image: int
    c_image: int
    rows: WindowAxis
    cols: WindowAxis
    phases: tuple[DirectPhase, ...]
    operands: tuple[LinearOperand, ...] = ()
    """What the epilogue reads besides the accumulators."""
    slices: Slices = Slices()

    @property
    def row_count(self) -> int:
        """Output rows of the longest phase."""
        return max(phase.rows.size for phase in self.phases)

    @property
    def col_count(self) -> int:
        """Output columns of the widest phase."""
        return max(phase.cols.size for phase in self.phases)

    @property
    def pixels(self) -> int:
        """Output pixels of all images, those of the largest phase."""
        return self.images.value * self.slices.size * self.row_count * self.col_count

    @property
    def last_result(self) -> int:
        """The greatest offset in C, in elements."""
        last = max(
            phase.offset
            + (phase.rows.size - 1) * self.rows.c_stride
            + (phase.cols.size - 1) * self.cols.c_stride
            for phase in self.phases
        )
        spec = self.contraction
        channel = (spec.groups - 1) * spec.c.group_stride + (spec.out_channels - 1) * spec.c.stride
        slices = (self.slices.size - 1) * self.slices.c_stride
        return (self.images.value - 1) * self.c_image + slices + last + channel

    @property
    def is_channels_last(self) -> bool:
        """Whether the channels of a position are side by side, group after group."""
        return _apart(self.contraction) is None

    @property
    def taps(self) -> int:
        """Taps of all phases together, in one slice."""
        return sum(phase.taps for phase in self.phases)


def direct_problem(
    contraction: Contraction, result: Result = "C", *, anywhere: bool = False
) -> DirectProblem | Refusal:
    """Read a contraction as images of rows and columns, or say why it is none.

    Args:
        contraction: what is computed.
        result: the operand that has to be computed.
        anywhere: whether channels may lie anywhere, not only side by side at a position, and
            windows may have slices.
    """
    if contraction.result != result or contraction.accumulate:
        return Refusal(f"it computes another operand than {result}, or adds to it")
    types = {contraction.a.type, contraction.b.type, contraction.c.type}
    if len(types) != 1 or contraction.a.type not in ELEMENT_TYPES:
        return Refusal("the operands are not all f16, bf16 or f32")
    apart = None if anywhere else _apart(contraction)
    if apart is not None:
        return apart
    axes = _joined(list(zip(*(phase.axes for phase in contraction.phases), strict=True)))
    none = tuple(Axis(1, 1, 1, (0,), (0,), 0, 0) for _ in contraction.phases)
    if len(axes) == 1 or (len(axes) == 2 and not _is_batch(axes[0])):
        axes.insert(0, none)
    if len(axes) == 2:
        axes.insert(1, none)
    slices = Slices()
    if len(axes) > MOST_AXES and anywhere:
        found = _slices(axes.pop(1))
        if isinstance(found, Refusal):
            return found
        slices = found
    if len(axes) != MOST_AXES or not _is_batch(axes[0]):
        return Refusal("it is not an image of rows and columns")
    batch, *windows = axes
    rows, cols = map(_shared, windows)
    if isinstance(rows, Refusal):
        return rows
    if isinstance(cols, Refusal):
        return cols
    image = next((axis for axis in batch if axis.tap_rows), batch[0])
    phases = tuple(
        DirectPhase(phase.out_offset, _taps(row, rows, _base(axis)), _taps(col, cols, 0))
        for phase, axis, row, col in zip(contraction.phases, batch, *windows, strict=True)
    )
    problem = DirectProblem(
        contraction,
        ELEMENT_TYPES[contraction.a.type],
        Scalar(image.size),
        image.row_stride,
        image.out_stride,
        rows,
        cols,
        tuple(sorted(phases, key=lambda phase: phase.offset)),
        slices=slices,
    )
    if problem.pixels > LARGEST_INDEX or problem.last_result > LARGEST_RESULT:
        return Refusal("there are more results than 32 bits count")
    return problem


def _apart(contraction: Contraction) -> Refusal | None:
    """Why the channels of a position are not side by side, group after group; None if they are."""
    if contraction.a.stride != 1 or contraction.c.stride != 1:
        return Refusal("channels are not innermost")
    groups_apart = contraction.groups > 1 and (
        contraction.a.group_stride != contraction.in_channels
        or contraction.c.group_stride != contraction.out_channels
    )
    return Refusal("groups are not contiguous in memory") if groups_apart else None


def _joined(axes: list[tuple[Axis, ...]]) -> list[tuple[Axis, ...]]:
    """The axes of a problem, neighbours without windows as one where there are more than three."""
    while len(axes) > MOST_AXES:
        joints = (i for i in range(len(axes) - 1) if _are_one(axes[i], axes[i + 1]))
        first = next(joints, None)
        if first is None:
            return axes
        both = zip(axes[first], axes[first + 1], strict=True)
        axes = [*axes[:first], tuple(_as_one(*pair) for pair in both), *axes[first + 2 :]]
    return axes


def _are_one(outer: tuple[Axis, ...], inner: tuple[Axis, ...]) -> bool:
    """Whether two axes are walked as one that holds the inner one again and again."""
    dense = all(
        around.out_stride == within.out_stride * within.size
        and (not around.tap_rows or around.row_stride == within.row_stride * within.extent)
        and (not within.tap_rows or within.extent == within.size)
        for around, within in zip(outer, inner, strict=True)
    )
    return dense and _is_batch(outer) and _is_batch(inner)


def _as_one(outer: Axis, inner: Axis) -> Axis:
    taps = outer.tap_rows and inner.tap_rows
    weights = (_base(outer) + _base(inner),) if taps else ()
    size, extent = outer.size * inner.size, outer.extent * inner.extent
    return Axis(size, extent, 1, taps, weights, inner.row_stride, inner.out_stride)


def _is_batch(axis: tuple[Axis, ...]) -> bool:
    """Whether all phases walk alike along this axis, with one tap that is always inside."""
    if len({(each.size, each.out_stride) for each in axis}) != 1:
        return False
    reading = [each for each in axis if each.tap_rows]
    return len({each.row_stride for each in reading}) <= 1 and all(
        each.tap_rows == (0,) and each.extent >= each.size and (each.step == 1 or each.size == 1)
        for each in reading
    )


def _shared(axis: tuple[Axis, ...]) -> WindowAxis | Refusal:
    """What the phases share along an axis; those without taps read nothing."""
    reading = [each for each in axis if each.tap_rows]
    if not reading:
        return WindowAxis(1, 1, 0, axis[0].out_stride, 0, 1)
    walks = {(each.extent, each.step, each.row_stride) for each in reading}
    if len(walks) != 1 or len({each.out_stride for each in axis}) != 1:
        return Refusal("phases step differently through their operands")
    first = reading[0]
    if first.step < 1 or first.out_stride < 0:
        return Refusal("rows run backwards")
    rows = [row for each in reading for row in each.tap_rows]
    window = max(rows) - min(rows) + 1
    return WindowAxis(
        first.extent, first.step, first.row_stride, first.out_stride, min(rows), window
    )


def _slices(axis: tuple[Axis, ...]) -> Slices | Refusal:
    """The slices that all phases walk through alike."""
    reading = {each for each in axis if each.tap_rows}
    first = axis[0]
    if len(reading) != 1 or len({(each.size, each.out_stride) for each in axis}) != 1:
        return Refusal("phases read different slices")
    (walk,) = reading
    rows, weights = _even(walk.tap_rows), _even(walk.tap_weights)
    if walk.step < 1 or first.out_stride < 0 or rows is None or weights is None:
        return Refusal("slices are not evenly spaced")
    strides = (walk.row_stride, walk.out_stride)
    taps = len(walk.tap_rows)
    return Slices(walk.size, walk.extent, walk.step, *strides, *rows, *weights, taps)


def _even(values: tuple[int, ...]) -> tuple[int, int] | None:
    """The first of some numbers and the step to the next, if that is always the same."""
    steps = {after - before for before, after in pairwise(values)}
    return (values[0], steps.pop() if steps else 0) if len(steps) <= 1 else None


def _base(batch: Axis) -> int:
    return batch.tap_weights[0] if batch.tap_weights else 0


def _taps(axis: Axis, shared: WindowAxis, base: int) -> Taps:
    pixels = tuple(row - shared.origin for row in axis.tap_rows)
    return Taps(axis.size, pixels, tuple(weight + base for weight in axis.tap_weights))


def flat_channels(contraction: Contraction) -> tuple[int, int] | Refusal:
    """Elements between channels of A, and of C, that are numbered over all groups."""
    found: list[int] = []
    counts = contraction.in_channels, contraction.out_channels
    for channels, count in zip((contraction.a, contraction.c), counts, strict=True):
        is_flat = contraction.groups == 1 or channels.group_stride == count * channels.stride
        if count > 1 and not is_flat:
            return Refusal("channels of a group are not where those of the next one go on")
        found.append(channels.group_stride if count == 1 else channels.stride)
    of_a, of_c = found
    return of_a, of_c
