"""The one way to get a context that knows every dialect, and to read a module with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.parser import Parser

from convir.dialects.registry import CONVIR_DIALECTS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def new_context(*, allow_unregistered: bool = False) -> Context:
    """A context with xDSL's dialects, convir's overlays and convir's own dialects registered."""
    ctx = Context(allow_unregistered=allow_unregistered)
    for name, factory in {**get_all_dialects(), **CONVIR_DIALECTS}.items():
        ctx.register_dialect(name, factory)
    return ctx


def parse_module(text: str | bytes, name: str = "<string>", ctx: Context | None = None) -> ModuleOp:
    """Parse MLIR text into a module that is not yet verified.

    Raises:
        ParseError: the text is not MLIR, with the span of the first error.
    """
    return Parser(new_context() if ctx is None else ctx, text, name).parse_module()
