"""`linalg.contract` and `linalg.elementwise`: bodies that follow from maps and kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ShapedType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from convir.dialects.compat.effects import StructuredEffects
from convir.dialects.compat.types import element_type_of
from convir.dialects.compat.verifiers.structured import check_structured
from convir.dialects.compat.verifiers.trait import Verified
from convir.dialects.linalg.attrs import ElementwiseKindAttr, TypeFunction, TypeFunctionAttr
from convir.dialects.linalg.body import (
    BINARY,
    TERNARY,
    elementwise_body,
    named_body,
)
from convir.dialects.linalg.syntax import (
    parse_operand_group,
    parse_result_types,
    print_operand_group,
    print_result_types,
)
from convir.dialects.linalg.table import MUL_ADD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from xdsl.ir import Attribute, Region, SSAValue
    from xdsl.parser import Parser
    from xdsl.printer import Printer


class DerivedBodyOp(LinalgStructuredOperation, ABC):
    """A structured op whose body follows from its properties, and is not written."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(StructuredEffects(), Verified(check_structured))

    @classmethod
    @abstractmethod
    def derived_body(
        cls, properties: Mapping[str, Attribute], arg_types: Sequence[Attribute]
    ) -> Region:
        """The body over arguments of `arg_types`.

        Raises:
            VerifyException: the properties and types allow none.
        """

    @classmethod
    def derive(
        cls,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Self:
        """Build the op with the body that its properties stand for.

        Raises:
            VerifyException: the properties and types allow none.
        """
        arg_types = [element_type_of(value.type) for value in (*inputs, *outputs)]
        return cls.build(
            operands=(inputs, outputs),
            result_types=(result_types,),
            properties=properties,
            attributes=attributes,
            regions=(cls.derived_body(properties, arg_types),),
        )

    @classmethod
    def _parse_rest(cls, parser: Parser, properties: dict[str, Attribute]) -> Self:
        if parser.parse_optional_keyword("indexing_maps") is not None:
            parser.parse_punctuation("=")
            properties["indexing_maps"] = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        for name in cls.get_irdl_definition().properties:
            if name in attributes:
                properties[name] = attributes.pop(name)
        inputs = parse_operand_group(parser, "ins")
        outputs = parse_operand_group(parser, "outs")
        return cls.derive(inputs, outputs, parse_result_types(parser), properties, attributes)

    def _print_rest(self, printer: Printer, hidden: Sequence[str]) -> None:
        shown = {key: value for key, value in self.properties.items() if key not in hidden}
        printer.print_op_attributes({**self.attributes, **shown})
        print_operand_group(printer, "ins", self.inputs)
        print_operand_group(printer, "outs", self.outputs)
        print_result_types(printer, self.res.types)

    def verify_(self) -> None:
        """Check the body, then the loops and shapes."""
        arg_types = [element_type_of(operand.type) for operand in self.operands]
        expected = self.derived_body(self.properties, arg_types)
        if not self.body.is_structurally_equivalent(expected):
            raise VerifyException("body is not the one that the op's properties stand for")
        super().verify_()


@irdl_op_definition
class ContractOp(DerivedBodyOp):
    """`linalg.contract indexing_maps = […] ins(%lhs, %rhs : …) outs(%init : …) -> type`.

    A contraction along any loops: those that the output's map lacks.
    """

    name = "linalg.contract"

    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    cast = opt_prop_def(TypeFunctionAttr)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """One map per operand."""
        return self.indexing_maps

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Parallel for the loops that index the output, reduction for the others."""
        output = self.indexing_maps.data[-1].data
        kept = output.used_dims()
        return ArrayAttr(
            IteratorTypeAttr.parallel() if loop in kept else IteratorTypeAttr.reduction()
            for loop in range(output.num_dims)
        )

    @classmethod
    def derived_body(
        cls, properties: Mapping[str, Attribute], arg_types: Sequence[Attribute]
    ) -> Region:
        """The multiply-add."""
        if len(arg_types) != 3:
            raise VerifyException("expected 2 inputs and 1 output")
        cast = properties.get("cast")
        unsigned = cast == TypeFunctionAttr(TypeFunction.CAST_UNSIGNED)
        return named_body(MUL_ADD, arg_types, unsigned=unsigned)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        return cls._parse_rest(parser, {})

    def print(self, printer: Printer) -> None:
        """Print the op after its name."""
        printer.print_string(" indexing_maps = ")
        printer.print_attribute(self.indexing_maps)
        self._print_rest(printer, ("indexing_maps", "operandSegmentSizes"))

    def verify_(self) -> None:
        """Check that each loop is contracted or kept, then the rest."""
        if len(self.indexing_maps) != 3:
            raise VerifyException("expected 3 indexing maps")
        maps = [attr.data for attr in self.indexing_maps]
        if not all(map_.is_projected_permutation() for map_ in maps):
            raise VerifyException("expected maps to list distinct loops")
        lhs, rhs, output = (map_.used_dims() for map_ in maps)
        for loop in range(maps[0].num_dims):
            if loop not in output and not (loop in lhs and loop in rhs):
                raise VerifyException(f"loop {loop} is neither contracted nor kept in the output")
        super().verify_()


@irdl_op_definition
class ElementwiseOp(DerivedBodyOp):
    """`linalg.elementwise <kind> ins(…) outs(%init : …) -> type`.

    A scalar function of the inputs, which maps may broadcast or permute.
    """

    name = "linalg.elementwise"

    kind = prop_def(ElementwiseKindAttr)
    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """One map per operand; identities where none are given."""
        if self.indexing_maps is not None:
            return self.indexing_maps
        identity = AffineMapAttr(AffineMap.identity(self._rank()))
        return ArrayAttr((identity,) * len(self.operands))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Parallel, one for each dimension of the output."""
        return ArrayAttr((IteratorTypeAttr.parallel(),) * self._rank())

    def _rank(self) -> int:
        output_type = self.outputs[0].type
        return len(output_type.get_shape()) if isinstance(output_type, ShapedType) else 0

    @classmethod
    def derived_body(
        cls, properties: Mapping[str, Attribute], arg_types: Sequence[Attribute]
    ) -> Region:
        """The function of the inputs, cast to the output's type."""
        kind = cast("ElementwiseKindAttr", properties["kind"])  # the op's definition says so
        function = kind.data.function
        arity = 3 if function in TERNARY else 2 if function in BINARY else 1
        if len(arg_types) != arity + 1:
            raise VerifyException(f"{kind.data} takes {arity} inputs and 1 output")
        return elementwise_body(function, arg_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        kind = ElementwiseKindAttr(ElementwiseKindAttr.parse_parameter(parser))
        return cls._parse_rest(parser, {"kind": kind})

    def print(self, printer: Printer) -> None:
        """Print the op after its name."""
        printer.print_string(f" <{self.kind.data}>")
        if self.indexing_maps is not None:
            printer.print_string(" indexing_maps = ")
            printer.print_attribute(self.indexing_maps)
        self._print_rest(printer, ("kind", "indexing_maps", "operandSegmentSizes"))
