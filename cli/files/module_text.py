"""How the tools print a module."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from math import inf
from typing import TYPE_CHECKING

from convir.dialects.eliding_printer import ElidingPrinter

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Style:
    """What the text of a module leaves out, and what it adds."""

    generic: bool = False
    """Operations in their generic form."""
    debuginfo: bool = False
    """The location of every operation and of every argument of a block."""
    most_elements: float = inf
    """Constants of more elements that are not all equal are `dense_resource<__elided__>`."""


def module_text(module: ModuleOp, ctx: Context, style: Style | None = None) -> str:
    """The text of `module` with the resources of `ctx`'s dialects, ending in one newline."""
    style = Style() if style is None else style
    stream = StringIO()
    printer = ElidingPrinter(
        stream=stream, print_generic_format=style.generic, print_debuginfo=style.debuginfo
    )
    printer.most_elements = style.most_elements
    printer.print_op(module)
    printer.print_metadata(ctx.loaded_dialects)
    stream.write("\n")
    return stream.getvalue()
