"""The custom syntax of ops that xDSL reads wrongly or not at all.

A function here stands in for its op class's own `parse`; what must also be printed otherwise is in
`printing`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeGuard, cast

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    FastMathFlagsAttr,
)
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    i1,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Region

from convir.dialects.compat.types import condition_type_of, element_type_of
from convir.dialects.linalg.body import copy_body
from convir.dialects.linalg.syntax import parse_operand_group, parse_result_types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, Operation
    from xdsl.parser import Parser, UnresolvedOperand

_ITERATOR_TYPES: Mapping[str, IteratorTypeAttr] = {
    str(kind): IteratorTypeAttr(kind) for kind in IteratorType
}


def parse_generic(parser: Parser) -> Operation:
    """`linalg.generic`; xDSL does not read more than one result, which it prints in parentheses."""
    start = parser.pos
    attributes = parser.parse_optional_attr_dict()
    maps = attributes.pop("indexing_maps", None)
    iterators = attributes.pop("iterator_types", None)
    texts = {name: attributes.pop(name, None) for name in ("doc", "library_call")}
    if not _is_maps(maps):
        parser.raise_error("expected indexing_maps = [affine_map<…>, …]", start, parser.pos)
    if not isinstance(iterators, ArrayAttr):
        parser.raise_error("expected iterator_types = […]", start, parser.pos)
    for name, text in texts.items():
        if text is not None and not isinstance(text, StringAttr):
            parser.raise_error(f"expected a string as {name}", start, parser.pos)
    written = cast("ArrayAttr[Attribute]", iterators).data
    iterator_types = [_iterator_type(parser, attr, start) for attr in written]
    inputs = parse_operand_group(parser, "ins")
    outputs = parse_operand_group(parser, "outs")
    if parser.parse_optional_keyword("attrs") is not None:
        parser.parse_punctuation("=")
        attributes |= parser.parse_optional_attr_dict()
    body = parser.parse_region()
    generic = GenericOp(
        inputs,
        outputs,
        body,
        maps,
        iterator_types,
        parse_result_types(parser),
        cast("StringAttr | None", texts["doc"]),
        cast("StringAttr | None", texts["library_call"]),
    )
    generic.attributes |= attributes
    return generic


def parse_fill(parser: Parser) -> Operation:
    """`linalg.fill`; xDSL does not read one of `index`, nor attributes before the operands."""
    attributes = parser.parse_optional_attr_dict()
    inputs = parse_operand_group(parser, "ins")
    outputs = parse_operand_group(parser, "outs")
    if not inputs or not outputs:
        parser.raise_error("expected an input and an output")
    arg_types = [element_type_of(value.type) for value in (*inputs, *outputs)]
    return FillOp.build(
        operands=(inputs, outputs),
        result_types=(parse_result_types(parser),),
        attributes=attributes,
        regions=(copy_body(arg_types),),
    )


def _is_maps(attr: Attribute | None) -> TypeGuard[ArrayAttr[AffineMapAttr]]:
    # `isa` takes longer than parsing the maps.
    if not isinstance(attr, ArrayAttr):
        return False
    parts = cast("ArrayAttr[Attribute]", attr).data
    return all(isinstance(part, AffineMapAttr) for part in parts)


def _iterator_type(parser: Parser, attr: Attribute, position: int) -> IteratorTypeAttr:
    if isinstance(attr, IteratorTypeAttr):
        return attr
    if isinstance(attr, StringAttr) and attr.data in _ITERATOR_TYPES:
        return _ITERATOR_TYPES[attr.data]
    parser.raise_error(f"unknown iterator type {attr}", position, parser.pos)


def _parse_rounding(parser: Parser) -> None:
    """Accept the rounding mode that convir computes in, which is MLIR's when none is written."""
    if parser.parse_optional_keyword("to_nearest_even") is not None:
        return
    position = parser.pos
    modes = ("downward", "upward", "toward_zero", "to_nearest_away")
    if (mode := parser.parse_optional_keyword_in(modes)) is not None:
        parser.raise_error(f"rounding mode '{mode}' is not supported", position, parser.pos)


