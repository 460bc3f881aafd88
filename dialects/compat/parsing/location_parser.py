"""The part of the parser that reads locations, and aliases that are used before their definition.

MLIR prints the aliases of locations after the module that uses them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.parser import AttrParser
from xdsl.utils.hints import isa
from xdsl.utils.mlir_lexer import MLIRTokenKind

if TYPE_CHECKING:
    from xdsl.ir import Attribute

_MARK = re.compile(r"^[ \t]*([#!][\w$.-]+)[ \t]*=", re.MULTILINE | re.ASCII)


class LocationParser(AttrParser):
    """Locations, and the definitions of aliases."""

    _definitions: dict[str, int] | None = None
    """Where each alias is defined, once an alias has been used before its definition."""
    _defined_early: set[str]

    def _parse_location(self) -> LocationAttr:
        token = self._current_token
        if token.kind is MLIRTokenKind.STRING_LIT:
            return self._parse_named_or_file_location()
        if token.kind is MLIRTokenKind.HASH_IDENT:
            alias = self.parse_attribute()
            if isa(alias, LocationAttr):
                return alias
            self.raise_error("expected a location alias", token.span)
        match self.parse_optional_identifier():
            case "unknown":
                return UnknownLoc()
            case "callsite":
                with self.in_parens():
                    callee = self._parse_location()
                    self.parse_keyword("at")
                    return CallSiteLoc(callee, self._parse_location())
            case "fused":
                return self._parse_fused_location()
            case _:
                self.raise_error("expected a location", token.span)

    def _parse_named_or_file_location(self) -> LocationAttr:
        text = StringAttr(self.parse_str_literal())
        if self.parse_optional_punctuation(":") is None:
            if self._current_token.kind is not MLIRTokenKind.L_PAREN:
                return NameLoc(text, NoneAttr())
            with self.in_parens():
                return NameLoc(text, self._parse_location())
        line = self.parse_integer(allow_boolean=False, allow_negative=False)
        self.parse_punctuation(":")
        column = self.parse_integer(allow_boolean=False, allow_negative=False)
        if self.parse_optional_keyword("to") is not None:
            # xDSL has no ranges: the beginning is kept.
            self.parse_optional_integer(allow_boolean=False, allow_negative=False)
            self.parse_punctuation(":")
            self.parse_integer(allow_boolean=False, allow_negative=False)
        return FileLineColLoc(text, IntAttr(line), IntAttr(column))

    def _parse_fused_location(self) -> LocationAttr:
        metadata: Attribute = NoneAttr()
        if self.parse_optional_punctuation("<") is not None:
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(tuple(parts), metadata)

    def _define_early(self, alias: str) -> None:
        """Read the definition of `alias` that stands further down, if there is one."""
        content = self.lexer.input.content
        if self._definitions is None:
            # Nothing but a definition begins a line so, save in a string or a comment, and what
            # is read there by mistake is an alias that the text lacks.
            self._definitions = {match[1]: match.start(1) for match in _MARK.finditer(content)}
        position = self._definitions.pop(alias, None)
        if position is None:
            return
        resume = self._current_token.span.start
        self._resume_from(position)
        self._consume_token()
        self.parse_punctuation("=", " after alias name")
        self.attribute_aliases[alias] = self.parse_attribute()
        self._defined_early.add(alias)
        self._resume_from(resume)

    def _parse_alias_def(self) -> None:
        token = self._consume_token()
        self.parse_punctuation("=", " after alias name")
        value = self.parse_attribute()
        if token.text in self._defined_early:
            self._defined_early.remove(token.text)
        elif token.text in self.attribute_aliases:
            self.raise_error(f"redefinition of alias '{token.text}'", token.span)
        self.attribute_aliases[token.text] = value
