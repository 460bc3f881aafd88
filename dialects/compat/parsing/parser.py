"""The parser: xDSL's, reading everything that MLIR writes, and failing only with a `ParseError`.

What differs from xDSL's, each a measured defect:

- a dense splat is stored as one element, and hexadecimal floats are bit patterns (`literals`);
- an op carries the place of its name in the text as its location;
- any exception of an op's own parser becomes a `ParseError` at that op, and so does nesting
  deeper than Python's stack;
- an input without an op is an empty module; one that is not UTF-8 is an error at its bad byte;
- locations of every kind are read, and aliases that are defined after their use;
- external resources, such as the pipeline of a reproducer, are read over;
- a value that is never defined is reported where it is used;
- shapes and affine maps are parsed once for each spelling, and a region does not copy the names
  in scope, so that time grows with the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.parser import Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from convir.dialects.compat.errors import reason_of
from convir.dialects.compat.parsing.lexer import ConvirLexer
from convir.dialects.compat.parsing.literal_parser import LiteralParser
from convir.dialects.compat.parsing.location_parser import LocationParser
from convir.dialects.compat.syntax import CUSTOM_SYNTAX
from convir.dialects.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.context import Context
    from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
    from xdsl.parser import UnresolvedOperand
    from xdsl.utils.lexer import Position

MAX_DIMENSION = 2**63 - 1
"""The largest dimension of a shape, as in MLIR."""
MAX_INTEGER_BITS = 2**24 - 1
"""The widest integer type, in bits, as in MLIR."""

_SIMPLE_SHAPED_TYPE = re.compile(
    r"(?:tensor|memref|vector)<(?:[0-9?]+x)*(?:b?f[0-9]+|i[0-9]+|index)>"
)
_DIMENSIONS = re.compile(r"(?:(?:[0-9]+|\?)x)++")
_SIMPLE_AFFINE_MAP = re.compile(r"affine_map<\([\w, ]*\) -> \([^<>\n]*\)>")

_AttributeT = TypeVar("_AttributeT", bound="Attribute")


class _Names(dict[str, "tuple[SSAValue, ...]"]):
    """The values in scope, in the order of their definition.

    No name is defined twice, so leaving a scope is dropping the newest ones: nothing is copied.
    """

    def copy(self) -> _Names:
        return self


class ConvirParser(LiteralParser, LocationParser, Parser):
    """xDSL's parser, with the changes that this module's docstring lists."""

    def __init__(
        self, ctx: Context, input: str | bytes, name: str = "<unknown>", *, line_offset: int = 0
    ):
        """Begin to parse `input`, which stands `line_offset` lines down in the file `name`.

        Raises:
            ParseError: the input is not UTF-8, or does not begin with a token.
        """
        super().__init__(ctx, "", name)
        self._line_offset = line_offset
        try:
            text = input if isinstance(input, str) else _decoded(input, name)
            self._parser_state = ParserState(ConvirLexer(Input(text, name)))
        except ParseError as error:
            error.span = self._shifted(error.span)
            raise
        self.ssa_values = _Names()
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._filename = StringAttr(name)
        self._defined_early = set()
        self._first_uses: dict[str, Span] = {}
        self._parsed_types: dict[str, TypeAttribute] = {}
        self._parsed_maps: dict[str, Attribute] = {}
        self._interned: dict[int, IntAttr] = {}

    # Modules and operations.

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The module that is the whole input, or the one that its ops make.

        Raises:
            ParseError: the input is not MLIR.
        """
        try:
            module = self._parse_top_level(allow_implicit_module)
        except ParseError as error:
            error.span = self._shifted(error.span)
            raise
        except Exception as error:
            span = self._shifted(self._current_token.span)
            raise ParseError(span, reason_of(error) or "malformed input") from error
        return module

    def _parse_top_level(self, allow_implicit_module: bool) -> ModuleOp:
        ops: list[Operation] = []
        while (kind := self._current_token.kind) is not MLIRTokenKind.EOF:
            if kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
                self._parse_alias_def()
            elif kind is MLIRTokenKind.FILE_METADATA_BEGIN:
                self._parse_file_metadata_dictionary()
            elif (op := self.parse_optional_operation()) is not None:
                ops.append(op)
            else:
                self.raise_error("expected an operation")
        for name in self.forward_ssa_references:
            self.raise_error(f"use of undeclared SSA value %{name}", self._first_uses.get(name))
        if len(ops) == 1 and isinstance(ops[0], ModuleOp):
            return ops[0]
        if not allow_implicit_module:
            self.raise_error("builtin.module operation expected", 0)
        module = ModuleOp(ops)
        module.location = self._location_at(0)
        return module

    def parse_operation(self) -> Operation:
        """One operation, custom or generic, with its location and its results' names registered.

        Raises:
            ParseError: at the place that is wrong, or at the op's name where its own parser failed.
        """
        results = self._parse_op_result_list()
        name = self._current_token
        try:
            op = self._parse_named_operation()
        except ParseError:
            raise
        except Exception as error:
            reason = reason_of(error) or "is malformed"
            raise ParseError(name.span, f"'{name.text}' op {reason}") from error
        if isinstance(op.location, UnknownLoc):
            op.location = self._location_at(name.span.start)
        self._bind_results(op, results, name.span)
        return op

    def _parse_named_operation(self) -> Operation:
        name = self._current_token
        if name.kind is MLIRTokenKind.BARE_IDENT:
            self._consume_token()
            op_type = self._op_type(name.text, name.span)
            parse = CUSTOM_SYNTAX.get(op_type.name, op_type.parse)
        else:
            op_name = self.expect(self.parse_optional_str_literal, "operation name expected")
            op_type = self._op_type(op_name, name.span)
            parse = None
        dialects = self._parser_state.dialect_stack
        dialects.append(op_type.dialect_name())
        op = self._parse_generic_operation(op_type) if parse is None else parse(self)
        dialects.pop()
        if parse is not None and (location := self.parse_optional_location()) is not None:
            op.location = location
        return op

    def _op_type(self, name: str, span: Span) -> type[Operation]:
        op_type = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if op_type is not None:
            return op_type
        prefix, dot, _ = name.partition(".")
        dialect = self.ctx.get_optional_dialect(prefix)
        if dialect is not None:
            hint = did_you_mean(name, (op.name for op in dialect.operations))
            self.raise_error(f"unknown operation '{name}'{hint}", span)
        if not dot:
            self.raise_error(f"unknown operation '{name}'", span)
        hint = did_you_mean(prefix, self.ctx.registered_dialect_names)
        self.raise_error(f"dialect '{prefix}' of operation '{name}' is not registered{hint}", span)

    def _bind_results(self, op: Operation, names: list[tuple[Span, int]], at: Span) -> None:
        count = sum(size for _, size in names)
        if names and count != len(op.results):
            self.raise_error(
                f"operation defines {len(op.results)} results but was given {count} to bind", at
            )
        first = 0
        for span, size in names:
            if size < 1:
                self.raise_error("expected an op to have at least one result in a group", span)
            self._register_ssa_definition(span.text[1:], op.results[first : first + size], span)
            first += size

    def _parse_external_resources(self) -> None:
        """Read over what tools keep beside a module, such as the pipeline of a reproducer."""

        def resource() -> None:
            self.expect(self._parse_optional_resource_key, "expected a key")
            self.parse_punctuation(":")
            self.expect(self._parse_optional_resource_value, "expected a value")

        def group() -> None:
            self.expect(self._parse_optional_resource_key, "expected a key")
            self.parse_punctuation(":")
            self.parse_comma_separated_list(self.Delimiter.BRACES, resource)

        self.parse_comma_separated_list(self.Delimiter.BRACES, group)

    def _parse_optional_resource_key(self) -> str | None:
        return self.parse_optional_identifier() or self.parse_optional_str_literal()

    def _parse_optional_resource_value(self) -> str | bool | None:
        value = self.parse_optional_str_literal()
        return self.parse_optional_boolean() if value is None else value

    # Values and their scopes.

    def parse_optional_region(
        self, arguments: Iterable[Parser.Argument] | None = None
    ) -> Region | None:
        """A region, if one begins here; the names that it defines end with it."""
        outside = len(self.ssa_values)
        region = super().parse_optional_region(arguments)
        while len(self.ssa_values) > outside:
            self.ssa_values.popitem()
        return region

    def _parse_block(self) -> Block:
        if self._current_token.kind is not MLIRTokenKind.CARET_IDENT:
            self.raise_error("expected an operation, a block label or '}'")
        return super()._parse_block()

    def resolve_operand(
        self, operand: UnresolvedOperand, type: _AttributeT
    ) -> SSAValue[_AttributeT]:
        """The value that `operand` names, or a placeholder until it is defined."""
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    # Locations.

    def _location_at(self, position: Position) -> FileLineColLoc:
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return FileLineColLoc(
            self._filename, self._int_attr(line + self._line_offset), self._int_attr(column)
        )

    def _int_attr(self, value: int) -> IntAttr:
        attr = self._interned.get(value)
        if attr is None:
            attr = self._interned[value] = IntAttr(value)
        return attr

    def _shifted(self, span: Span[str] | Span[bytes]) -> Span[str]:
        return Span(span.start, span.end, cast("Input[str]", span.input), self._line_offset)

    # Types and attributes.

    def _parse_extended_type_or_attribute(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, attr_or_dialect_name: str, is_type: bool
    ) -> Attribute:
        alias = ("!" if is_type else "#") + attr_or_dialect_name
        if alias not in self.attribute_aliases and "." not in alias:
            self._define_early(alias)
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)

    def _parse_optional_builtin_parametrized_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT:
            return None
        match = _SIMPLE_SHAPED_TYPE.match(self._content, token.span.start)
        if match is None:
            return super()._parse_optional_builtin_parametrized_type()
        spelling = match[0]
        if (parsed := self._parsed_types.get(spelling)) is not None:
            self._resume_from(match.end())
            return parsed
        parsed = super()._parse_optional_builtin_parametrized_type()
        if parsed is not None:
            self._parsed_types[spelling] = parsed
        return parsed

    def _parse_optional_builtin_parametrized_attr(self) -> Attribute | None:
        token = self._current_token
        if token.text != "affine_map":
            return super()._parse_optional_builtin_parametrized_attr()
        match = _SIMPLE_AFFINE_MAP.match(self._content, token.span.start)
        if match is None:
            return super()._parse_optional_builtin_parametrized_attr()
        spelling = match[0]
        if (parsed := self._parsed_maps.get(spelling)) is not None:
            self._resume_from(match.end())
            return parsed
        parsed = super()._parse_optional_builtin_parametrized_attr()
        if parsed is not None:
            self._parsed_maps[spelling] = parsed
        return parsed

    @property
    def _content(self) -> str:
        return self.lexer.input.content

    def parse_ranked_shape(self) -> tuple[list[int], Attribute]:
        """The dimensions of a shape, DYNAMIC_INDEX where unknown, and its element type.

        xDSL takes the time of the rest of the shape for each dimension, since `x4x4xf32` is a
        token.
        """
        token = self._current_token
        match = _DIMENSIONS.match(self._content, token.span.start)
        if match is None:
            return super().parse_ranked_shape()
        sizes = match[0].split("x")[:-1]
        dims = [DYNAMIC_INDEX if size == "?" else int(size) for size in sizes]
        if any(size > MAX_DIMENSION for size in dims):
            self.raise_error("dimension does not fit in 64 bits", token.span)
        self._resume_from(match.end())
        return dims, self.expect(self.parse_optional_type, "expected an element type")

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        """One dimension of a shape: a decimal, or `?` for DYNAMIC_INDEX.

        Raises:
            ParseError: neither, or wider than 64 bits.
        """
        span = self._current_token.span
        dimension = super().parse_shape_dimension(allow_dynamic)
        if dimension > MAX_DIMENSION:
            self.raise_error("dimension does not fit in 64 bits", span)
        return dimension

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.kind is MLIRTokenKind.BARE_IDENT:
            match = self._builtin_integer_type_regex.match(token.text)
            if match is not None and not 0 < int(match[1]) <= MAX_INTEGER_BITS:
                self.raise_error(f"integer width must be from 1 to {MAX_INTEGER_BITS} bits")
        return super()._parse_optional_integer_or_float_type()


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _raise_not_text(data[: error.start].decode("utf-8"), data[error.start], name)


def _raise_not_text(before: str, byte: int, name: str) -> NoReturn:
    span = Span(len(before), len(before) + 1, Input(before + "\N{REPLACEMENT CHARACTER}", name))
    raise ParseError(span, f"not UTF-8 text: byte 0x{byte:02X}")
