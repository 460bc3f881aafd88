"""Texts of IR with the origin of each line, stored by lines that texts share."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from convir.dialects.eliding_printer import ElidingPrinter

if TYPE_CHECKING:
    from xdsl.ir import Operation

MOST_ELEMENTS = 16
"""Constants of more elements are shown without them."""
_ANYWHERE = ("arith.constant", "tensor.empty", "linalg.fill")
"""What kernels clone, wherever it stood first."""
_MOST_FUSED = 3
"""Of an op that stands for several, so many are named."""


def origin_of(location: Attribute) -> str:
    """The node of a model, or `file:line:col`, that an op comes from; empty where nobody knows."""
    match location:
        case NameLoc():
            return location.desc.data
        case FileLineColLoc():
            if location.line.data == 0:
                return ""
            file = location.filename.data.rpartition("/")[2]
            return f"{file}:{location.line.data}:{location.column.data}"
        case CallSiteLoc():
            return origin_of(location.callee)
        case FusedLoc():
            given = location.locations
            fused = given.data if isa(given, ArrayAttr[Attribute]) else ()
            names = dict.fromkeys(origin_of(each) for each in fused)
            return " + ".join([name for name in names if name][:_MOST_FUSED])
        case _:
            return ""


def origins_in(op: Operation) -> tuple[str, ...]:
    """The origins of the ops in a kernel, in order, each once."""
    bodies = (block for region in op.regions for block in region.blocks)
    found = (
        origin_of(inner.location)
        for block in bodies
        for inner in block.ops
        if inner.name not in _ANYWHERE
    )
    return tuple(dict.fromkeys(filter(None, found)))


@dataclass
class Texts:
    """Texts as numbers of lines; a line that several texts hold is stored once."""

    lines: list[str] = field(default_factory=list[str])
    origins: list[str] = field(default_factory=lambda: [""])
    """The first one is of lines that come from nowhere."""
    origin_of_line: list[int] = field(default_factory=list[int])
    _lines: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    _origins: dict[str, int] = field(default_factory=lambda: {"": 0})

    def of_op(self, op: Operation) -> list[int]:
        """The text of `op` without the elements of large constants."""
        stream = StringIO()
        printer = _LocatedPrinter(stream=stream)
        printer.most_elements = MOST_ELEMENTS
        printer.print_op(op)
        begins = printer.begins
        return [
            self._line(text, begins.get(number, ""))
            for number, text in enumerate(stream.getvalue().split("\n"))
        ]

    def of_text(self, text: str) -> list[int]:
        """A text that is no IR."""
        return [self._line(line, "") for line in text.rstrip("\n").split("\n")]

    def _line(self, text: str, origin: str) -> int:
        place = self._origins.get(origin)
        if place is None:
            place = self._origins[origin] = len(self.origins)
            self.origins.append(origin)
        number = self._lines.setdefault((text, place), len(self.lines))
        if number == len(self.lines):
            self.lines.append(text)
            self.origin_of_line.append(place)
        return number


class _LocatedPrinter(ElidingPrinter):
    """Remembers which op begins on which line."""

    def __init__(self, stream: StringIO) -> None:
        super().__init__(stream=stream)
        self.begins: dict[int, str] = {}
        """By lines, from 0, the origin of the first op there."""

    def print_op(self, op: Operation) -> None:
        """Print `op`, and remember where it comes from."""
        origin = origin_of(op.location)
        if origin:
            self.begins.setdefault(self._current_line, origin)
        super().print_op(op)
