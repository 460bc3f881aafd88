"""The named linalg ops whose body is not written: a class for every line of `table`.

xDSL has some of these with bodies that take one element type only, and lacks the others. The
classes here are made from the table, mixed element types included, and share its structured base
class, so that xDSL's passes treat them as they treat a generic.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, ClassVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ShapedType,
    TensorType,
    VectorType,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.irdl import irdl_op_definition, opt_prop_def, traits_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from convir.dialects.compat.effects import StructuredEffects
from convir.dialects.compat.types import element_type_of
from convir.dialects.compat.verifiers.structured import check_structured
from convir.dialects.compat.verifiers.trait import Verified
from convir.dialects.linalg.attrs import TypeFunction, TypeFunctionAttr
from convir.dialects.linalg.body import named_body
from convir.dialects.linalg.syntax import (
    parse_operand_group,
    parse_result_types,
    print_operand_group,
    print_result_types,
)
from convir.dialects.linalg.table import CONTRACTIONS, CONVOLUTIONS, CORRELATIONS, POOLINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import AnyDenseElement
    from xdsl.dialects.linalg.attrs import IteratorTypeAttr
    from xdsl.ir import Attribute, Region, SSAValue
    from xdsl.ir.affine import AffineMap
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from convir.dialects.linalg.table import NamedSpec


class TableOp(NamedOperation, ABC):
    """A named op of the table: `ins(%lhs, %rhs : …) outs(%init : …) -> type`."""

    SPEC: ClassVar[NamedSpec]
    """The op's line of the table."""

    traits = traits_def(StructuredEffects(), Verified(check_structured))

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """One map per operand."""
        return self.SPEC.indexing_maps()

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        """One map per operand, unwrapped."""
        return tuple(attr.data for attr in self.get_indexing_maps())

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """One iterator type per loop."""
        return self.SPEC.iterator_types

    @property
    def is_unsigned(self) -> bool:
        """Whether integer operands are widened as unsigned numbers."""
        return False

    @classmethod
    def get_hidden_region(
        cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], *, unsigned: bool = False
    ) -> Region:
        """The body that the op's name stands for, over operands of these element types."""
        arg_types = [element_type_of(value.type) for value in (*inputs, *outputs)]
        return named_body(cls.SPEC.combine, arg_types, unsigned=unsigned)

    @classmethod
    def parse(cls, parser: Parser) -> TableOp:
        """Parse the op after its name."""
        properties: dict[str, Attribute] = {}
        if "indexing_maps" in cls.get_irdl_definition().properties and (
            parser.parse_optional_keyword("indexing_maps") is not None
        ):
            parser.parse_punctuation("=")
            properties["indexing_maps"] = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        inputs = parse_operand_group(parser, "ins")
        outputs = parse_operand_group(parser, "outs")
        result_types = parse_result_types(parser)
        for name in cls.get_irdl_definition().properties:
            if name in attributes:
                properties[name] = attributes.pop(name)
        unsigned = properties.get("cast") == TypeFunctionAttr(TypeFunction.CAST_UNSIGNED)
        if len(inputs) != len(cls.SPEC.operands) - 1 or len(outputs) != 1:
            parser.raise_error(f"{cls.name} takes 2 inputs and 1 output", position, parser.pos)
        return cls(
            inputs,
            outputs,
            [result_types],
            properties=properties,
            attributes=attributes,
            hidden_region=cls.get_hidden_region(inputs, outputs, unsigned=unsigned),
        )

    def print(self, printer: Printer) -> None:
        """Print the op after its name."""
        properties = dict(self.properties)
        properties.pop("operandSegmentSizes", None)
        maps = properties.pop("indexing_maps", None)
        if maps is not None and maps != self.SPEC.indexing_maps():
            printer.print_string(" indexing_maps = ")
            printer.print_attribute(maps)
        printer.print_op_attributes({**self.attributes, **properties})
        print_operand_group(printer, "ins", self.inputs)
        print_operand_group(printer, "outs", self.outputs)
        print_result_types(printer, self.res.types)

    def verify_(self) -> None:
        """Check operands, body, shapes and ranks.

        Raises:
            VerifyException: any of them is not what the op's name says.
        """
        if len(self.inputs) != len(self.SPEC.operands) - 1 or len(self.outputs) != 1:
            raise VerifyException("expected 2 inputs and 1 output")
        if not all(isinstance(value.type, ShapedType) for value in self.inputs):
            raise VerifyException("expected tensor or memref inputs")
        self._verify_body()
        super().verify_()

    def _verify_body(self) -> None:
        expected = self.get_hidden_region(self.inputs, self.outputs, unsigned=self.is_unsigned)
        if not self.body.is_structurally_equivalent(expected):
            raise VerifyException("body is not the one that the op's name stands for")


