"""What makes importing xDSL quicker, for runs that are mostly imports.

Nothing here changes what xDSL or convir do. A tool calls `install` once; a library takes it back
as soon as its compiler is imported (`quick_imports`).

- The assembly format of every op class of a dialect is parsed when the class is made, most of
  them for ops that the input does not hold: here, when the first such op is read or printed.
- `dataclasses` writes up to six methods as text for each of 460 classes of xDSL's and ours and
  compiles them, most of them never called: here, a method is compiled when it is first called,
  and takes the place of what stood for it.
- linalg imports the whole math dialect for three ops: in a tool, when one of them is built.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from contextlib import contextmanager
from functools import cache, cached_property, partial
from importlib.util import LazyLoader, find_spec, module_from_spec
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

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
    _WANTED.enter()
    for name in LAZY_MODULES:
        _load_on_first_use(name)


@contextmanager
def quick_imports() -> Generator[None]:
    """Take effect for what any thread imports meanwhile of xDSL and of convir."""
    _WANTED.enter()
    try:
        yield
    finally:
        _WANTED.leave()


class _Wanted:
    """How many want quick imports now; hooks that nobody wants do as what they stand for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.count = 0

    def enter(self) -> None:
        with self._lock:
            self.count += 1
        _place_hooks()

    def leave(self) -> None:
        with self._lock:
            self.count -= 1


_WANTED = _Wanted()


@cache
def _place_hooks() -> None:
    if sys.version_info < (3, 13):  # since then, one text for all methods of a class
        # A name of a module hides the builtin of that name.
        dataclasses.exec = _execute  # pyright: ignore[reportAttributeAccessIssue]
    from xdsl.irdl.declarative_assembly_format import FormatProgram  # noqa: PLC0415

    FormatProgram.from_str = _format  # pyright: ignore[reportAttributeAccessIssue]


def _format(text: str, op_def: OpDef) -> DeferredFormat | FormatProgram:
    """Stands for `FormatProgram.from_str`."""
    deferred = DeferredFormat(text, op_def)
    return deferred if _WANTED.count else deferred.program


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


_PACKAGES = frozenset(("convir", "xdsl"))
_MAKER = "__create_fn__"
_METHOD = re.compile(r"\n def (\w+)\(")


def _execute(text: str, module: dict[str, Any], names: dict[str, object]) -> None:
    """Stands for `exec` in `dataclasses`, whose texts define a function that makes a method."""
    method = _METHOD.search(text)
    ours = str(module.get("__name__")).partition(".")[0] in _PACKAGES
    if _WANTED.count and ours and method is not None:
        names[_MAKER] = partial(_method_made_when_called, method[1], text, module)
        return
    exec(text, module, names)


def _method_made_when_called(
    name: str, text: str, module: dict[str, Any], **given: object
) -> Callable[..., object]:
    kept: list[Callable[..., object]] = []

    def method(self: object, *arguments: object, **named: object) -> object:
        if not kept:
            names: dict[str, Callable[..., Callable[..., object]]] = {}
            exec(text, module, names)
            kept.append(names[_MAKER](**given))
            kept[0].__qualname__ = method.__qualname__
            for owner in type(self).__mro__:
                if vars(owner).get(name) is method:
                    type.__setattr__(owner, name, kept[0])
        # Whatever stands in the class now, a wrapper of this method or a copy may call it again.
        return kept[0](self, *arguments, **named)

    method.__name__ = name
    return method
