"""Corrections of xDSL's affine dialect, made when it is first loaded: it brings memref with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.affine import Affine, ApplyOp, MinOp
from xdsl.traits import Pure

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.printer import Printer

_PRINT_APPLY = ApplyOp.print


def corrected() -> Dialect:
    """The dialect; `affine.min` declares no effects, and `affine.apply` prints no attributes."""
    MinOp.traits.add_trait(Pure())
    ApplyOp.print = _print_apply
    return Affine


def _print_apply(self: ApplyOp, printer: Printer) -> None:
    _PRINT_APPLY(self, printer)
    printer.print_op_attributes(self.attributes)
