"""xDSL's printer, which leaves out the elements of large constants as MLIR's does."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.printer import Printer

if TYPE_CHECKING:
    from xdsl.dialects.builtin import AnyDenseElement
    from xdsl.ir import Attribute


class ElidingPrinter(Printer):
    """Prints constants of more than `most_elements` elements, unless all are equal, as
    `dense_resource<__elided__>`."""

    most_elements: float = inf

    def print_attribute(self, attribute: Attribute) -> None:
        """Print `attribute`, or what stands for it."""
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
