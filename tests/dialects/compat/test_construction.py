"""Ops and attributes are built, verified and refused as xDSL does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from xdsl.dialects import arith, func, tensor, test
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i32,
    i64,
)
from xdsl.dialects.linalg.ops import TransposeOp
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from convir.dialects import compat

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def installed() -> None:
    compat.install()


@irdl_op_definition
class SegmentedOp(IRDLOperation):
    """One operand, several, and one or none."""

    name = "test.segmented"
    one = operand_def(i32)
    several = var_operand_def(i32)
    optional = opt_operand_def(i32)
    result = result_def(i32)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


def values(count: int) -> list[SSAValue]:
    return list(test.TestOp(result_types=[i32] * count).results)


@pytest.mark.parametrize("several", [0, 1, 3])
@pytest.mark.parametrize("optional", [0, 1])
def test_segments_say_what_belongs_to_what(several: int, optional: int) -> None:
    one, more, last = values(1), values(several), values(optional)
    # Twice, as what was met before is built otherwise.
    for _ in range(2):
        op = SegmentedOp(
            operands=[one[0], more, last], result_types=[i32], properties={}, attributes={"a": None}
        )
        assert list(op.operands) == [*one, *more, *last]
        assert op.properties["operandSegmentSizes"] == DenseArrayBase.from_list(
            i32, [1, several, optional]
        )
        assert op.attributes == {}
        assert list(op.several) == more
        op.verify()


def test_operands_know_their_uses_last_one_first() -> None:
    (x,) = values(1)
    first = arith.AddiOp(x, x)
    second = arith.MuliOp(first, x)
    assert [(use.operation, use.index) for use in x.uses] == [(second, 1), (first, 1), (first, 0)]
    second.operands = [first.result, first.result]
    assert [use.operation for use in x.uses] == [first, first]
    first.operands = (x, second.result)
    assert [(use.operation, use.index) for use in x.uses] == [(first, 0)]


Given = list[Any]

MISFITS: tuple[tuple[Given, Given], ...] = (
    ([], [i32]),
    ([None, [], []], [i32]),
    ([[], [], []], [i32]),
    (["two", [], []], [i32]),
    (["one", [], "two"], [i32]),
    (["one", [], []], []),
    (["one", [], []], [[i32, i32]]),
)


@pytest.mark.parametrize(("operands", "results"), MISFITS)
def test_what_fits_no_definition_is_refused(operands: Given, results: Given) -> None:
    given = {"one": values(1), "two": values(2)}
    asked: Given = [given.get(x, x) if isinstance(x, str) else x for x in operands]
    with pytest.raises(ValueError, match=r"variadic|Expected|size at most 1|optional"):
        SegmentedOp(operands=asked, result_types=results)


def test_an_op_stands_for_its_result() -> None:
    (x,) = values(1)
    total = arith.AddiOp(arith.AddiOp(x, x), x)
    assert isinstance(total.lhs.owner, arith.AddiOp)


def test_variadic_operands_that_must_be_alike_are() -> None:
    empty = tensor.EmptyOp([], TensorType(f32, [2, 3]))
    with pytest.raises(ValueError, match="different sizes"):
        IRDLOperation.__init__(
            TransposeOp.__new__(TransposeOp),
            operands=[[empty.tensor], [empty.tensor, empty.tensor]],
            result_types=[[]],
            regions=[Region(Block())],
        )


def test_parameters_are_still_verified() -> None:
    assert IntegerAttr(3, i32) == IntegerAttr(IntAttr(3), i32)
    for wrong in (
        lambda: IntegerAttr.new([IntAttr(3), f32]),
        lambda: IntegerAttr.new([StringAttr("3"), i32]),
        lambda: FloatAttr.new([IntAttr(1), f32]),
        lambda: TensorType.new([ArrayAttr([StringAttr("2")]), f32, StringAttr("")]),
        lambda: IntegerAttr(1 << 40, i32),
    ):
        with pytest.raises(VerifyException):
            wrong()
    assert TensorType(f32, [2, 3]).get_shape() == (2, 3)
    assert DenseArrayBase.from_list(i64, [1, 2]).get_values() == (1, 2)


def test_classes_are_asked_by_inheritance() -> None:
    op = func.ReturnOp()
    assert isinstance(op, Operation)
    assert isinstance(op, func.ReturnOp)
    assert not isinstance(op, func.FuncOp)
    assert not isinstance(i32, Operation)
    assert not isinstance(3, Operation)
