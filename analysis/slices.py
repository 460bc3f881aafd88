"""Read-only views of `tensor.insert_slice`, `tensor.extract_slice` and `tensor.pad`.

The three ops relate a large tensor to a small one by an offset, a size and a stride per
dimension: element `i` of the small tensor's dimension is element `offset + stride * i` of the
large one's. A rank-reducing slice drops dimensions of size 1 from the small tensor.

Sizes are compared as symbols, so that `tensor.dim` of an argument, the dynamic size of the
`tensor.empty` below a fill, and the argument's own dimension are known to be one number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, NoneAttr, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import DenseArrayBase, IntegerType
    from xdsl.ir import Block, Operation

AnyTensor: TypeAlias = TensorType[Attribute]

_I64_BYTES: Final = 8
_MAX_PRODUCERS: Final = 64
"""Ops looked through for the size of a dimension: a chain of thousands must not cost its square."""


@dataclass(frozen=True)
class DimOf:
    """The size of dimension `dim` of `value`, known only at run time."""

    value: SSAValue
    dim: int


Mixed: TypeAlias = int | SSAValue
"""A static index, or the SSA value of type `index` that holds it."""

Size: TypeAlias = int | SSAValue | DimOf
"""The number of elements of one dimension; equal sizes compare equal where that is provable."""


@dataclass(frozen=True)
class SliceView:
    """One slice: which elements of the large tensor the small one is, or becomes.

    All tuples have one entry per dimension of the large tensor.
    """

    op: Operation
    kind: Literal["insert_slice", "extract_slice", "pad", "generic"]
    source: SSAValue
    """The tensor read: small for an insertion or a pad, large for an extraction."""
    dest: SSAValue | None
    """The large tensor written into; None for an extraction and a pad."""
    fill: SSAValue | None
    """The scalar that a pad writes around its source, if it is the same everywhere."""
    mixed_offsets: tuple[Mixed, ...]
    mixed_sizes: tuple[Size, ...]
    mixed_strides: tuple[Mixed, ...]
    dropped: frozenset[int]
    """Dimensions of the large tensor, of size 1 in the slice, that the small tensor lacks."""

    @property
    def result(self) -> SSAValue:
        """The tensor that the op defines."""
        return self.op.results[0]

    @property
    def large(self) -> SSAValue:
        """The tensor with gaps: an extraction's source, the other ops' result."""
        return self.source if self.kind == "extract_slice" else self.result

    @property
    def small(self) -> SSAValue:
        """The dense tensor: an extraction's result, the other ops' source."""
        return self.result if self.kind == "extract_slice" else self.source

    @property
    def rank(self) -> int:
        """The rank of the large tensor."""
        return len(self.mixed_offsets)

    @property
    def offsets(self) -> tuple[int | None, ...]:
        """The static offsets, None where dynamic."""
        return _static(self.mixed_offsets)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The static sizes, None where dynamic."""
        return _static(self.mixed_sizes)

    @property
    def strides(self) -> tuple[int | None, ...]:
        """The static strides, None where dynamic."""
        return _static(self.mixed_strides)

    @property
    def strided(self) -> bool:
        """True if some dimension has a stride other than 1."""
        return any(stride != 1 for stride in self.mixed_strides)

    def covers(self, dim: int) -> bool:
        """True if the slice provably is the whole of the large tensor's dimension `dim`."""
        return (
            self.mixed_offsets[dim] == 0
            and self.mixed_strides[dim] == 1
            and self.mixed_sizes[dim] == size_of(self.large, dim)
        )

    def small_dim(self, dim: int) -> int | None:
        """The small tensor's dimension for `dim` of the large one; None if it was dropped."""
        if dim in self.dropped:
            return None
        return dim - sum(other < dim for other in self.dropped)


def slice_view(op: Operation | None) -> SliceView | None:
    """The view of `op`.

    None if it is not a slice or pad of ranked tensors, if a pad crops (a negative amount), or if
    its ranks, bounds or strides contradict each other.
    """
    match op:
        case tensor.InsertSliceOp():
            view = _of_slice(op, "insert_slice", op.source, op.dest)
        case tensor.ExtractSliceOp():
            view = _of_slice(op, "extract_slice", op.source, None)
        case tensor.PadOp():
            view = _of_pad(op)
        case _:
            return None
    return view if view is not None and _in_bounds(view) else None


