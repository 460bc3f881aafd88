"""The textual form of the conv ops.

    conv.NAME layouts(IN, FILTER, OUT) [strides(…)] [padding(…)] [dilations(…)] [groups(G)]
      [accumulate(TYPE)] ins(%lhs, %rhs : TYPE, TYPE) outs(%init : TYPE) [attributes {…}]

Strides and dilations of 1, paddings of 0 and a single group are left out; so is the accumulator
where it is the result's element type. `padding(1, 0:2)` pads the first dimension by 1 on both
sides, the second by 0 before and 2 after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import AnyFloat, IntegerType, i32
from xdsl.utils.type import get_element_type_or_self

from convir.dialects.conv.geometry import ROLES, Geometry
from convir.dialects.conv.layouts import MAX_SPATIAL_RANK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, SSAValue
    from xdsl.parser import Parser
    from xdsl.printer import Printer

Item = TypeVar("Item")


@dataclass(frozen=True)
class ConvText:
    """All that the text of a conv op says after the op's name."""

    lhs: SSAValue
    rhs: SSAValue
    init: SSAValue
    geometry: Geometry
    accumulator: AnyFloat | IntegerType
    attributes: Mapping[str, Attribute]


def parse(parser: Parser) -> ConvText:
    """Parse what follows the op's name.

    Raises:
        ParseError: at the first thing that is not of the form above.
    """
    geometry = _parse_geometry(parser)
    accumulator_pos = parser.pos
    accumulator = None
    if parser.parse_optional_keyword("accumulate") is not None:
        parser.parse_punctuation("(")
        accumulator_pos = parser.pos
        accumulator = parser.parse_type()
        parser.parse_punctuation(")")
    lhs, rhs = _parse_operands(parser, "ins", 2)
    (init,) = _parse_operands(parser, "outs", 1)
    if accumulator is None:
        accumulator = get_element_type_or_self(init.type)
    summed: AnyFloat | IntegerType
    if accumulator == i32:
        summed = i32
    elif isinstance(accumulator, AnyFloat):
        summed = accumulator
    else:
        message = "the accumulator must be a float type or i32"
        parser.raise_error(message, accumulator_pos, parser.pos)
    attributes = parser.parse_optional_attr_dict_with_keyword()
    return ConvText(lhs, rhs, init, geometry, summed, {} if attributes is None else attributes.data)


def print_operation(printer: Printer, text: ConvText) -> None:
    """Print what follows the op's name."""
    geometry = text.geometry
    layouts = (geometry.input_layout, geometry.filter_layout, geometry.output_layout)
    printer.print_string(f" layouts({', '.join(layouts)})")
    pads = zip(geometry.pad_low, geometry.pad_high, strict=False)
    padding = [str(low) if low == high else f"{low}:{high}" for low, high in pads]
    _print_clause(printer, "strides", geometry.strides, 1)
    _print_clause(printer, "padding", padding, "0")
    _print_clause(printer, "dilations", geometry.dilations, 1)
    _print_clause(printer, "groups", [geometry.groups], 1)
    if text.accumulator != get_element_type_or_self(text.init.type):
        printer.print_string(" accumulate(")
        printer.print_attribute(text.accumulator)
        printer.print_string(")")
    _print_operands(printer, "ins", (text.lhs, text.rhs))
    _print_operands(printer, "outs", (text.init,))
    printer.print_op_attributes(dict(text.attributes), print_keyword=True)


def _parse_geometry(parser: Parser) -> Geometry:
    parser.parse_keyword("layouts")
    pos = parser.pos
    layouts = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
    if len(layouts) != len(ROLES):
        parser.raise_error(
            f"expected the layouts of input, filter and output, found {len(layouts)}",
            pos,
            parser.pos,
        )
    # Whether they are layouts is verified later; here they only say how many defaults there are.
    rank = min(max(len(layouts[0]) - 2, 1), MAX_SPATIAL_RANK)
    strides = _parse_clause(parser, "strides", parser.parse_integer, [1] * rank)
    padding = _parse_clause(parser, "padding", lambda: _parse_pads(parser), [(0, 0)] * rank)
    dilations = _parse_clause(parser, "dilations", parser.parse_integer, [1] * rank)
    groups = _parse_clause(parser, "groups", parser.parse_integer, [1])
    if len(groups) != 1:
        parser.raise_error(f"expected one number of groups, found {len(groups)}")
    return Geometry(
        *layouts,
        strides=tuple(strides),
        pad_low=tuple(low for low, _ in padding),
        pad_high=tuple(high for _, high in padding),
        dilations=tuple(dilations),
        groups=groups[0],
    )


def _parse_clause(
    parser: Parser, keyword: str, parse_item: Callable[[], Item], default: list[Item]
) -> list[Item]:
    if parser.parse_optional_keyword(keyword) is None:
        return default
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_item)


def _parse_pads(parser: Parser) -> tuple[int, int]:
    low = parser.parse_integer()
    if parser.parse_optional_punctuation(":") is None:
        return low, low
    return low, parser.parse_integer()


def _parse_operands(parser: Parser, keyword: str, count: int) -> Sequence[SSAValue[Attribute]]:
    parser.parse_keyword(keyword)
    parser.parse_punctuation("(")
    pos = parser.pos
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    if len(operands) != count:
        parser.raise_error(f"expected {count} operands, found {len(operands)}", pos, parser.pos)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    resolved = parser.resolve_operands(operands, types, pos)
    parser.parse_punctuation(")")
    return resolved


def _print_clause(
    printer: Printer, keyword: str, values: Sequence[int | str], default: int | str
) -> None:
    if all(value == default for value in values):
        return
    printer.print_string(f" {keyword}({', '.join(map(str, values))})")


def _print_operands(printer: Printer, keyword: str, values: Sequence[SSAValue]) -> None:
    printer.print_string(f" {keyword}(")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_list([value.type for value in values], printer.print_attribute)
    printer.print_string(")")
