"""The printing of ops that xDSL prints in a way that loses something or cannot be read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    CmpfOp,
    FastMathFlagsAttr,
)
from xdsl.dialects.builtin import ContainerType
from xdsl.dialects.utils import print_func_op_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.arith import CmpiOp, SelectOp
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
    from xdsl.dialects.func import FuncOp
    from xdsl.dialects.tensor import EmptyOp
    from xdsl.ir import Attribute
    from xdsl.printer import Printer

_FUNC_PROPERTIES = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")


def print_select(self: SelectOp, printer: Printer) -> None:
    """Print an `arith.select` after its name, with the condition's type unless it is i1."""
    printer.print_string(" ")
    printer.print_list(self.operands, printer.print_ssa_value)
    printer.print_op_attributes(self.attributes)
    printer.print_string(" : ")
    if isinstance(self.cond.type, ContainerType):
        printer.print_attribute(self.cond.type)
        printer.print_string(", ")
    printer.print_attribute(self.result.type)


def print_comparison(self: CmpfOp | CmpiOp, printer: Printer) -> None:
    """Print a comparison after its name; xDSL leaves out its attributes."""
    is_float = isinstance(self, CmpfOp)
    names = CMPF_COMPARISON_OPERATIONS if is_float else CMPI_COMPARISON_OPERATIONS
    printer.print_string(f" {names[self.predicate.value.data]}, ")
    printer.print_list(self.operands, printer.print_ssa_value)
    if is_float and self.fastmath != FastMathFlagsAttr("none"):
        printer.print_string(" fastmath")
        self.fastmath.print_parameter(printer)
    printer.print_op_attributes(self.attributes)
    printer.print_string(" : ")
    printer.print_attribute(self.lhs.type)


def print_empty(self: EmptyOp, printer: Printer) -> None:
    """Print a `tensor.empty` after its name; xDSL leaves out its attributes."""
    with printer.in_parens():
        printer.print_list(self.dynamic_sizes, printer.print_ssa_value)
    printer.print_op_attributes(self.attributes)
    printer.print_string(" : ")
    printer.print_attribute(self.tensor.type)


def print_func(self: FuncOp, printer: Printer) -> None:
    """Print a `func.func` after its name; xDSL leaves out the attributes of a declaration."""
    if self.sym_visibility is not None:
        printer.print_string(f" {self.sym_visibility.data}")
    if self.body.blocks:
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            arg_attrs=self.arg_attrs,
            res_attrs=self.res_attrs,
            reserved_attr_names=_FUNC_PROPERTIES,
        )
        return
    printer.print_string(" ")
    printer.print_symbol_name(self.sym_name.data)
    _print_types(printer, self.function_type.inputs.data, self.arg_attrs)
    outputs = self.function_type.outputs.data
    if outputs:
        printer.print_string(" -> ")
    if len(outputs) == 1 and self.res_attrs is None:
        printer.print_attribute(outputs[0])
    elif outputs:
        _print_types(printer, outputs, self.res_attrs)
    printer.print_op_attributes(
        self.attributes, reserved_attr_names=_FUNC_PROPERTIES, print_keyword=True
    )


def _print_types(
    printer: Printer, types: Sequence[Attribute], attrs: ArrayAttr[DictionaryAttr] | None
) -> None:
    def print_type(index: int) -> None:
        printer.print_attribute(types[index])
        if attrs is not None:
            printer.print_op_attributes(attrs.data[index].data)

    with printer.in_parens():
        printer.print_list(range(len(types)), print_type)