def size_of(value: SSAValue, dim: int) -> Size:
    """The size of dimension `dim` of the tensor `value`, as a canonical symbol."""
    for _ in range(_MAX_PRODUCERS):
        static = _static_size(value, dim)
        if static is not None:
            return static
        if not isinstance(value, OpResult):
            break
        match value.op:
            case tensor.InsertSliceOp(dest=dest) | tensor.InsertOp(dest=dest):
                value = dest
            case LinalgStructuredOperation() as structured:
                value = structured.outputs[value.index]
            case tensor.CastOp(source=source) if isinstance(source.type, TensorType):
                value = source
            case tensor.PadOp(source=source) as pad if _is_unpadded(pad, dim):
                value = source
            case _:
                made = _made_size(value, dim)
                if not isinstance(made, SSAValue):
                    return made
                measured = _measured(made)
                if not isinstance(measured, DimOf):
                    return measured
                value, dim = measured.value, measured.dim
    return DimOf(value, dim)


def ranked(value: SSAValue) -> AnyTensor:
    """The type of a ranked tensor.

    Raises:
        TypeError: `value` is none.
    """
    value_type = value.type
    if not isinstance(value_type, TensorType):
        raise TypeError(f"{value} is not a ranked tensor")
    return cast("AnyTensor", value_type)


def sizes_of(value: SSAValue) -> tuple[Size, ...]:
    """The sizes of a tensor's dimensions, as canonical symbols."""
    return tuple(size_of(value, dim) for dim in range(len(ranked(value).get_shape())))


def _static_size(value: SSAValue, dim: int) -> int | None:
    value_type = value.type
    if not isinstance(value_type, TensorType):
        return None
    size = value_type.get_shape()[dim]
    return None if size == DYNAMIC_INDEX else size


def _made_size(value: OpResult, dim: int) -> Size:
    """The size that the op defining `value` gives its dynamic dimension `dim`: what it is given."""
    match value.op:
        case tensor.EmptyOp(dynamic_sizes=sizes):
            return sizes[_dynamic_position(value, dim)]
        case tensor.SplatOp(dynamicSizes=sizes):
            return sizes[_dynamic_position(value, dim)]
        case tensor.ExpandShapeOp(dynamic_output_shape=sizes):
            return sizes[_dynamic_position(value, dim)]
        case tensor.ExtractSliceOp():
            return _size_of_slice(value.op, value, dim)
        case _:
            return DimOf(value, dim)


def _measured(value: SSAValue) -> Size:
    """What the `index` value is, one op up: a constant, the size of a dimension, or itself."""
    if not isinstance(value, OpResult):
        return value
    match value.op:
        case arith.ConstantOp(value=IntegerAttr() as constant):
            return constant.value.data
        case tensor.DimOp(source=source, index=OpResult(op=arith.ConstantOp(value=index))):
            ranked = source.type
            rank = len(ranked.get_shape()) if isinstance(ranked, TensorType) else 0
            dim = index.value.data if isinstance(index, IntegerAttr) else -1
            return DimOf(source, dim) if 0 <= dim < rank else value
        case _:
            return value


def is_encoded(value: SSAValue) -> bool:
    """True if the tensor `value` has an encoding, which says nothing of tensors of other shapes."""
    value_type = value.type
    return isinstance(value_type, TensorType) and not isinstance(value_type.encoding, NoneAttr)


def index_of(value: SSAValue) -> Size:
    """What the `index` value is: a constant, the size of a tensor's dimension, or itself."""
    measured = _measured(value)
    return size_of(measured.value, measured.dim) if isinstance(measured, DimOf) else measured


def dropped_dims(full: Sequence[int], reduced: Sequence[int]) -> frozenset[int] | None:
    """Which dimensions of `full`, all of size 1, are missing in `reduced`; None if others are."""
    dropped: set[int] = set()
    position = 0
    for dim, size in enumerate(full):
        if position < len(reduced) and reduced[position] == size:
            position += 1
        elif size == 1:
            dropped.add(dim)
        else:
            return None
    return frozenset(dropped) if position == len(reduced) else None


def _size_of_slice(op: tensor.ExtractSliceOp, value: SSAValue, dim: int) -> Size:
    """The size that `op` gives dimension `dim` of its result `value`."""
    static = numbers(op.static_sizes)
    dropped = dropped_dims(static, op.result.type.get_shape())
    if dropped is None:
        return DimOf(value, dim)
    large = [number for number in range(len(static)) if number not in dropped][dim]
    if static[large] != DYNAMIC_INDEX:
        return static[large]
    return op.sizes[static[:large].count(DYNAMIC_INDEX)]


def _is_unpadded(pad: tensor.PadOp, dim: int) -> bool:
    return pad.static_low.get_values()[dim] == 0 and pad.static_high.get_values()[dim] == 0


