"""The attributes of linalg ops that xDSL lacks."""

from __future__ import annotations

from enum import auto
from typing import TYPE_CHECKING

from xdsl.dialects.utils import EnumAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


class TypeFunction(StrEnum):
    """How an integer is widened to the type that an op computes in."""

    CAST_SIGNED = auto()
    CAST_UNSIGNED = auto()


class ElementwiseKind(StrEnum):
    """The scalar function of a `linalg.elementwise`."""

    EXP = auto()
    LOG = auto()
    ABS = auto()
    CEIL = auto()
    FLOOR = auto()
    NEGF = auto()
    RECIPROCAL = auto()
    ROUND = auto()
    SQRT = auto()
    RSQRT = auto()
    SQUARE = auto()
    TANH = auto()
    ERF = auto()
    SIN = auto()
    COS = auto()
    ADD = auto()
    SUB = auto()
    MUL = auto()
    DIV = auto()
    DIV_UNSIGNED = auto()
    MAX_SIGNED = auto()
    MIN_SIGNED = auto()
    MAX_UNSIGNED = auto()
    MIN_UNSIGNED = auto()
    POWF = auto()
    SELECT = auto()

    @property
    def function(self) -> str:
        """The scalar function's name among the bodies."""
        return str(self.value).removesuffix("_signed")


@irdl_attr_definition
class TypeFunctionAttr(EnumAttribute[TypeFunction]):
    """`#linalg.type_fn<cast_signed>` or `<cast_unsigned>`."""

    name = "linalg.type_fn"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TypeFunction:
        """Parse `<case>`."""
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print `<case>`."""
        with printer.in_angle_brackets():
            super().print_parameter(printer)


@irdl_attr_definition
class ElementwiseKindAttr(EnumAttribute[ElementwiseKind]):
    """`#linalg.elementwise_kind<…>`."""

    name = "linalg.elementwise_kind"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ElementwiseKind:
        """Parse `<case>`."""
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print `<case>`."""
        with printer.in_angle_brackets():
            super().print_parameter(printer)
