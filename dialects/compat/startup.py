"""What makes importing xDSL quicker, for a tool whose runs are mostly imports.

Nothing here changes what xDSL does; a library that never calls `install` only loads more slowly.

- The assembly format of every op class of a dialect is parsed when the class is made, most of
  them for ops that the input does not hold: here, when the first such op is read or printed.
- linalg imports the whole math dialect for three ops: here, when one of them is built.
- Of the six functions that `dataclasses` writes as text for each of 300 classes, every third was
  written before for another class: here, each text is compiled once.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cache, cached_property
from importlib.util import LazyLoader, find_spec, module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from xdsl.irdl import IRDLOperation, OpDef
    from xdsl.irdl.declarative_assembly_format import FormatProgram
    from xdsl.parser import Parser
    from xdsl.printer import Printer

LAZY_MODULES = ("xdsl.dialects.math",)
"""Modules that others import but rarely use."""


class DeferredFormat:
    """Stands for the `FormatProgram` that its text means, which is made on first use."""

    def __init__(self, text: str, op_def: OpDef) -> None:
        self._text = text
        self._op_def = op_def

    @cached_property
    def program(self) -> FormatProgram:
        """The parsed format.

        Raises:
            ParseError: the text is not an assembly format.
        """
        from xdsl.irdl.declarative_assembly_format_parser import FormatParser  # noqa: PLC0415

        return FormatParser(self._text, self._op_def).parse_format()

    def parse(self, parser: Parser, op_type: type[IRDLOperation]) -> IRDLOperation:
        """Read one op of the class."""
        return self.program.parse(parser, op_type)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        """Write one op of the class."""
        self.program.print(printer, op)


@cache
def install() -> None:
    """Take effect for every module imported from now on; calling it again does nothing."""
    # A name of a module hides the builtin of that name.
    dataclasses.exec = _compile_once_and_execute  # pyright: ignore[reportAttributeAccessIssue]
    from xdsl.irdl.declarative_assembly_format import FormatProgram  # noqa: PLC0415

    FormatProgram.from_str = DeferredFormat  # pyright: ignore[reportAttributeAccessIssue]
    for name in LAZY_MODULES:
        _load_on_first_use(name)


def _load_on_first_use(name: str) -> None:
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader = LazyLoader(spec.loader)
    spec.loader = loader
    module = module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    package, _, child = name.rpartition(".")
    setattr(sys.modules[package], child, module)  # else `from package import child` looks inside


_COMPILED: dict[str, CodeType] = {}


def _compile_once_and_execute(
    text: str, module: dict[str, object], names: Mapping[str, object]
) -> None:
    code = _COMPILED.get(text)
    if code is None:
        code = _COMPILED[text] = compile(text, "<dataclass>", "exec")
    exec(code, module, names)
