"""Ops whose results take the types of their inits: here `linalg.map` and `linalg.reduce`.

xDSL lacks `map`, and has `reduce`, `broadcast` and `transpose` for one input only, without
attributes, and the first two outside its structured interface.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    ShapedType,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    SameVariadicOperandSize,
    irdl_op_definition,
    prop_def,
    traits_def,
)
from xdsl.traits import RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from convir.dialects.compat.effects import StructuredEffects
from convir.dialects.compat.types import element_type_of, is_tensor
from convir.dialects.compat.verifiers.structured import check_structured
from convir.dialects.compat.verifiers.trait import Verified
from convir.dialects.linalg.syntax import parse_operand_group, print_operand_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.parser import Parser
    from xdsl.printer import Printer


class InitTypedOp(LinalgStructuredOperation, ABC):
    """A structured op whose results have the types of its inits, and so are not written."""

    traits = traits_def(StructuredEffects(), RecursiveMemoryEffect(), Verified(check_structured))

    @classmethod
    def over(
        cls,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        body: Region,
        properties: Mapping[str, Attribute],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Self:
        """Build the op; its results have the types of the tensors among `outputs`."""
        types = [value.type for value in outputs if is_tensor(value.type)]
        return cls.build(
            operands=(inputs, outputs),
            result_types=(types,),
            properties=properties,
            attributes=attributes,
            regions=(body,),
        )

    def _shape(self, operands: Sequence[SSAValue]) -> tuple[int, ...]:
        operand_type = operands[0].type
        if not isinstance(operand_type, ShapedType):
            raise VerifyException("expected tensor or memref operands")
        return operand_type.get_shape()

    def _maps(self, input_map: AffineMap, output_map: AffineMap) -> ArrayAttr[AffineMapAttr]:
        inputs = (AffineMapAttr(input_map),) * len(self.inputs)
        return ArrayAttr((*inputs, *(AffineMapAttr(output_map),) * len(self.outputs)))


def parallel(count: int) -> ArrayAttr[IteratorTypeAttr]:
    """`count` parallel loops."""
    return ArrayAttr((IteratorTypeAttr.parallel(),) * count)


def projection(rank: int, dimensions: Iterable[int]) -> AffineMap:
    """The map from `rank` loops to those listed."""
    return AffineMap(rank, 0, tuple(AffineDimExpr(dimension) for dimension in dimensions))


def parse_dimensions(parser: Parser, keyword: str) -> DenseArrayBase:
    """Parse `keyword = [integers]`."""
    parser.parse_keyword(keyword)
    parser.parse_punctuation("=")
    values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return DenseArrayBase.from_list(i64, values)


def _print_dimensions(printer: Printer, keyword: str, values: Iterable[int]) -> None:
    printer.print_string(f" {keyword} = ")
    with printer.in_square_brackets():
        printer.print_list(values, printer.print_int)


def _parse_payload(parser: Parser) -> tuple[str, dict[str, Attribute]] | None:
    """The op of the short form `{ arith.addf {attributes} }`, if it is written."""
    if parser.parse_optional_punctuation("{") is None:
        return None
    name = parser.parse_identifier()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation("}")
    return name, attributes


def _payload_body(
    parser: Parser,
    payload: tuple[str, dict[str, Attribute]],
    arg_types: Sequence[Attribute],
    operand_order: Sequence[int],
) -> Region:
    name, attributes = payload
    op_class = parser.ctx.get_optional_op(name)
    if op_class is None:
        parser.raise_error(f"unknown operation '{name}'")
    block = Block(arg_types=arg_types)
    operands = [block.args[index] for index in operand_order]
    op: Operation = op_class.create(
        operands=operands, result_types=[arg_types[-1]], attributes=attributes
    )
    block.add_ops((op, YieldOp(op.results[0])))
    return Region(block)


def _parse_body(parser: Parser) -> Region:
    arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
    return parser.parse_region(arguments)


def _print_body(printer: Printer, body: Region) -> None:
    printer.print_string(" ")
    with printer.in_parens():
        printer.print_list(body.block.args, printer.print_block_argument)
    printer.print_string(" ")
    printer.print_region(body, print_entry_block_args=False)


@irdl_op_definition
class MapOp(InitTypedOp):
    """`linalg.map ins(…) outs(%init : …) (%in: t, %init: t) { … }`, elementwise."""

    name = "linalg.map"

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """Identities."""
        identity = AffineMap.identity(len(self._shape(self.outputs)))
        return self._maps(identity, identity)

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Parallel, one per dimension."""
        return parallel(len(self._shape(self.outputs)))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        payload = _parse_payload(parser)
        inputs = parse_operand_group(parser, "ins")
        outputs = parse_operand_group(parser, "outs")
        attributes = parser.parse_optional_attr_dict()
        if payload is None:
            return cls.over(inputs, outputs, _parse_body(parser), {}, attributes)
        arg_types = [element_type_of(value.type) for value in (*inputs, *outputs)]
        body = _payload_body(parser, payload, arg_types, range(len(inputs)))
        return cls.over(inputs, outputs, body, {}, attributes)

    def print(self, printer: Printer) -> None:
        """Print the op after its name."""
        print_operand_group(printer, "ins", self.inputs)
        print_operand_group(printer, "outs", self.outputs)
        printer.print_op_attributes(self.attributes)
        _print_body(printer, self.body)


