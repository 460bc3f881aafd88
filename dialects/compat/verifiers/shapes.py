"""The shapes of tensor ops: reshapes, pads, element accesses, and counts of dynamic sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
    from xdsl.ir import Operation, SSAValue

    from convir.dialects.compat.types import AnyTensor


def _ranked(value: SSAValue) -> AnyTensor:
    return cast("AnyTensor", value.type)  # the op's definition says so


def _check_reassociation(
    collapsed: AnyTensor,
    expanded: AnyTensor,
    reassociation: ArrayAttr[ArrayAttr[IntegerAttr]],
) -> None:
    """The groups cover the expanded dimensions in order, and multiply to the collapsed ones."""
    if collapsed.get_element_type() != expanded.get_element_type():
        raise VerifyException(
            f"element types differ: {collapsed.get_element_type()} "
            f"and {expanded.get_element_type()}"
        )
    groups = [[index.value.data for index in group.data] for group in reassociation.data]
    shape, expanded_shape = collapsed.get_shape(), expanded.get_shape()
    if not shape and not groups:
        if any(size != 1 for size in expanded_shape):
            raise VerifyException(
                f"number of elements must be preserved: 1 and {list(expanded_shape)}"
            )
        return
    if len(groups) != len(shape):
        raise VerifyException(
            f"expected collapsed rank ({len(shape)}) to equal the number of "
            f"reassociation groups ({len(groups)})"
        )
    if [] in groups:
        raise VerifyException("reassociation groups must not be empty")
    if [index for group in groups for index in group] != list(range(len(expanded_shape))):
        raise VerifyException(
            f"expected reassociation groups to list the dimensions 0 to "
            f"{len(expanded_shape) - 1} in order"
        )
    for dim, group in enumerate(groups):
        sizes = [expanded_shape[index] for index in group]
        size = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else math.prod(sizes)
        if shape[dim] != size:
            expected = "dynamic" if size == DYNAMIC_INDEX else f"{size}"
            raise VerifyException(f"expected dimension {dim} of collapsed type to be {expected}")


def check_collapse_shape(op: Operation) -> None:
    """Each dimension of the result is the product of its group."""
    collapse = cast("tensor.CollapseShapeOp", op)
    _check_reassociation(_ranked(collapse.result), _ranked(collapse.src), collapse.reassociation)


def check_expand_shape(op: Operation) -> None:
    """Each dimension of the source is the product of its group, and the shape the result has."""
    expand = cast("tensor.ExpandShapeOp", op)
    result = _ranked(expand.result)
    _check_reassociation(_ranked(expand.src), result, expand.reassociation)
    if expand.static_output_shape.get_values() != result.get_shape():
        raise VerifyException("output shape is not that of the result type")
    _check_dynamic_count(expand.dynamic_output_shape, result)


def _check_dynamic_count(sizes: Sequence[SSAValue], result: AnyTensor) -> None:
    expected = result.get_shape().count(DYNAMIC_INDEX)
    if len(sizes) != expected:
        raise VerifyException(
            f"incorrect number of dynamic sizes, has {len(sizes)}, expected {expected}"
        )


def check_empty(op: Operation) -> None:
    """One size for each dynamic dimension."""
    empty = cast("tensor.EmptyOp", op)
    _check_dynamic_count(empty.dynamic_sizes, _ranked(empty.tensor))


def check_extract(op: Operation) -> None:
    """One index for each dimension."""
    extract = cast("tensor.ExtractOp", op)
    _check_indices(extract.indices, extract.tensor)


def check_insert(op: Operation) -> None:
    """One index for each dimension."""
    insert = cast("tensor.InsertOp", op)
    _check_indices(insert.indices, insert.dest)


def _check_indices(indices: Sequence[SSAValue], accessed: SSAValue) -> None:
    rank = len(_ranked(accessed).get_shape())
    if len(indices) != rank:
        raise VerifyException(f"expected {rank} indices, got {len(indices)}")


def check_from_elements(op: Operation) -> None:
    """As many elements as the static result has."""
    from_elements = cast("tensor.FromElementsOp", op)
    shape = _ranked(from_elements.result).get_shape()
    if DYNAMIC_INDEX in shape or math.prod(shape) != len(from_elements.elements):
        raise VerifyException(
            f"{len(from_elements.elements)} elements do not make a {from_elements.result.type}"
        )


def check_reshape(op: Operation) -> None:
    """The shape operand has one entry per dimension; static sizes keep the number of elements."""
    reshape = cast("tensor.ReshapeOp", op)
    source, result = _ranked(reshape.source), _ranked(reshape.result)
    if source.get_element_type() != result.get_element_type():
        raise VerifyException("element types of source and result should be the same")
    lengths = _ranked(reshape.shape).get_shape()
    if lengths != (len(result.get_shape()),):
        raise VerifyException("length of shape operand differs from the result's tensor rank")
    shapes = (source.get_shape(), result.get_shape())
    if any(DYNAMIC_INDEX in shape for shape in shapes):
        return
    if math.prod(shapes[0]) != math.prod(shapes[1]):
        raise VerifyException("source and result should have the same number of elements")


def check_cast(op: Operation) -> None:
    """Only the shape may become more or less known."""
    cast_op = cast("tensor.CastOp", op)
    source, dest = cast_op.source.type, cast_op.dest.type
    if getattr(source, "element_type", None) != getattr(dest, "element_type", None):
        raise VerifyException(f"{source} and {dest} are cast incompatible")


def check_pad(op: Operation) -> None:
    """The result is the source plus the padding, and the body yields its elements."""
    pad = cast("tensor.PadOp", op)
    source, result = _ranked(pad.source), _ranked(pad.result)
    low, high = pad.static_low.get_values(), pad.static_high.get_values()
    rank = len(source.get_shape())
    if not len(low) == len(high) == rank == len(result.get_shape()):
        raise VerifyException(f"expected {rank} low and high paddings and a result of rank {rank}")
    for name, static, values in (("low", low, pad.low), ("high", high, pad.high)):
        if static.count(DYNAMIC_INDEX) != len(values):
            raise VerifyException(f"number of dynamic {name} paddings does not match their values")
    for dim, sizes in enumerate(zip(source.get_shape(), low, high, strict=True)):
        size = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
        if size < 0 and size != DYNAMIC_INDEX:
            raise VerifyException(f"padding leaves dimension {dim} with {size} elements")
        # MLIR also lets a dimension that is only known at run time be given as static.
        known = size != DYNAMIC_INDEX
        if known and result.get_shape()[dim] != size:
            raise VerifyException(f"expected dimension {dim} of the result to be {size}")
    _check_pad_body(pad, rank, result)


def _check_pad_body(pad: tensor.PadOp, rank: int, result: AnyTensor) -> None:
    arguments = pad.region.block.args
    if len(arguments) != rank:
        raise VerifyException(f"expected the block to have {rank} arguments")
    if not all(isinstance(argument.type, IndexType) for argument in arguments):
        raise VerifyException("expected block arguments to be of type index")
    terminator = pad.region.block.last_op
    if not isinstance(terminator, tensor.YieldOp):
        raise VerifyException("expected a tensor.yield as the end of the body")
    yielded = terminator.operand_types
    element_type = result.get_element_type()
    if tuple(yielded) != (element_type,):
        raise VerifyException(f"expected the body to yield a {element_type}")
    if _ranked(pad.source).get_element_type() != element_type:
        raise VerifyException("source and result differ in element type")


SHAPE_CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {
    tensor.CastOp: check_cast,
    tensor.CollapseShapeOp: check_collapse_shape,
    tensor.EmptyOp: check_empty,
    tensor.ExpandShapeOp: check_expand_shape,
    tensor.ExtractOp: check_extract,
    tensor.FromElementsOp: check_from_elements,
    tensor.InsertOp: check_insert,
    tensor.PadOp: check_pad,
    tensor.ReshapeOp: check_reshape,
}
"""Checks by op class."""
