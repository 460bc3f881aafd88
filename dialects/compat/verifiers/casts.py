"""Casts, comparisons and choices of arith: shapes agree, widths grow or shrink as named."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, ShapedType, VectorType, i1, i64
from xdsl.utils.exceptions import VerifyException

from convir.dialects.compat.types import (
    condition_type_of,
    element_type_of,
    shape_of,
    signless_width,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.dialects.builtin import AnyFloat
    from xdsl.ir import Attribute, Operation


def _element_type(operand_type: Attribute) -> Attribute:
    if isinstance(operand_type, VectorType):
        return cast("VectorType[Attribute]", operand_type).get_element_type()
    return element_type_of(operand_type)


def _types(op: Operation) -> tuple[Attribute, Attribute]:
    """The element types of operand and result, whose shapes agree."""
    source, result = op.operands[0].type, op.results[0].type
    if type(source) is type(result):
        shapes_agree = shape_of(source) == shape_of(result)
    else:
        shapes_agree = not isinstance(source, ShapedType) and not isinstance(result, ShapedType)
    if not shapes_agree:
        raise VerifyException(f"operand {source} and result {result} differ in shape")
    return _element_type(source), _element_type(result)


def _incompatible(op: Operation) -> VerifyException:
    return VerifyException(
        f"operand type {op.operands[0].type} and result type {op.results[0].type} "
        "are cast incompatible"
    )


def _check_float_widths(op: Operation, *, widens: bool) -> None:
    source, result = (cast("AnyFloat", one) for one in _types(op))  # the op's definition says so
    if source.bitwidth == result.bitwidth or (source.bitwidth < result.bitwidth) is not widens:
        raise _incompatible(op)


def check_extf(op: Operation) -> None:
    """From a narrower float to a wider one."""
    _check_float_widths(op, widens=True)


def check_truncf(op: Operation) -> None:
    """From a wider float to a narrower one."""
    _check_float_widths(op, widens=False)


def _check_integer_widths(op: Operation, *, widens: bool) -> None:
    source, result = map(signless_width, _types(op))
    if source is None or result is None or source == result or (source < result) is not widens:
        raise _incompatible(op)


def check_exti(op: Operation) -> None:
    """From a narrower integer to a wider one."""
    _check_integer_widths(op, widens=True)


def check_trunci(op: Operation) -> None:
    """From a wider integer to a narrower one."""
    _check_integer_widths(op, widens=False)


def check_int_to_float(op: Operation) -> None:
    """From a signless integer to a float."""
    source, _ = _types(op)
    if signless_width(source) is None:
        raise _incompatible(op)


def check_float_to_int(op: Operation) -> None:
    """From a float to a signless integer."""
    _, result = _types(op)
    if signless_width(result) is None:
        raise _incompatible(op)


def check_index_cast(op: Operation) -> None:
    """Between `index` and a signless integer."""
    source, result = _types(op)
    kinds = (isinstance(source, IndexType), isinstance(result, IndexType))
    integer = result if kinds[0] else source
    if kinds[0] is kinds[1] or signless_width(integer) is None:
        raise _incompatible(op)


def check_bitcast(op: Operation) -> None:
    """`index` has no width, so it has no bit pattern either."""
    if any(isinstance(element_type, IndexType) for element_type in _types(op)):
        raise _incompatible(op)


def check_comparison(op: Operation) -> None:
    """Two operands of one type, a predicate that there is, and an i1 for each pair of elements."""
    comparison = cast("arith.CmpfOp | arith.CmpiOp", op)
    lhs, rhs, result = comparison.lhs.type, comparison.rhs.type, comparison.result.type
    if lhs != rhs:
        raise VerifyException(f"expected operands of one type, got {lhs} and {rhs}")
    expected = condition_type_of(lhs)
    if result != expected:
        raise VerifyException(f"expected a result of type {expected}, got {result}")
    count = len(_PREDICATES[type(comparison)])
    predicate = comparison.predicate
    if predicate.type != i64 or not 0 <= predicate.value.data < count:
        raise VerifyException(f"expected an i64 from 0 to {count - 1} as predicate")


def check_select(op: Operation) -> None:
    """The condition is one i1, or one for each element."""
    select = cast("arith.SelectOp", op)
    condition = select.cond.type
    if condition == i1:
        return
    same_kind = type(condition) is type(select.result.type)
    if not same_kind or shape_of(condition) != shape_of(select.result.type):
        raise VerifyException("expected the condition to be an i1 or to have the result's shape")


_PREDICATES: Mapping[type[Operation], Sequence[str]] = {
    arith.CmpfOp: arith.CMPF_COMPARISON_OPERATIONS,
    arith.CmpiOp: arith.CMPI_COMPARISON_OPERATIONS,
}

CAST_CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {
    arith.BitcastOp: check_bitcast,
    arith.CmpfOp: check_comparison,
    arith.CmpiOp: check_comparison,
    arith.ExtFOp: check_extf,
    arith.ExtSIOp: check_exti,
    arith.ExtUIOp: check_exti,
    arith.FPToSIOp: check_float_to_int,
    arith.FPToUIOp: check_float_to_int,
    arith.IndexCastOp: check_index_cast,
    arith.SIToFPOp: check_int_to_float,
    arith.SelectOp: check_select,
    arith.TruncFOp: check_truncf,
    arith.TruncIOp: check_trunci,
    arith.UIToFPOp: check_int_to_float,
}
"""Checks by op class."""