def _skip_permissions(parser: Parser) -> None:
    """Skip flags that only allow a compiler more, none of which convir makes use of."""
    parser.parse_optional_keyword("nneg")
    for keyword in ("fastmath", "overflow"):
        if parser.parse_optional_keyword(keyword) is not None:
            parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_identifier)


def _cast_parser(op_class: type[Operation]) -> Callable[[Parser], Operation]:
    def parse(parser: Parser) -> Operation:
        source = parser.parse_unresolved_operand()
        _parse_rounding(parser)
        _skip_permissions(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_keyword("to")
        result_type = parser.parse_type()
        operand = parser.resolve_operand(source, source_type)
        return op_class.create(
            operands=[operand], result_types=[result_type], attributes=attributes
        )

    return parse


def _float_binary_parser(op_class: type[Operation]) -> Callable[[Parser], Operation]:
    def parse(parser: Parser) -> Operation:
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        _parse_rounding(parser)
        flags = _parse_fastmath(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        result_type = parser.parse_type()
        return op_class.create(
            operands=[parser.resolve_operand(operand, result_type) for operand in (lhs, rhs)],
            result_types=[result_type],
            properties={"fastmath": flags},
            attributes=attributes,
        )

    return parse


def _parse_fastmath(parser: Parser) -> FastMathFlagsAttr:
    if parser.parse_optional_keyword("fastmath") is None:
        return FastMathFlagsAttr("none")
    return FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))


def parse_comparison(parser: Parser, op_class: type[arith.CmpfOp | arith.CmpiOp]) -> Operation:
    """`arith.cmpf` or `arith.cmpi`, whose result has its operands' shape; xDSL's is one i1."""
    is_float = op_class is arith.CmpfOp
    names = CMPF_COMPARISON_OPERATIONS if is_float else CMPI_COMPARISON_OPERATIONS
    start = parser.pos
    name = parser.parse_optional_str_literal()
    if name is None:
        name = parser.parse_identifier("expected a predicate")
    if name not in names:
        message = f"unknown predicate '{name}', expected one of {', '.join(names)}"
        parser.raise_error(message, start, parser.pos)
    properties: dict[str, Attribute] = {"predicate": IntegerAttr(names.index(name), i64)}
    operands: list[UnresolvedOperand] = []
    for _ in range(2):
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
    if is_float:
        properties["fastmath"] = _parse_fastmath(parser)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    operand_type = parser.parse_type()
    return op_class.create(
        operands=[parser.resolve_operand(operand, operand_type) for operand in operands],
        result_types=[condition_type_of(operand_type)],
        properties=properties,
        attributes=attributes,
    )


def parse_select(parser: Parser) -> Operation:
    """`arith.select`, whose condition may be a tensor of i1 written before the result's type."""
    operands = [parser.parse_unresolved_operand()]
    for _ in range(2):
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    condition_type: Attribute = i1
    result_type = parser.parse_type()
    if parser.parse_optional_punctuation(",") is not None:
        condition_type, result_type = result_type, parser.parse_type()
    types = (condition_type, result_type, result_type)
    return arith.SelectOp.create(
        operands=parser.resolve_operands(operands, types, parser.pos),
        result_types=[result_type],
        attributes=attributes,
    )


