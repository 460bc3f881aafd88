"""Linalg structured ops: yields, results, and maps that stay inside their operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ShapedType,
    i1,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir.affine import AffineConstantExpr
from xdsl.utils.exceptions import VerifyException

from convir.dialects.compat.types import element_type_of, is_memref, is_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Operation, SSAValue


def check_structured(op: Operation) -> None:
    """Results are the tensor outputs, and the body yields one element for each output."""
    structured = cast("LinalgStructuredOperation", op)
    outputs = structured.outputs
    for output in outputs:
        if not is_tensor(output.type) and not is_memref(output.type):
            raise VerifyException(f"expected outputs to be tensors or memrefs, got {output.type}")
    tensors = [output.type for output in outputs if is_tensor(output.type)]
    if tuple(tensors) != tuple(structured.res.types):
        raise VerifyException("expected the results to have the types of the output tensors")
    _check_yield(structured.body.block.last_op, outputs)


def _check_yield(terminator: Operation | None, outputs: Sequence[SSAValue]) -> None:
    if not isinstance(terminator, linalg.YieldOp):
        raise VerifyException("expected a linalg.yield as the end of the body")
    yielded = terminator.operand_types
    if len(yielded) != len(outputs):
        raise VerifyException(
            f"expected {len(outputs)} yielded values, one for each output, got {len(yielded)}"
        )
    for index, (value_type, output) in enumerate(zip(yielded, outputs, strict=True)):
        element_type = element_type_of(output.type)
        if value_type != element_type:
            raise VerifyException(
                f"type of yielded value #{index} ({value_type}) does not match "
                f"the output's element type ({element_type})"
            )


def check_generic(op: Operation) -> None:
    """As every structured op; and constant map results lie inside their dimensions."""
    check_structured(op)
    generic = cast("linalg.GenericOp", op)
    for number, (operand, attr) in enumerate(zip(op.operands, generic.indexing_maps, strict=False)):
        if not isinstance(operand.type, ShapedType):
            continue
        for size, result in zip(operand.type.get_shape(), attr.data.results, strict=False):
            if not isinstance(result, AffineConstantExpr):
                continue
            if result.value < 0 or (size != DYNAMIC_INDEX and result.value >= size):
                raise VerifyException(
                    f"indexing_map #{number} reads index {result.value} of {size} elements"
                )


def check_fill(op: Operation) -> None:
    """As every structured op; one scalar fills one output of its own type."""
    fill = cast("linalg.FillOp", op)
    if len(fill.inputs) != 1 or len(fill.outputs) != 1:
        raise VerifyException("expected 1 input and 1 output")
    check_structured(op)


def check_elementwise(op: Operation) -> None:
    """As every structured op; operands have one shape, and inputs are tensors or memrefs."""
    structured = cast("LinalgStructuredOperation", op)
    if not structured.inputs or len(structured.outputs) != 1:
        raise VerifyException("expected inputs and 1 output")
    for value in structured.inputs:
        if not isinstance(value.type, ShapedType):
            raise VerifyException(f"expected inputs to be tensors or memrefs, got {value.type}")
    check_structured(op)


def check_index(op: Operation) -> None:
    """The dimension is a loop of the op around."""
    index = cast("linalg.IndexOp", op)
    around = op.parent_op()
    if not isinstance(around, LinalgStructuredOperation):
        raise VerifyException("expected to stand in a linalg structured op")
    dim, loops = index.dim.value.data, len(around.get_iterator_types())
    if not 0 <= dim < loops:
        raise VerifyException(
            f"expected dim ({dim}) to be lower than the number of loops ({loops})"
        )


def check_select(op: Operation) -> None:
    """As every elementwise op; the condition is of i1."""
    select = cast("linalg.SelectOp", op)
    if not select.inputs or element_type_of(select.inputs[0].type) != i1:
        raise VerifyException("expected a condition of i1")
    check_elementwise(op)


_ELEMENTWISE = (
    linalg.AddOp,
    linalg.CopyOp,
    linalg.ExpOp,
    linalg.LogOp,
    linalg.MaxOp,
    linalg.MinOp,
    linalg.MulOp,
    linalg.SqrtOp,
    linalg.SubOp,
)

STRUCTURED_CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {
    **dict.fromkeys(_ELEMENTWISE, check_elementwise),
    linalg.FillOp: check_fill,
    linalg.GenericOp: check_generic,
    linalg.IndexOp: check_index,
    linalg.QuantizedMatmulOp: check_structured,
    linalg.SelectOp: check_select,
}
"""Checks by op class."""
