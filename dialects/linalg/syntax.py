"""The parts of syntax that all linalg structured ops share: `ins(…) outs(…)` and `-> type`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue
    from xdsl.parser import Parser
    from xdsl.printer import Printer


def parse_operand_group(parser: Parser, keyword: str) -> tuple[SSAValue, ...]:
    """Parse `keyword(%a, %b : type, type)`; nothing where the keyword does not follow."""
    if parser.parse_optional_keyword(keyword) is None:
        return ()
    parser.parse_punctuation("(")
    position = parser.pos
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand, f" in {keyword}"
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_type, f" in types of {keyword}"
    )
    parser.parse_punctuation(")")
    return tuple(parser.resolve_operands(operands, types, position))


def parse_result_types(parser: Parser) -> tuple[Attribute, ...]:
    """Parse `-> type` or `-> (type, type)`; nothing where no arrow follows."""
    if parser.parse_optional_punctuation("->") is None:
        return ()
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return (parser.parse_type(),) if types is None else tuple(types)


def print_operand_group(printer: Printer, keyword: str, operands: Sequence[SSAValue]) -> None:
    """Print ` keyword(%a, %b : type, type)`, or nothing for no operands."""
    if not operands:
        return
    printer.print_string(f" {keyword}(")
    printer.print_list(operands, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_list([operand.type for operand in operands], printer.print_attribute)
    printer.print_string(")")


def print_result_types(printer: Printer, types: Sequence[Attribute]) -> None:
    """Print ` -> type` or ` -> (type, type)`, or nothing for no results."""
    if not types:
        return
    printer.print_string(" -> ")
    if len(types) == 1:
        printer.print_attribute(types[0])
        return
    with printer.in_parens():
        printer.print_list(types, printer.print_attribute)