class DimensionsOp(InitTypedOp, ABC):
    """An op with a list of dimensions after its operands."""

    irdl_options = (SameVariadicOperandSize(),)
    KEYWORD: ClassVar[str]
    """The property that holds the list, and its keyword in the text."""

    @property
    def listed(self) -> tuple[int, ...]:
        """The list of dimensions."""
        values = self.properties[self.KEYWORD]
        return values.get_values() if isinstance(values, DenseArrayBase) else ()

    def _print_operands(self, printer: Printer) -> None:
        print_operand_group(printer, "ins", self.inputs)
        print_operand_group(printer, "outs", self.outputs)
        _print_dimensions(printer, self.KEYWORD, self.listed)
        printer.print_op_attributes(self.attributes)

    def _verify_listed(self, rank: int) -> None:
        if len(set(self.listed)) != len(self.listed):
            raise VerifyException(f"{self.KEYWORD} are not distinct")
        for dimension in self.listed:
            if not 0 <= dimension < rank:
                raise VerifyException(
                    f"dimension {dimension} in {self.KEYWORD} is not in [0, {rank})"
                )


@irdl_op_definition
class ReduceOp(DimensionsOp):
    """`linalg.reduce ins(…) outs(…) dimensions = […] (%in: t, %init: t) { … }`."""

    name = "linalg.reduce"
    KEYWORD: ClassVar[str] = "dimensions"

    dimensions = prop_def(DenseArrayBase.constr(i64))

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """Identities for the inputs; the outputs lack the reduced dimensions."""
        rank = len(self._shape(self.inputs))
        kept = [dimension for dimension in range(rank) if dimension not in self.listed]
        return self._maps(AffineMap.identity(rank), projection(rank, kept))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Reduction for the listed dimensions of the inputs, parallel for the others."""
        return ArrayAttr(
            IteratorTypeAttr.reduction() if loop in self.listed else IteratorTypeAttr.parallel()
            for loop in range(len(self._shape(self.inputs)))
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        payload = _parse_payload(parser)
        inputs = parse_operand_group(parser, "ins")
        outputs = parse_operand_group(parser, "outs")
        properties = {cls.KEYWORD: parse_dimensions(parser, cls.KEYWORD)}
        attributes = parser.parse_optional_attr_dict()
        if payload is None:
            return cls.over(inputs, outputs, _parse_body(parser), properties, attributes)
        arg_types = [element_type_of(value.type) for value in (*inputs, *outputs)]
        # In the short form the accumulator is the first operand.
        order = [len(inputs), *range(len(inputs))]
        body = _payload_body(parser, payload, arg_types, order)
        return cls.over(inputs, outputs, body, properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print the op after its name."""
        self._print_operands(printer)
        _print_body(printer, self.body)

    def verify_(self) -> None:
        """Check the dimensions, then the loops and shapes."""
        if not self.inputs:
            raise VerifyException("expected at least one input")
        self._verify_listed(len(self._shape(self.inputs)))
        if any(
            value.type.get_shape() != self._shape(self.inputs)
            for value in self.inputs
            if isinstance(value.type, ShapedType)
        ):
            raise VerifyException("inputs differ in shape")
        super().verify_()