def _dynamic_position(value: SSAValue, dim: int) -> int:
    """The position of dynamic dimension `dim` among the dynamic ones of `value`."""
    value_type = value.type
    assert isinstance(value_type, TensorType)
    return sum(size == DYNAMIC_INDEX for size in value_type.get_shape()[:dim])


def _of_slice(
    op: tensor.InsertSliceOp | tensor.ExtractSliceOp,
    kind: Literal["insert_slice", "extract_slice"],
    source: SSAValue,
    dest: SSAValue | None,
) -> SliceView | None:
    small_type = op.result.type if dest is None else source.type
    large_type = source.type if dest is None else dest.type
    if not isinstance(small_type, TensorType) or not isinstance(large_type, TensorType):
        return None
    static_sizes = numbers(op.static_sizes)
    static_offsets = numbers(op.static_offsets)
    static_strides = numbers(op.static_strides)
    rank = large_type.get_num_dims()
    if {len(static_sizes), len(static_offsets), len(static_strides)} != {rank}:
        return None
    dropped = dropped_dims(static_sizes, small_type.get_shape())
    if dropped is None:
        return None
    return SliceView(
        op=op,
        kind=kind,
        source=source,
        dest=dest,
        fill=None,
        # Reading a group of operands costs more than the rest of the view.
        mixed_offsets=_mixed_index(static_offsets, op.offsets)
        if DYNAMIC_INDEX in static_offsets
        else static_offsets,
        mixed_sizes=_mixed(static_sizes, op.sizes)
        if DYNAMIC_INDEX in static_sizes
        else static_sizes,
        mixed_strides=_mixed_index(static_strides, op.strides)
        if DYNAMIC_INDEX in static_strides
        else static_strides,
        dropped=dropped,
    )


def numbers(attr: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The entries of an array of i64, read at once: `get_values` takes a microsecond for each."""
    data = attr.data.data
    return struct.unpack(f"<{len(data) // _I64_BYTES}q", data)


def _of_pad(op: tensor.PadOp) -> SliceView | None:
    source_type = op.source.type
    if not isinstance(source_type, TensorType):
        return None
    low = _mixed_index(numbers(op.static_low), op.low)
    high = _mixed_index(numbers(op.static_high), op.high)
    if any(isinstance(amount, int) and amount < 0 for amount in (*low, *high)):
        return None
    rank = len(source_type.get_shape())
    return SliceView(
        op=op,
        kind="pad",
        source=op.source,
        dest=None,
        fill=_uniform_yield(op.region.block),
        mixed_offsets=low,
        mixed_sizes=sizes_of(op.source),
        mixed_strides=(1,) * rank,
        dropped=frozenset(),
    )


def _uniform_yield(block: Block) -> SSAValue | None:
    """The scalar a pad region yields if it is defined outside it or is a constant inside it."""
    if block.last_op is None or len(block.last_op.operands) != 1:
        return None
    scalar = block.last_op.operands[0]
    if isinstance(scalar, BlockArgument):
        return None if scalar.block is block else scalar
    if not isinstance(scalar, OpResult):
        return None
    outside = scalar.op.parent is not block
    return scalar if outside or isinstance(scalar.op, arith.ConstantOp) else None


def _mixed(static: Sequence[int], dynamic: Sequence[SSAValue]) -> tuple[Size, ...]:
    values = iter(dynamic)
    return tuple(index_of(next(values)) if number == DYNAMIC_INDEX else number for number in static)


def _mixed_index(static: Sequence[int], dynamic: Sequence[SSAValue]) -> tuple[Mixed, ...]:
    """As `_mixed`, keeping the SSA value where it is not a constant."""
    values = iter(dynamic)
    return tuple(
        _constant_or_self(next(values)) if number == DYNAMIC_INDEX else number for number in static
    )


def _constant_or_self(value: SSAValue) -> Mixed:
    index = index_of(value)
    return index if isinstance(index, int) else value


def _static(mixed: Sequence[Size]) -> tuple[int | None, ...]:
    return tuple(entry if isinstance(entry, int) else None for entry in mixed)


def _in_bounds(view: SliceView) -> bool:
    large_type = view.large.type
    assert isinstance(large_type, TensorType)
    for extent, offset, size, stride in zip(
        large_type.get_shape(),
        view.mixed_offsets,
        view.mixed_sizes,
        view.mixed_strides,
        strict=True,
    ):
        if isinstance(stride, int) and stride < 1:
            return False
        if isinstance(offset, int) and offset < 0:
            return False
        if not isinstance(size, int) or size == 0:
            continue
        if size < 0:
            return False
        if extent == DYNAMIC_INDEX or not (isinstance(offset, int) and isinstance(stride, int)):
            continue
        if offset + stride * (size - 1) >= extent:
            return False
    return True
