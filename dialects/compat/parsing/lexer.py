"""An MLIR lexer that reads each token with one regular expression.

xDSL's lexer spends most of the parser's time, one small step at a time, and backtracks without
bound over a string literal that is never closed. This one accepts the same tokens.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRLexer,
    MLIRTokenKind,
    StringLiteral,
)

if TYPE_CHECKING:
    from xdsl.utils.lexer import Input, Position
    from xdsl.utils.mlir_lexer import MLIRToken

# The possessive `++` keeps an unclosed literal linear.
_STRING = r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"'
_SUFFIX = r"(?:[0-9]+|[A-Za-z$._-][\w$.-]*)"

# One group per kind of token, the most frequent ones first. `0xi32` is the integer 0 followed by
# an identifier, so a hexadecimal literal needs a digit after its `x`.
_TOKEN_GROUPS: tuple[tuple[str, MLIRTokenKind | None], ...] = (
    (r"[A-Za-z_][\w$.]*", MLIRTokenKind.BARE_IDENT),
    (r"->|\{-\#|\#-\}|\.\.\.|[:,()\[\]<>={}?+\-*/|]", None),
    (rf"%{_SUFFIX}", MLIRTokenKind.PERCENT_IDENT),
    (r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?", MLIRTokenKind.FLOAT_LIT),
    (r"0x[0-9A-Fa-f]+|[0-9]+", MLIRTokenKind.INTEGER_LIT),
    (_STRING, MLIRTokenKind.STRING_LIT),
    (rf"\#{_SUFFIX}", MLIRTokenKind.HASH_IDENT),
    (rf"\^{_SUFFIX}", MLIRTokenKind.CARET_IDENT),
    (rf"!{_SUFFIX}", MLIRTokenKind.EXCLAMATION_IDENT),
    (rf"@(?:[A-Za-z_][\w$.]*|{_STRING})", MLIRTokenKind.AT_IDENT),
    (r"\Z", MLIRTokenKind.EOF),
)
_TOKEN = re.compile(
    r"(?:\s++|//[^\n]*+)*+(?:" + "|".join(f"({pattern})" for pattern, _ in _TOKEN_GROUPS) + ")?",
    re.ASCII,
)
_KINDS: tuple[MLIRTokenKind | None, ...] = (None, *(kind for _, kind in _TOKEN_GROUPS))


_BARE_IDENTIFIER = 1

MAX_IDENTIFIER = 2**14
"""The longest identifier, in characters: a parser that takes one apart reads its rest each time."""


class LexedToken(Token[MLIRTokenKind, str]):
    """A token that keeps its text, and makes its span only when asked for it."""

    start: Position
    """Where the token begins, in code points from the start of the input."""

    def __init__(self, kind: MLIRTokenKind, text: str, start: Position, source: Input[str]):
        self.kind = kind
        self._text = text
        self.start = start
        self._source = source

    @property
    def text(self) -> str:
        """The token as it stands in the input."""
        return self._text

    @property
    def span(self) -> Span[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The token's place in the input."""
        return Span(self.start, self.start + len(self.text), self._source)


class ConvirLexer(MLIRLexer):
    """xDSL's MLIR lexer, faster and linear in the length of any input."""

    def lex(self) -> MLIRToken:
        """The next token.

        Raises:
            ParseError: no token begins here.
        """
        match = _TOKEN.match(self.input.content, self.pos)
        assert match is not None  # every part of the expression is optional
        group = match.lastindex
        if group is None:
            self._raise_no_token(match.end())
        self.pos = match.end()
        text = match[group]
        if len(text) > MAX_IDENTIFIER and group == _BARE_IDENTIFIER:
            start = match.start(group)
            span = Span(start, start + 1, self.input)
            raise ParseError(span, f"identifier is longer than {MAX_IDENTIFIER} characters")
        kind = _KINDS[group] or KIND_BY_PUNCTUATION_SPELLING[text]
        if kind is MLIRTokenKind.STRING_LIT and "\\" in text:
            kind = _kind_of_escaped(StringLiteral(match.start(group), self.pos, self.input))
        return LexedToken(kind, text, match.start(group), self.input)

    def _raise_no_token(self, start: Position):
        character = self.input.content[start]
        span = Span(start, start + 1, self.input)
        self.pos = start + 1
        if character == '"':
            raise ParseError(span, "string literal is not closed on its line or has a bad escape")
        if character in "%#^!@":
            raise ParseError(span, f"expected an identifier after '{character}'")
        raise ParseError(span, f"unexpected character {character!a}")


def _kind_of_escaped(literal: StringLiteral) -> MLIRTokenKind:
    # As in xDSL: a literal whose escapes leave ASCII is bytes, not text.
    if literal.bytes_contents.isascii():
        return MLIRTokenKind.STRING_LIT
    return MLIRTokenKind.BYTES_LIT
