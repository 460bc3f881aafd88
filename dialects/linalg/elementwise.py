"""Elementwise ops named after their scalar function, those that xDSL lacks.

Newer MLIR writes them as `linalg.elementwise`; frontends and older files still name them.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from convir.dialects.compat.types import shape_of
from convir.dialects.linalg.body import BINARY, elementwise_body
from convir.dialects.linalg.category import DerivedBodyOp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from xdsl.ir import Attribute, Region
    from xdsl.parser import Parser
    from xdsl.printer import Printer


class NamedElementwiseOp(DerivedBodyOp, ABC):
    """`linalg.function ins(…) outs(%init : …) -> type` on operands of one shape."""

    FUNCTION: ClassVar[str]
    """The scalar function."""

    def _rank(self) -> int:
        shape = shape_of(self.outputs[0].type)
        return 0 if shape is None else len(shape)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """Identities."""
        identity = AffineMapAttr(AffineMap.identity(self._rank()))
        return ArrayAttr((identity,) * len(self.operands))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Parallel, one for each dimension."""
        return ArrayAttr((IteratorTypeAttr.parallel(),) * self._rank())

    @classmethod
    def derived_body(
        cls, properties: Mapping[str, Attribute], arg_types: Sequence[Attribute]
    ) -> Region:
        """The function of the inputs, cast to the output's type."""
        arity = 2 if cls.FUNCTION in BINARY else 1
        if len(arg_types) != arity + 1:
            raise VerifyException(f"expected {arity} inputs and 1 output")
        return elementwise_body(cls.FUNCTION, arg_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        return cls._parse_rest(parser, {})

    def print(self, printer: Printer) -> None:
        """Print the op after its name."""
        self._print_rest(printer, ("operandSegmentSizes",))


def _define(function: str) -> type[NamedElementwiseOp]:
    body = {
        "__module__": __name__,
        "__annotations__": {"FUNCTION": ClassVar},
        "__doc__": f"`linalg.{function}`, elementwise.",
        "name": f"linalg.{function}",
        "FUNCTION": function,
    }
    class_name = "".join(part.capitalize() for part in function.split("_")) + "Op"
    return irdl_op_definition(type(class_name, (NamedElementwiseOp,), body))


NAMED_ELEMENTWISE = tuple(
    _define(function)
    for function in (
        "abs",
        "ceil",
        "div",
        "div_unsigned",
        "erf",
        "floor",
        "negf",
        "powf",
        "reciprocal",
        "round",
        "rsqrt",
        "square",
        "tanh",
    )
)
"""The classes."""