def parse_func(parser: Parser) -> Operation:
    """`func.func`; xDSL drops the attributes of the arguments of a declaration."""
    visibility = parser.parse_optional_visibility_keyword()
    name = parser.parse_symbol_name()
    start = parser.pos
    named: list[Parser.Argument] = []
    inputs: list[Attribute] = []
    argument_attrs: list[Mapping[str, Attribute]] = []

    def parse_input() -> None:
        argument = parser.parse_optional_argument()
        inputs.append(parser.parse_type() if argument is None else argument.type)
        argument_attrs.append(parser.parse_optional_dictionary_attr_dict())
        location = parser.parse_optional_location()
        if argument is not None:
            argument.location = location
            named.append(argument)

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_input)
    if named and len(named) != len(inputs):
        parser.raise_error("either all arguments have names or none has", start, parser.pos)
    outputs, result_attrs = _parse_func_results(parser)
    reserved = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
    attributes = parser.parse_optional_attr_dict_with_keyword(reserved)
    body = parser.parse_optional_region(named if named or not inputs else None)
    function = func.FuncOp(
        name.data,
        (inputs, outputs),
        Region() if body is None else body,
        visibility,
        arg_attrs=_attrs_array(argument_attrs),
        res_attrs=_attrs_array(result_attrs),
    )
    if attributes is not None:
        function.attributes |= attributes.data
    return function


def _parse_func_results(
    parser: Parser,
) -> tuple[list[Attribute], list[Mapping[str, Attribute]]]:
    if parser.parse_optional_punctuation("->") is None:
        return [], []
    types: list[Attribute] = []
    attrs: list[Mapping[str, Attribute]] = []

    def parse_result() -> None:
        types.append(parser.parse_type())
        attrs.append(parser.parse_optional_dictionary_attr_dict())

    if parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parse_result) is None:
        types.append(parser.parse_type())
    return types, attrs


def _attrs_array(attrs: Sequence[Mapping[str, Attribute]]) -> ArrayAttr[DictionaryAttr] | None:
    return ArrayAttr(DictionaryAttr(entry) for entry in attrs) if any(attrs) else None


def parse_empty(parser: Parser) -> Operation:
    """`tensor.empty(…) {attributes} : type`; xDSL has no attributes there."""
    start = parser.pos
    sizes = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    empty = tensor.EmptyOp(
        parser.resolve_operands(sizes, (IndexType(),) * len(sizes), start), parser.parse_type()
    )
    empty.attributes |= attributes
    return empty


def parse_apply(parser: Parser) -> Operation:
    """`affine.apply map(…)[…] {attributes}`; xDSL has no attributes there."""
    from xdsl.dialects.affine import ApplyOp  # noqa: PLC0415  (it brings memref with it)

    apply = ApplyOp.parse(parser)
    apply.attributes |= parser.parse_optional_attr_dict()
    return apply


def parse_memref_copy(parser: Parser) -> Operation:
    """`memref.copy %from, %to : type to type`, for which xDSL has no syntax."""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    target = parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    source_type = parser.parse_type()
    parser.parse_keyword("to")
    target_type = parser.parse_type()
    from xdsl.dialects.memref import CopyOp  # noqa: PLC0415  (few modules hold memrefs)

    copy = CopyOp(
        parser.resolve_operand(source, source_type), parser.resolve_operand(target, target_type)
    )
    copy.attributes |= attributes
    return copy


CUSTOM_SYNTAX: Mapping[str, Callable[[Parser], Operation]] = {
    FillOp.name: parse_fill,
    GenericOp.name: parse_generic,
    arith.CmpfOp.name: partial(parse_comparison, op_class=arith.CmpfOp),
    arith.CmpiOp.name: partial(parse_comparison, op_class=arith.CmpiOp),
    arith.SelectOp.name: parse_select,
    func.FuncOp.name: parse_func,
    "affine.apply": parse_apply,
    "memref.copy": parse_memref_copy,
    tensor.EmptyOp.name: parse_empty,
    **{
        op_class.name: _cast_parser(op_class)
        for op_class in (
            arith.ExtFOp,
            arith.ExtSIOp,
            arith.ExtUIOp,
            arith.SIToFPOp,
            arith.TruncFOp,
            arith.TruncIOp,
            arith.UIToFPOp,
        )
    },
    **{
        op_class.name: _float_binary_parser(op_class)
        for op_class in (arith.AddfOp, arith.DivfOp, arith.MulfOp, arith.SubfOp)
    },
}
"""Parsers that stand in for an op class's own."""
