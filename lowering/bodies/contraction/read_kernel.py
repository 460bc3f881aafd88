"""A kernel's tensor body, read as one `Contraction` on its arguments.

The body is one contraction, or several whose results are inserted side by side into zeros: the
phases of a strided backward data convolution. Zero padding of the rows, and slices and
rearrangements of either operand, are part of the kernel: offsets, strides, and bounds of the row
tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import BlockArgument, Operation

from convir.analysis.contraction import ContractionDims, contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.slices import slice_view
from convir.analysis.values.zeros import is_zero
from convir.lowering.bodies.contraction.operand_types import product_types
from convir.lowering.bodies.contraction.spec import (
    Axis,
    Channels,
    Contraction,
    Phase,
    Weights,
)
from convir.lowering.bodies.operand_access import access_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xdsl.ir import SSAValue

    from convir.analysis.linear import LinearIndex
    from convir.analysis.slices import SliceView
    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.contraction.reading_cost import Lanes
    from convir.lowering.bodies.contraction.spec import ComputeType, Result, StorageType
    from convir.lowering.bodies.operand_access import Access

_BYTE = 0xFF

MAX_TAPS = 1 << 16
"""Of one axis: more are the output pixels of an image that is taken for a filter."""

MOST_LOST = 12
"""Least vector lanes per empty lane of vectors along columns; with fewer, transposing is faster."""


@dataclass(frozen=True)
class ContractionCall:
    """A kernel as one contraction: which argument is which of its two operands."""

    spec: Contraction
    a: int
    other: int
    """The argument that is B where C is computed, and C where B is."""
    init: int | None
    """The argument that the products are added to; None if they are added to zero."""

    def has_constant_weights(self, constants: Collection[int]) -> bool:
        """Whether B is read, and is one of the arguments `constants`: it is prepared once."""
        return self.spec.result == "C" and self.other in constants


@dataclass(frozen=True)
class _Piece:
    """One contraction, and where its result goes: offset and stride per dimension."""

    dims: ContractionDims
    offsets: tuple[int, ...]
    strides: tuple[int, ...]


def _unreadable_sizes(callee: kernel.FuncOp) -> Refusal | None:
    """Why no contraction is read of a kernel that has empty tensors, or sizes that are open."""
    values = [*callee.body.block.args, *(r for op in callee.body.block.ops for r in op.results)]
    sizes = {n for v in values if isinstance(v.type, TensorType) for n in shape_of(v)}
    if DYNAMIC_INDEX in sizes:
        return Refusal("a tensor has a size that is not bound")
    return Refusal("a tensor has no elements") if 0 in sizes else None


def contraction_readings(
    callee: kernel.FuncOp, *, shared_by: Lanes | None = None
) -> list[ContractionCall] | Refusal:
    """All ways in which the body of `callee` can be read, or why it is not a contraction.

    Args:
        callee: the kernel.
        shared_by: what multiplies, if groups may read the same rows, those of one matrix that is
            multiplied with many, or rows that lie apart, and where B is computed C may be a slice
            of its argument.
    """
    returned = callee.body.block.last_op
    assert returned is not None
    if len(returned.operands) != 1:
        return Refusal("it has several results")
    sizes = _unreadable_sizes(callee)
    if sizes is not None:
        return sizes
    result = returned.operands[0]
    pieces = _pieces(result)
    if isinstance(pieces, Refusal):
        return pieces
    calls: list[ContractionCall] = []
    reasons: list[str] = []
    for rows, computed in product((0, 1), _RESULTS):
        call = _read_pieces(pieces, result, rows, computed, shared_by)
        if isinstance(call, ContractionCall):
            calls.append(call)
        else:
            reasons.append(call.reason)
    return calls or Refusal(" and ".join(dict.fromkeys(reasons)))


def _read_pieces(
    pieces: list[_Piece], result: SSAValue, rows: int, computed: Result, unit: Lanes | None
) -> ContractionCall | Refusal:
    """Read all pieces with their input number `rows` as A, as one contraction."""
    shape = shape_of(result)
    readings = [_read_piece(piece, shape, rows, computed, unit) for piece in pieces]
    for reading in readings:
        if isinstance(reading, Refusal):
            return reading
    first, *others = cast("list[ContractionCall]", readings)
    if len(pieces) == 1 and not any(s != 1 for s in pieces[0].strides):
        return first if _fills(pieces[0], result) else Refusal("its result is only partly computed")
    if any(_except_phases(other) != _except_phases(first) for other in others):
        return Refusal("its phases differ in more than their taps")
    zero_fills = _zero_fills(pieces, result, first.spec.phases[0])
    if isinstance(zero_fills, Refusal):
        return zero_fills
    if first.init is not None:
        return Refusal("its phases are added to an argument")
    phases = [phase for reading in (first, *others) for phase in reading.spec.phases]
    ordered = sorted([*phases, *zero_fills], key=lambda phase: -phase.taps)
    return replace(first, spec=replace(first.spec, phases=tuple(ordered)))


def _except_phases(call: ContractionCall) -> ContractionCall:
    return replace(call, spec=replace(call.spec, phases=(Phase((Axis.batch(1, 0, 0),)),)))


def _pieces(result: SSAValue) -> list[_Piece] | Refusal:
    """The contractions whose results make up `result`."""
    owner = result.owner
    if not isinstance(owner, Operation):
        return Refusal("it computes nothing")
    view = slice_view(owner)
    if view is None:
        dims = contraction_dims(owner)
        rank = len(shape_of(result))
        return dims if isinstance(dims, Refusal) else [_Piece(dims, (0,) * rank, (1,) * rank)]
    if view.kind != "insert_slice" or view.dest is None or view.dropped:
        return Refusal(f"it stores through {owner.name}")
    placement = _static_slice(view)
    dims = contraction_dims(view.source.owner if isinstance(view.source.owner, Operation) else None)
    if placement is None or isinstance(dims, Refusal):
        return Refusal("it inserts what is not a contraction")
    piece = _Piece(dims, *placement)
    if is_zero(view.dest) or getattr(view.dest.owner, "name", None) == "tensor.empty":
        return [piece]
    below = _pieces(view.dest)
    return below if isinstance(below, Refusal) else [*below, piece]


def _static_slice(view: SliceView) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if None in (*view.offsets, *view.strides):
        return None
    return cast("tuple[int, ...]", view.offsets), cast("tuple[int, ...]", view.strides)


def _fills(piece: _Piece, result: SSAValue) -> bool:
    return not any(piece.offsets) and piece.dims.out.shape == shape_of(result)


def _read_piece(
    piece: _Piece, out_shape: tuple[int, ...], rows: int, result: Result, unit: Lanes | None
) -> ContractionCall | Refusal:
    """Read one contraction with its input number `rows` as A, computing `result`."""
    dims = piece.dims
    types = product_types(dims)
    if isinstance(types, Refusal):
        return types
    access = [access_of(operand.value, operand.index) for operand in dims.inputs]
    for found in access:
        if isinstance(found, Refusal):
            return found
    a_access, other_access = (cast("Access", access[i]) for i in (rows, 1 - rows))
    init = _init(dims)
    if isinstance(init, Refusal):
        return init
    if other_access.padded:
        return Refusal("both of its inputs are padded")
    a, other = (_Tensor(x.index, shape_of(x.root), x.padded) for x in (a_access, other_access))
    placed = zip(dims.out.index, piece.strides, piece.offsets, strict=True)
    out = _Tensor(tuple(form.affine(s, o) for form, s, o in placed), out_shape)
    if a_access.fill and types.element != "i32":
        return Refusal("it pads with another value than zero")
    if types.element == "i32" and (result == "B" or (types.unsigned != rows)):
        return Refusal("its image is the signed operand" if result == "C" else "it sums integers")
    b, c = (other, out) if result == "C" else (out, other)
    reader = _Reader(dims, a, b, c, unit if result == "C" else None)
    if result == "B" and (any(piece.offsets) or set(piece.strides) != {1}):
        return Refusal("its result is stored with gaps")
    if result == "B" and other.base and not unit:
        return Refusal("its gradients are a slice")
    stored: dict[str, StorageType] = {"A": types.inputs[rows], result: types.element}
    stored["B" if result == "C" else "C"] = types.inputs[1 - rows]
    spec = reader.spec(types.element, stored, result, accumulate=init is not None)
    if isinstance(spec, Refusal):
        return spec
    spec = replace(spec, fill=a_access.fill & _BYTE)
    return ContractionCall(spec, a_access.root.index, other_access.root.index, init)


_RESULTS: tuple[Result, Result] = ("C", "B")


@dataclass(frozen=True)
class _Tensor:
    """One operand of the contraction: its index, and where it lies in a dense buffer."""

    index: tuple[LinearIndex, ...]
    """Per dimension of the buffer, over the loops of the contraction."""
    shape: tuple[int, ...]
    """Of the buffer."""
    padded: bool = False

    @property
    def loops(self) -> frozenset[int]:
        return frozenset(loop for linear in self.index for loop in linear.loops)

    @property
    def dense(self) -> tuple[int, ...]:
        """Elements of the buffer between two neighbours along each dimension."""
        return _dense(self.shape)

    @property
    def steps(self) -> dict[int, int]:
        """Elements of the buffer between two iterations of each loop."""
        steps: dict[int, int] = {}
        for linear, step in zip(self.index, self.dense, strict=True):
            for loop, coefficient in linear.terms:
                steps[loop] = steps.get(loop, 0) + coefficient * step
        return steps

    @property
    def base(self) -> int:
        """Elements of the buffer before the first one that is touched."""
        return sum(
            linear.constant * step for linear, step in zip(self.index, self.dense, strict=True)
        )


@dataclass(frozen=True)
class _Reader:
    """Reads a contraction as rows of A times B into C, whichever of B and C is computed."""

    dims: ContractionDims
    a: _Tensor
    b: _Tensor
    c: _Tensor
    shared_by: Lanes | None
    """What multiplies, if groups may read the same rows."""

    def spec(
        self,
        element: ComputeType,
        stored: dict[str, StorageType],
        result: Result,
        *,
        accumulate: bool,
    ) -> Contraction | Refusal:
        in_a, in_b, in_c = self.a.loops, self.b.loops, self.c.loops
        shared = (in_a & in_b) | (in_a & in_c) | (in_b & in_c)
        if any(
            loop not in shared for loop in range(len(self.dims.bounds)) if self._bound(loop) != 1
        ):
            return Refusal("a loop indexes only one of its tensors")
        rows = (in_a & in_c) - in_b
        moving = {i: rows & set(linear.loops) for i, linear in enumerate(self.a.index)}
        taps = {
            loop
            for i, linear in enumerate(self.a.index)
            for loop in linear.loops
            if moving[i] and loop not in rows
        }
        if not taps <= (in_a & in_b) - in_c:
            return Refusal(
                "a dimension of its image is indexed by more than one pixel and one filter tap"
            )
        in_channels = self._joined((in_a & in_b) - in_c - taps, self.a, self.b)
        out_channels = self._joined((in_b & in_c) - in_a, self.c, self.b)
        groups = self._joined(in_a & in_b & in_c, self.a, self.b, self.c)
        if out_channels is None and groups is not None and groups[0] == 1 and self.shared_by:
            lanes = self.shared_by.lanes(element)
            out_channels, groups = self._columns_of_groups((in_b & in_c) - in_a, lanes)
        if in_channels is None or out_channels is None or groups is None:
            return Refusal(
                "its loops do not collapse to an input channel, an output channel and a group loop"
            )
        a = Channels(stored["A"], in_channels[1] or groups[1] or 1, groups[1])
        c = Channels(stored["C"], out_channels[1] or groups[3] or 1, groups[3])
        behind = (in_channels[0] * a.stride, out_channels[0] * c.stride)
        # The host's kernels go to where each group begins; only copies need them in one piece.
        in_place = a.type == element and a.stride == c.stride == 1
        together = not groups[1] or (a.group_stride, c.group_stride) == behind
        if groups[0] > 1 and not together and not (in_place and self.shared_by):
            return Refusal("the channels of its groups are not consecutive")
        axes = self._axes(rows)
        if isinstance(axes, Refusal):
            return axes
        return Contraction(
            element=element,
            phases=(Phase(tuple(axes), self.c.base),),
            in_channels=in_channels[0],
            out_channels=out_channels[0],
            a=a,
            b=Weights(stored["B"], in_channels[2], out_channels[2], groups[2]),
            c=c,
            groups=groups[0],
            result=result,
            accumulate=accumulate,
        )

    def _columns_of_groups(
        self, loops: Collection[int], lanes: int
    ) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Loops of B and C as the columns of one product, and as products of the same rows.

        As many are columns as lie behind each other in both. None for both if there are none, or if
        the last vector of them, which every group has, leaves too many lanes empty.
        """
        steps = self.c.steps
        longer = sorted((loop for loop in loops if self._bound(loop) != 1), key=steps.__getitem__)
        for count in range(len(longer) - 1, 0, -1):
            out_channels = self._joined(longer[:count], self.c, self.b)
            groups = self._joined(longer[count:], self.b, self.c)
            if out_channels is None or groups is None or out_channels[1:] != (1, 1):
                continue
            padded = -(-out_channels[0] // lanes) * lanes
            if (padded - out_channels[0]) * MOST_LOST <= padded:
                return out_channels, (groups[0], 0, *groups[1:])
        return None, None

    def _bound(self, loop: int) -> int:
        return cast("int", self.dims.bounds[loop])

    def _joined(self, loops: Iterable[int], *tensors: _Tensor) -> tuple[int, ...] | None:
        """Loops in lockstep as one: its length, and its step through each tensor."""
        steps = [tensor.steps for tensor in tensors]
        longer = [loop for loop in loops if self._bound(loop) != 1]
        if not longer:
            return (1, *(0 for _ in steps))
        longer.sort(key=lambda loop: steps[0].get(loop, 0))
        size, joined = 1, [step.get(longer[0], 0) for step in steps]
        for loop in longer:
            if [step.get(loop, 0) for step in steps] != [step * size for step in joined]:
                return None
            size *= self._bound(loop)
        return (size, *joined)

    def _axes(self, rows: frozenset[int]) -> list[Axis] | Refusal:
        """One axis per dimension of A that a loop of C moves along, slowest in C first."""
        a, b_steps, c_steps = self.a, self.b.steps, self.c.steps
        axes: list[Axis] = []
        for dim, linear in enumerate(a.index):
            pixels = [loop for loop in linear.loops if loop in rows]
            taps = [loop for loop in linear.loops if loop not in rows]
            first = linear.constant
            if not pixels:
                if first or (a.padded and self._leaves(dim)):
                    return Refusal("its image has an offset in a dimension without an output loop")
                continue
            if len(pixels) > 1 or len(taps) > 1:
                return Refusal(
                    "a dimension of its image is indexed by more than one pixel and one filter tap"
                )
            tap = taps[0] if taps else None
            if tap is not None and self._bound(tap) > MAX_TAPS:
                return Refusal(f"it slides over more than {MAX_TAPS} taps of an axis")
            step = 0 if tap is None else linear.coefficient(tap)
            numbers = range(1 if tap is None else self._bound(tap))
            axes.append(
                Axis(
                    size=self._bound(pixels[0]),
                    extent=a.shape[dim],
                    step=linear.coefficient(pixels[0]),
                    tap_rows=tuple(first + step * number for number in numbers),
                    tap_weights=tuple(
                        0 if tap is None else number * b_steps.get(tap, 0) for number in numbers
                    ),
                    row_stride=a.dense[dim],
                    out_stride=c_steps[pixels[0]],
                )
            )
        if not axes:
            return Refusal("no loop indexes pixels of both its image and its result")
        slowest, *others = sorted(axes, key=lambda axis: -axis.out_stride)
        base = self.b.base
        shifted = tuple(base + weight for weight in slowest.tap_weights)
        return [replace(slowest, tap_weights=shifted), *others]

    def _leaves(self, dim: int) -> bool:
        """Whether the loops reach past the end of dimension `dim` of A."""
        last = self.a.index[dim].maximum(self.dims.bounds)
        return last is None or last >= self.a.shape[dim]


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _init(dims: ContractionDims) -> int | Refusal | None:
    init = dims.out.value
    if is_zero(init):
        return None
    if isinstance(init, BlockArgument):
        return init.index
    return Refusal("its init is neither zero nor an argument")


def _zero_fills(pieces: list[_Piece], result: SSAValue, like: Phase) -> list[Phase] | Refusal:
    """The parts of the result that no piece writes, as phases without taps."""
    shape, strides = shape_of(result), pieces[0].strides
    if any(piece.strides != strides for piece in pieces):
        return Refusal("its phases have different strides")
    written = {piece.offsets: piece.dims.out.shape for piece in pieces}
    if len(written) != len(pieces):
        return Refusal("two phases write the same elements")
    axis_dims = _axis_dims(like, pieces[0], _dense(shape))
    if any(strides[dim] != 1 for dim in set(range(len(shape))) - set(axis_dims)):
        return Refusal("its output channels are scattered")
    zero_fills: list[Phase] = []
    for starts in product(*(range(min(s, n)) for s, n in zip(strides, shape, strict=True))):
        sizes = tuple(-(-(n - o) // s) for n, o, s in zip(shape, starts, strides, strict=True))
        found = written.pop(starts, None)
        if found is not None and found != sizes:
            return Refusal("a phase writes only part of its residue")
        if found is None:
            offset = sum(start * step for start, step in zip(starts, _dense(shape), strict=True))
            zero_fills.append(_zero_fill(like, [sizes[dim] for dim in axis_dims], offset))
    return Refusal("a phase begins past its stride") if written else zero_fills


def _axis_dims(phase: Phase, piece: _Piece, dense: tuple[int, ...]) -> list[int]:
    """The dimension of the result that each axis of a piece's phase runs along."""
    steps = [stride * step for stride, step in zip(piece.strides, dense, strict=True)]
    free = list(range(len(dense)))
    found: list[int] = []
    for axis in phase.axes:
        wanted = (axis.out_stride, axis.size)
        dim = next(d for d in free if (steps[d], piece.dims.out.shape[d]) == wanted)
        free.remove(dim)
        found.append(dim)
    return found


def _zero_fill(like: Phase, sizes: list[int], offset: int) -> Phase:
    """Zeros at every element of a residue, whose axes are those of a phase."""
    axes = [
        Axis(size, 1, 0, (), (), 0, axis.out_stride)
        for size, axis in zip(sizes, like.axes, strict=True)
    ]
    return Phase(tuple(axes), offset)
