"""`linalg.broadcast` and `linalg.transpose`: elements moved as they are."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, i64
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from convir.dialects.compat.types import element_type_of
from convir.dialects.linalg.body import copy_body
from convir.dialects.linalg.dimensions import (
    DimensionsOp,
    parallel,
    parse_dimensions,
    projection,
)
from convir.dialects.linalg.syntax import parse_operand_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import ClassVar, Self

    from xdsl.dialects.linalg.attrs import IteratorTypeAttr
    from xdsl.ir import SSAValue
    from xdsl.parser import Parser
    from xdsl.printer import Printer


class CopyingOp(DimensionsOp, ABC):
    """An op that moves elements as they are."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        inputs = parse_operand_group(parser, "ins")
        outputs = parse_operand_group(parser, "outs")
        properties = {cls.KEYWORD: parse_dimensions(parser, cls.KEYWORD)}
        attributes = parser.parse_optional_attr_dict()
        arg_types = [element_type_of(value.type) for value in (*inputs, *outputs)]
        return cls.over(inputs, outputs, copy_body(arg_types), properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print the op after its name."""
        self._print_operands(printer)

    def verify_(self) -> None:
        """Check operands and body, then the loops and shapes."""
        if len(self.inputs) != 1:
            raise VerifyException("expected 1 input and 1 output")
        expected = copy_body([element_type_of(operand.type) for operand in self.operands])
        if not self.body.is_structurally_equivalent(expected):
            raise VerifyException("body is not the one that the op's name stands for")
        super().verify_()


@irdl_op_definition
class BroadcastOp(CopyingOp):
    """`linalg.broadcast ins(%x : …) outs(%init : …) dimensions = […]`: the dimensions are added."""

    name = "linalg.broadcast"
    KEYWORD: ClassVar[str] = "dimensions"

    dimensions = prop_def(DenseArrayBase.constr(i64))

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """The input lacks the added dimensions."""
        rank = len(self._shape(self.outputs))
        kept = [dimension for dimension in range(rank) if dimension not in self.listed]
        return self._maps(projection(rank, kept), AffineMap.identity(rank))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Parallel, one per dimension of the output."""
        return parallel(len(self._shape(self.outputs)))

    def verify_(self) -> None:
        """Check the dimensions, then the rest."""
        self._verify_listed(len(self._shape(self.outputs)))
        super().verify_()


@irdl_op_definition
class TransposeOp(CopyingOp):
    """`linalg.transpose ins(%x : …) outs(%init : …) permutation = […]`.

    Dimension i of the result is dimension `permutation[i]` of the input.
    """

    name = "linalg.transpose"
    KEYWORD: ClassVar[str] = "permutation"

    permutation = prop_def(DenseArrayBase.constr(i64))

    @classmethod
    def of(cls, value: SSAValue, init: SSAValue, permutation: Sequence[int]) -> Self:
        """The tensor `value` with its dimensions in another order, written to `init`."""
        body = copy_body([element_type_of(value.type), element_type_of(init.type)])
        return cls.over(
            [value], [init], body, {cls.KEYWORD: DenseArrayBase.from_list(i64, permutation)}
        )

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """The output is walked in order."""
        listed = self.listed
        inverse = [listed.index(dimension) for dimension in range(len(listed))]
        return self._maps(projection(len(listed), inverse), AffineMap.identity(len(listed)))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Parallel, one per dimension."""
        return parallel(len(self.listed))

    def verify_(self) -> None:
        """Check the permutation, then the rest."""
        rank = len(self._shape(self.outputs))
        self._verify_listed(rank)
        if len(self.listed) != rank:
            raise VerifyException(f"expected a permutation of {rank} dimensions")
        super().verify_()
