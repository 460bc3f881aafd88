"""How the tools print a module."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from math import inf
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.printer import Printer

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import AnyDenseElement, ModuleOp
    from xdsl.ir import Attribute


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
    printer = _Printer(
        stream=stream, print_generic_format=style.generic, print_debuginfo=style.debuginfo
    )
    printer.most_elements = style.most_elements
    printer.print_op(module)
    printer.print_metadata(ctx.loaded_dialects)
    stream.write("\n")
    return stream.getvalue()


class _Printer(Printer):
    """xDSL's printer, which leaves out the elements of large constants as MLIR's does."""

    most_elements: float = inf

    def print_attribute(self, attribute: Attribute) -> None:
        if not self._is_elided(attribute):
            super().print_attribute(attribute)
            return
        self.print_string("dense_resource<__elided__> : ")
        super().print_attribute(_constant(attribute).type)

    def _is_elided(self, attribute: Attribute) -> bool:
        is_dense = isinstance(attribute, DenseIntOrFPElementsAttr)
        constant = _constant(attribute)
        return is_dense and not constant.is_splat() and len(constant) > self.most_elements


def _constant(attribute: Attribute) -> DenseIntOrFPElementsAttr[AnyDenseElement]:
    return cast("DenseIntOrFPElementsAttr[AnyDenseElement]", attribute)
