"""Pipelines as text: `a,b{x=1 y=2}`, or anchored as in MLIR, `builtin.module(a,func.func(b))`.

Every pass here works on the whole module, so an anchor groups passes and changes nothing: what
stands inside `func.func(...)` runs on all functions at once, in the order of the text. What stands
inside `fixpoint(...)` takes turns until nothing changes.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.utils.arg_spec import parse_spec
from xdsl.utils.exceptions import ArgSpecParseError

from convir.dialects.nearest import did_you_mean
from convir.passes.manager.fixpoint import FixpointPass
from convir.passes.manager.old_options import todays_options
from convir.passes.manager.registry import ALL_PASSES, find_pass, installed_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from xdsl.passes import ModulePass

ANCHORS = ("builtin.module", "func.func", "any")
"""What a nested pipeline may be anchored on."""

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


NONE = "none"
"""How an option is written that has no value, as it has by default."""

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""What stands without quotes."""

_EMPTY = (None, ())
"""The defaults that are written so."""

_CLOSING = {"{": "}", "[": "]"}


class PipelineError(ValueError):
    """A pipeline's text is malformed, or names a pass or an option that does not exist."""


def parse_pipeline(text: str) -> tuple[ModulePass, ...]:
    """The passes that `text` names, in order; the name of a named pipeline stands for its passes.

    Raises:
        PipelineError: malformed text, an unknown name (the nearest one is suggested), or an
            option that the pass does not take.
    """
    reader = _Reader(text)
    passes = reader.read_list()
    if reader.position < len(text):
        raise reader.error("expected ',' or the end")
    return tuple(passes)


def named_pipeline(name: str) -> tuple[ModulePass, ...]:
    """The passes of the named pipeline `name`.

    Raises:
        PipelineError: there is no such pipeline; the nearest one is suggested.
    """
    pipelines = _pipelines()
    if name not in pipelines:
        near = did_you_mean(name, pipelines)
        raise PipelineError(f"unknown pipeline '{name}'{near}; there is {', '.join(pipelines)}")
    return pipelines[name]


def is_known(name: str) -> bool:
    """Whether `name` is that of a pass or of a named pipeline."""
    return name in ALL_PASSES or name in _pipelines() or find_pass(name) is not None


def known_names() -> tuple[str, ...]:
    """The names of all passes and named pipelines."""
    return (*ALL_PASSES, *_pipelines(), *installed_passes())


@dataclass
class _Reader:
    """A cursor over the text of a pipeline."""

    text: str
    position: int = 0

    def error(self, expected: str) -> PipelineError:
        column = self.position + 1
        return PipelineError(f"malformed pipeline: {expected} at column {column} of '{self.text}'")

    def peek(self) -> str:
        """The next character that is not a space; empty at the end."""
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1
        return self.text[self.position : self.position + 1]

    def read_list(self) -> list[ModulePass]:
        passes: list[ModulePass] = []
        if self.peek() in ("", ")"):
            return passes
        while True:
            passes += self.read_element()
            if self.peek() != ",":
                return passes
            self.position += 1

    def read_element(self) -> tuple[ModulePass, ...]:
        self.peek()
        start = self.position
        while self.text[self.position : self.position + 1] in _NAME_CHARACTERS:
            self.position += 1
        name = self.text[start : self.position]
        if not name:
            raise self.error("expected the name of a pass")
        if self.peek() == "(":
            return self.read_nested(name)
        return _resolve(name, self.read_options())

    def read_nested(self, anchor: str) -> tuple[ModulePass, ...]:
        if anchor not in (*ANCHORS, FixpointPass.name):
            near = did_you_mean(anchor, (*ANCHORS, FixpointPass.name))
            raise PipelineError(f"no pipeline can be anchored on '{anchor}'{near}")
        self.position += 1
        passes = self.read_list()
        if self.peek() != ")":
            raise self.error("expected ',' or ')'")
        self.position += 1
        return (FixpointPass(tuple(passes)),) if anchor == FixpointPass.name else tuple(passes)

    def read_options(self) -> str:
        """`{...}` or `[...]` without the spaces just inside; empty where neither stands here."""
        opening = self.peek()
        if opening not in _CLOSING:
            return ""
        start, in_string = self.position, False
        while self.position < len(self.text):
            character = self.text[self.position]
            self.position += 2 if in_string and character == "\\" else 1
            if character == '"':
                in_string = not in_string
            if character == _CLOSING[opening] and not in_string:
                inside = self.text[start + 1 : self.position - 1].strip()
                return f"{opening}{inside}{character}"
        raise self.error(f"expected '{_CLOSING[opening]}'")


def _resolve(name: str, options: str) -> tuple[ModulePass, ...]:
    """The pass called `name` with `options`, or the passes of the pipeline called `name`."""
    if name not in ALL_PASSES and name in _pipelines():
        if options:
            raise PipelineError(f"the pipeline '{name}' takes no options")
        return _pipelines()[name]
    load = find_pass(name)
    if load is None:
        near = did_you_mean(name, known_names())
        raise PipelineError(f"unknown pass '{name}'{near}")
    return (_build_pass(name, options, load),)


def _pipelines() -> Mapping[str, tuple[ModulePass, ...]]:
    from convir.passes.pipelines import PIPELINES  # noqa: PLC0415  (it imports all our passes)

    return PIPELINES


def _build_pass(name: str, options: str, load: Callable[[], type[ModulePass]]) -> ModulePass:
    try:
        spec = todays_options(parse_spec(name + options).normalize_parameter_names())
    except ArgSpecParseError as exc:
        *_, reason = str(exc).splitlines()
        raise PipelineError(f"pass '{name}': {reason.strip()} in '{options}'") from exc
    try:
        pass_class = load()
    except ImportError as exc:
        raise PipelineError(f"pass '{name}' cannot be loaded: {exc}") from exc
    for field in dataclasses.fields(pass_class):
        if field.default in _EMPTY and spec.parameters.get(field.name) == (NONE,):
            del spec.parameters[field.name]
    known = [field.name.replace("_", "-") for field in dataclasses.fields(pass_class)]
    for option in (parameter.replace("_", "-") for parameter in spec.parameters):
        if option not in known:
            near = did_you_mean(option, known) or f"; it takes {', '.join(known) or 'none'}"
            raise PipelineError(f"pass '{name}' has no option '{option}'{near}")
    try:
        return pass_class.from_spec(spec)
    except (TypeError, ValueError) as exc:
        raise PipelineError(f"pass '{name}': {exc}") from exc


def with_defaults(pass_class: type[ModulePass]) -> str:
    """The pass as a pipeline has it, with all its options and their defaults.

    An option without a default, which has to be given, is its type: `<int>`.
    """
    fields = [field for field in dataclasses.fields(pass_class) if field.init]
    options = " ".join(f"{field.name.replace('_', '-')}={_spelled(field)}" for field in fields)
    return f"{pass_class.name}{{{options}}}" if options else pass_class.name


def _spelled(field: dataclasses.Field[Any]) -> str:
    default = field.default
    if default is dataclasses.MISSING:
        return f"<{field.type}>"
    if default in _EMPTY:
        return NONE
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str) and not _WORD.fullmatch(default):
        return f'"{default}"'
    return str(default)
