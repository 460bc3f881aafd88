"""`tensor.extract_slice` and `tensor.insert_slice`: ranks, sizes and bounds.

Stricter than MLIR in one point: strides are positive. MLIR lets a static stride of zero or less
by, and no transformation of either project gives it a meaning. Laxer in another: a slice without
elements may have any offset, since convolutions over empty dimensions make such slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.dialects.compat.types import AnyTensor


def check_extract_slice(op: Operation) -> None:
    """The slice lies in the source, and the result is the slice, unit dimensions dropped or not."""
    slice_op = cast("tensor.ExtractSliceOp", op)
    _check_slice(slice_op, slice_op.source, slice_op.result)


def check_insert_slice(op: Operation) -> None:
    """The slice lies in the destination, and the source is the slice, perhaps of lower rank."""
    slice_op = cast("tensor.InsertSliceOp", op)
    _check_slice(slice_op, slice_op.dest, slice_op.source)


def _check_slice(
    op: tensor.ExtractSliceOp | tensor.InsertSliceOp, whole_value: SSAValue, part_value: SSAValue
) -> None:
    whole, part = cast("AnyTensor", whole_value.type), cast("AnyTensor", part_value.type)
    shape = whole.get_shape()
    offsets = op.static_offsets.get_values()
    sizes = op.static_sizes.get_values()
    strides = op.static_strides.get_values()
    for name, values in (("offset", offsets), ("size", sizes), ("stride", strides)):
        if len(values) != len(shape):
            raise VerifyException(f"expected {len(shape)} {name} values, got {len(values)}")
    for dim, bounds in enumerate(zip(shape, offsets, sizes, strides, strict=True)):
        _check_dimension(dim, *bounds)
    if whole.get_element_type() != part.get_element_type():
        raise VerifyException(f"expected element type to be {whole.get_element_type()}")
    _check_rank_reduced(sizes, part)


def _check_dimension(dim: int, extent: int, offset: int, size: int, stride: int) -> None:
    if offset < 0 and offset != DYNAMIC_INDEX:
        raise VerifyException(f"expected offsets to be non-negative, but got {offset}")
    if size < 0 and size != DYNAMIC_INDEX:
        raise VerifyException(f"expected sizes to be non-negative, but got {size}")
    if stride < 1 and stride != DYNAMIC_INDEX:
        raise VerifyException(f"expected strides to be positive, but got {stride}")
    if size == 0 or DYNAMIC_INDEX in (extent, offset):
        return
    if offset >= extent:
        raise VerifyException(f"offset {dim} is out-of-bounds: {offset} >= {extent}")
    if DYNAMIC_INDEX in (size, stride):
        return
    last = offset + (size - 1) * stride
    if last >= extent:
        raise VerifyException(f"slice along dimension {dim} runs out-of-bounds: {last} >= {extent}")


def _check_rank_reduced(sizes: Sequence[int], part: AnyTensor) -> None:
    """The shape of `part` is `sizes` with some of the unit dimensions left out."""
    shape = part.get_shape()
    if len(shape) > len(sizes):
        raise VerifyException(
            f"expected {part} to be of rank {len(sizes)} or lower, as the slice is"
        )
    kept = 0
    for size in sizes:
        if kept < len(shape) and shape[kept] == size:
            kept += 1
        elif size != 1:
            break
    else:
        if kept == len(shape):
            return
    slice_type = TensorType(part.get_element_type(), sizes)
    raise VerifyException(
        f"expected type to be {slice_type} or a rank-reduced version, but got {part}"
    )


SLICE_CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {
    tensor.ExtractSliceOp: check_extract_slice,
    tensor.InsertSliceOp: check_insert_slice,
}
"""Checks by op class."""
