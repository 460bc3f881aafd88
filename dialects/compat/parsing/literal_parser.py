"""The part of the parser that reads numbers and the elements of dense attributes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    f64,
    i1,
    i64,
)
from xdsl.parser import AttrParser
from xdsl.utils.hints import isa
from xdsl.utils.mlir_lexer import MLIRTokenKind

from convir.dialects.compat.parsing.literals import (
    LiteralError,
    Number,
    dense_from_hex,
    dense_from_numbers,
    float_from_bytes,
    integer_value,
    pack_float,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import AnyDenseElement, DenseIntOrFPElementsAttr, RankedStructure
    from xdsl.ir import Attribute

    from convir.dialects.compat.parsing.literals import Element


class LiteralParser(AttrParser):
    """The part of the parser that reads numbers and dense elements."""

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        """The elements `<…>`, and the type unless it is given.

        Raises:
            ParseError: at the literal, where it does not fit the type.
        """
        start = self._current_token.span
        self.parse_punctuation("<", " in dense attribute")
        hex_text: str | None = None
        elements: list[Element] = []
        shape: tuple[int, ...] | None = None
        is_empty = self._current_token.kind is MLIRTokenKind.GREATER
        if not is_empty:
            hex_text = self.parse_optional_str_literal()
            if hex_text is None:
                shape = self._parse_elements(elements)
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        try:
            if hex_text is not None:
                return dense_from_hex(hex_text, type)
            if is_empty and math.prod(type.get_shape()) != 0:
                raise LiteralError("parsed zero elements, but the type expects at least 1")
            return dense_from_numbers(elements, None if is_empty else shape, type)
        except LiteralError as error:
            self.raise_error(str(error), error.span or start)

    def _parse_elements(self, elements: list[Element]) -> tuple[int, ...] | None:
        """Append the elements to the list, row-major; their shape, or None for a lone one."""
        if self._current_token.kind is not MLIRTokenKind.L_SQUARE:
            elements.append(self._parse_element())
            return None
        shapes = self.parse_comma_separated_list(
            self.Delimiter.SQUARE, lambda: self._parse_elements(elements), " in dense literal"
        )
        if not shapes:
            return (0,)
        if any(shape != shapes[0] for shape in shapes):
            self.raise_error("ranks are not consistent between elements of a tensor literal")
        return (len(shapes), *(shapes[0] or ()))

    def _parse_element(self) -> Element:
        if self.parse_optional_punctuation("(") is None:
            return self._parse_number()
        real = self._parse_number()
        self.parse_punctuation(",", " in complex literal")
        imaginary = self._parse_number()
        self.parse_punctuation(")", " in complex literal")
        return real, imaginary

    def _parse_number(self) -> Number:
        number = self._parse_optional_number()
        if number is None:
            self.raise_error("expected element literal of primitive type")
        return number

    def _parse_optional_number(self) -> Number | None:
        token = self._current_token
        negative = token.kind is MLIRTokenKind.MINUS
        if negative:
            self._consume_token()
            token = self._current_token
        if token.kind in (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT) or (
            not negative and token.text in ("true", "false")
        ):
            self._consume_token()
            return Number(token.text, negative, token.span)
        if negative:
            self.raise_error("expected integer or float literal after '-'")
        return None

    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | None:
        """An integer, boolean or float attribute, if one begins here, with its type if it has one.

        Raises:
            ParseError: at the number, where it does not fit the type.
        """
        number = self._parse_optional_number()
        if number is None:
            return None
        if number.is_boolean:
            return IntegerAttr(number.to_int(), i1)
        if self.parse_optional_punctuation(":") is not None:
            number_type = self.parse_type()
        else:
            number_type = f64 if number.is_float else i64
        try:
            return _typed_number(number, number_type)
        except LiteralError as error:
            self.raise_error(str(error), number.span)


def _typed_number(number: Number, number_type: Attribute) -> IntegerAttr | FloatAttr:
    if isinstance(number_type, AnyFloat):
        return FloatAttr(
            float_from_bytes(pack_float(number, number_type), number_type), number_type
        )
    if isinstance(number_type, IndexType):
        return IntegerAttr(integer_value(number, number_type), number_type)
    if isa(number_type, IntegerType):
        return IntegerAttr(integer_value(number, number_type), number_type)
    raise LiteralError("an integer or float literal needs an integer, index or float type")