class ContractionOp(TableOp, ABC):
    """A contraction of the table; the maps may be given, e.g. to transpose an operand."""

    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    cast = opt_prop_def(TypeFunctionAttr)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """One map per operand."""
        return self.indexing_maps or self.SPEC.indexing_maps()

    @property
    def is_unsigned(self) -> bool:
        """Whether integer operands are widened as unsigned numbers."""
        return self.cast is not None and self.cast.data == TypeFunction.CAST_UNSIGNED

    def verify_(self) -> None:
        """Check that the maps keep the op's loops, then the rest."""
        maps = self.get_indexing_maps().data
        if len(maps) != len(self.SPEC.operands):
            raise VerifyException(f"expected {len(self.SPEC.operands)} indexing maps")
        super().verify_()


class WindowOp(TableOp, ABC):
    """A convolution or pooling: each window dimension has a stride and a dilation, 1 by default."""

    strides = opt_prop_def(DenseIntOrFPElementsAttr)
    dilations = opt_prop_def(DenseIntOrFPElementsAttr)

    def window_strides(self) -> tuple[int, ...]:
        """The stride of each window dimension, outermost first."""
        return _steps(self.strides, self.SPEC.windows)

    def window_dilations(self) -> tuple[int, ...]:
        """The dilation of each window dimension, outermost first."""
        return _steps(self.dilations, self.SPEC.windows)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """One map per operand."""
        return self.SPEC.indexing_maps(self.window_strides(), self.window_dilations())

    def verify_(self) -> None:
        """Check strides and dilations, then the rest."""
        _verify_steps("strides", self.strides, self.SPEC.windows)
        _verify_steps("dilations", self.dilations, self.SPEC.windows)
        super().verify_()


def steps_attr(steps: Sequence[int]) -> DenseIntOrFPElementsAttr:
    """Strides or dilations as the attribute that the ops carry, a splat stored once."""
    distinct = steps[:1] if len(set(steps)) == 1 else steps
    data = i64.pack(tuple(distinct))
    return DenseIntOrFPElementsAttr(TensorType(i64, [len(steps)]), BytesAttr(data))


def _steps(attr: DenseIntOrFPElementsAttr | None, count: int) -> tuple[int, ...]:
    if attr is None:
        return (1,) * count
    values = cast("tuple[int, ...]", attr.get_values())
    return values * count if len(values) == 1 else values


def _verify_steps(
    name: str, attr: DenseIntOrFPElementsAttr[AnyDenseElement] | None, count: int
) -> None:
    if attr is None:
        return
    known = (TensorType(i64, [count]), VectorType(i64, [count]))
    if attr.type not in known:
        raise VerifyException(f"'{name}' must be of type {known[0]} or {known[1]}, got {attr.type}")
    if any(step < 1 for step in _steps(attr, count)):
        raise VerifyException(f"'{name}' must be positive")


def _define(spec: NamedSpec, base: type[TableOp]) -> type[TableOp]:
    class_name = "".join(part.capitalize() for part in spec.name.split("_")) + "Op"
    body = {
        "__module__": __name__,
        "__annotations__": {"SPEC": ClassVar},
        "__doc__": f"`linalg.{spec.name}`, as its line of the table says.",
        "name": f"linalg.{spec.name}",
        "SPEC": spec,
    }
    return irdl_op_definition(type(class_name, (base,), body))


NAMED_OPS: dict[str, type[TableOp]] = {
    f"linalg.{spec.name}": _define(spec, base)
    for table, base in (
        (CONTRACTIONS, ContractionOp),
        (CORRELATIONS, TableOp),
        (CONVOLUTIONS, WindowOp),
        (POOLINGS, WindowOp),
    )
    for spec in table.values()
}
"""The classes by op name, e.g. `linalg.conv_2d_nhwc_hwcf`."""


def named_op(
    name: str,
    inputs: Sequence[SSAValue],
    init: SSAValue,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> TableOp:
    """Build the op `name` on `inputs`, accumulating into `init`; its result has init's type.

    `strides` and `dilations` have one entry per window dimension, outermost first.

    Raises:
        KeyError: the table has no such op.
        VerifyException: the element types allow no such op.
    """
    op_class = NAMED_OPS[name]
    steps = {"strides": strides, "dilations": dilations}
    return op_class(
        inputs,
        [init],
        [[init.type] if isa(init.type, TensorType) else []],
        properties={key: steps_attr(value) for key, value in steps.items() if value is not None},
        hidden_region=op_class.get_hidden_region(inputs, [init]),
    )
