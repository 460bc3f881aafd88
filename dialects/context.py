"""The one way to get a context that knows every dialect, and to read a module with it."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.utils.exceptions import ParseError

from convir.dialects import compat
from convir.dialects.compat.parsing.parser import ConvirParser
from convir.dialects.conv.constant import move_blobs
from convir.dialects.diagnostics import DiagnosticError, diagnostic_of, verify
from convir.dialects.installed import RegisteredDialects, installed_universe
from convir.dialects.registry import CONVIR_DIALECTS, OVERLAYS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_BLOB = b"#conv.blob"


def new_context(*, allow_unregistered: bool = False) -> Context:
    """A context with xDSL's dialects, convir's overlays and convir's own dialects registered.

    The dialects of other packages are found when one of them is met.
    """
    compat.install()
    known = RegisteredDialects({**get_all_dialects(), **OVERLAYS, **CONVIR_DIALECTS})
    return Context(allow_unregistered, _registered_dialects=known)


def dialect_names() -> tuple[str, ...]:
    """The dialects that can be read, those of other packages too, in alphabetical order."""
    known = {**installed_universe().all_dialects, **get_all_dialects(), **CONVIR_DIALECTS}
    return tuple(sorted(known))


def parse_module(
    text: str | bytes,
    name: str = "<string>",
    ctx: Context | None = None,
    *,
    line_offset: int = 0,
) -> ModuleOp:
    """Parse MLIR text into a module that is not yet verified.

    `line_offset` is the number of lines of the file `name` that stand before `text`. The files of
    blobs are relative to the folder of `name`, and are made relative to the working directory.

    Raises:
        ParseError: the text is not MLIR, with the span of the first error.
    """
    ctx = new_context() if ctx is None else ctx
    module = ConvirParser(ctx, text, name, line_offset=line_offset).parse_module()
    folder = os.path.dirname(name)
    if folder and _BLOB in (text if isinstance(text, bytes) else text.encode()):
        move_blobs(module, lambda file: os.path.normpath(os.path.join(folder, file)))
    return module


def read_module(
    text: str | bytes,
    name: str = "<string>",
    ctx: Context | None = None,
    *,
    line_offset: int = 0,
) -> ModuleOp:
    """Parse MLIR text into a module and verify it.

    Raises:
        DiagnosticError: the text is not a valid module; nothing else is ever raised.
    """
    try:
        module = parse_module(text, name, ctx, line_offset=line_offset)
    except ParseError as error:
        raise DiagnosticError(diagnostic_of(error)) from error
    verify(module)
    return module
