"""What makes importing xDSL quicker, for a tool whose runs are mostly imports.

Nothing here changes what xDSL does; a library that never calls `install` only loads more slowly.

- The assembly format of every op class of a dialect is parsed when the class is made, most of
  them for ops that the input does not hold: here, when the first such op is read or printed.
- linalg imports the whole math dialect for three ops: here, when one of them is built.
- `dataclasses` writes six methods as text for each of 300 classes and compiles them: here, texts
  that occurred before are not compiled again, and `__repr__` and what keeps a frozen instance
  frozen are compiled when they are called, which is next to never.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from functools import cache, cached_property, partial
from importlib.util import LazyLoader, find_spec, module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
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
    if sys.version_info < (3, 13):  # since then, one text for all methods of a class
        # A name of a module hides the builtin of that name.
        dataclasses.exec = _execute  # pyright: ignore[reportAttributeAccessIssue]
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
_RARELY_CALLED = frozenset(("__repr__", "__setattr__", "__delattr__"))
_MAKER = "__create_fn__"
_METHOD = re.compile(r"\n def (\w+)\(")


def _execute(text: str, module: dict[str, object], names: dict[str, object]) -> None:
    """Stands for `exec` in `dataclasses`, whose texts define a function that makes a method."""
    method = _METHOD.search(text)
    if method is not None and method[1] in _RARELY_CALLED:
        names[_MAKER] = partial(_method_made_when_called, method[1], text, module)
        return
    code = _COMPILED.get(text)
    if code is None:
        code = _COMPILED[text] = compile(text, "<dataclass>", "exec")
    exec(code, module, names)


def _method_made_when_called(
    name: str, text: str, module: dict[str, object], **given: object
) -> Callable[..., object]:
    made: list[Callable[..., object]] = []

    def method(self: object, *arguments: object) -> object:
        if not made:
            names: dict[str, Callable[..., Callable[..., object]]] = {}
            exec(text, module, names)
            made.append(names[_MAKER](**given))
        return made[0](self, *arguments)

    method.__name__ = name
    return method
