"""Building tensor ops over tensors whose dimensions have names.

A convolution in any layout, grouped or not, is one formula over named dimensions (`n`, `g`, `c`,
`h0`, …). `NamedTensor` pairs a value with the names of its dimensions in order, and
`TensorBuilder` builds the ops that a lowering needs from names, so that no lowering counts axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint

from convir.analysis.reshapes import collapse_shape, expand_shape, splitting
from convir.analysis.values.scalars import zero_of
from convir.dialects.linalg.generics import generic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

Element: TypeAlias = "AnyFloat | IntegerType"
"""Types of elements."""

GROUP = "g"
"""The name of the dimension over groups, which splitting a dimension puts before it."""


def split_names(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names after dimension `name` is split into groups."""
    at = names.index(name)
    return (*names[:at], GROUP, *names[at:])


@dataclass(frozen=True)
class NamedTensor:
    """A tensor value and the name of each of its dimensions."""

    value: SSAValue
    names: tuple[str, ...]

    @property
    def type(self) -> TensorType[Attribute]:
        """The value's type."""
        return cast("TensorType[Attribute]", self.value.type)

    @property
    def element(self) -> Element:
        """The element type."""
        return cast("Element", self.type.element_type)

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each dimension by its name."""
        return dict(zip(self.names, self.type.get_shape(), strict=True))

    def axis(self, name: str) -> int:
        """The position of the dimension called `name`."""
        return self.names.index(name)


class TensorBuilder:
    """Inserts ops before one op, at that op's location."""

    def __init__(self, before: Operation):
        self._builder = Builder(InsertPoint.before(before))
        self._location = before.location
        self._zeros: dict[Element, SSAValue] = {}
        self._indices: dict[int, SSAValue] = {}
        self._extents: dict[str, SSAValue] = {}

    def insert(self, op: Operation) -> SSAValue:
        """Insert `op` and return its only result."""
        op.location = self._location
        self._builder.insert(op)
        return op.results[0]

    def zero(self, element: Element) -> SSAValue:
        """The scalar 0 of a type; one constant per builder."""
        if element not in self._zeros:
            self._zeros[element] = self.insert(arith.ConstantOp(zero_of(element)))
        return self._zeros[element]

    def index(self, value: int) -> SSAValue:
        """An index constant; one per value and builder."""
        if value not in self._indices:
            attribute = IntegerAttr(value, IndexType())
            self._indices[value] = self.insert(arith.ConstantOp(attribute))
        return self._indices[value]

    def bind_dynamic(self, operand: NamedTensor) -> None:
        """Let dynamic dimensions of tensors built from now on take `operand`'s sizes by name."""
        for name, size in operand.sizes.items():
            if size == DYNAMIC_INDEX and name not in self._extents:
                axis = self.index(operand.axis(name))
                self._extents[name] = self.insert(tensor.DimOp(operand.value, axis))

    def empty(
        self, names: Sequence[str], sizes: Mapping[str, int], element: Attribute
    ) -> NamedTensor:
        """An uninitialised tensor."""
        shape = tuple(sizes[name] for name in names)
        op = tensor.EmptyOp(self._dynamic(names, shape), TensorType(element, shape))
        return NamedTensor(self.insert(op), tuple(names))

    def zeros(
        self, names: Sequence[str], sizes: Mapping[str, int], element: Element
    ) -> NamedTensor:
        """A tensor of zeros: a fill."""
        empty = self.empty(names, sizes, element)
        fill = linalg.ops.FillOp((self.zero(element),), (empty.value,), (empty.type,))
        return NamedTensor(self.insert(fill), empty.names)

    def constant_zeros(
        self, names: Sequence[str], sizes: Mapping[str, int], element: Element
    ) -> NamedTensor:
        """A tensor of zeros: a splat constant, or a fill where it is dynamic or has no element."""
        shape = tuple(sizes[name] for name in names)
        if DYNAMIC_INDEX in shape or 0 in shape:
            return self.zeros(names, sizes, element)
        # One element's bytes stand for all of a splat; a zero float is all zero bytes.
        splat = DenseIntOrFPElementsAttr(
            TensorType(element, shape), BytesAttr(bytes(element.compile_time_size))
        )
        return NamedTensor(self.insert(arith.ConstantOp(splat)), tuple(names))

    def split(self, source: NamedTensor, name: str, groups: int) -> NamedTensor:
        """Split dimension `name` into `groups` parts: a dimension `GROUP` before what is left."""
        at = source.axis(name)
        shape = source.type.get_shape()
        names = split_names(source.names, name)
        split_shape = (*shape[:at], groups, shape[at] // groups, *shape[at + 1 :])
        op = expand_shape(
            source.value,
            splitting(len(shape), at),
            TensorType(source.element, split_shape),
            self._dynamic(names, split_shape),
        )
        return NamedTensor(self.insert(op), names)

    def merge_groups(self, source: NamedTensor) -> NamedTensor:
        """Undo `split`: merge dimension `GROUP` with the one after it."""
        at = source.axis(GROUP)
        shape = source.type.get_shape()
        merged_shape = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        result = TensorType(source.element, merged_shape)
        op = collapse_shape(source.value, splitting(len(merged_shape), at), result)
        return NamedTensor(self.insert(op), (*source.names[:at], *source.names[at + 1 :]))

    def slice(
        self, source: NamedTensor, offsets: Mapping[str, int], sizes: Mapping[str, int]
    ) -> NamedTensor:
        """The contiguous slice with these offsets and sizes; other dimensions stay whole."""
        shape = tuple(sizes.get(name, size) for name, size in source.sizes.items())
        op = tensor.ExtractSliceOp(
            source.value,
            [offsets.get(name, 0) for name in source.names],
            self._mixed(source.names, shape),
            [1] * len(shape),
            TensorType(source.element, shape),
        )
        return NamedTensor(self.insert(op), source.names)

    def pad(
        self, source: NamedTensor, low: Mapping[str, int], high: Mapping[str, int]
    ) -> NamedTensor:
        """`source` with zeros around it; itself where there are none."""
        lows = [low.get(name, 0) for name in source.names]
        highs = [high.get(name, 0) for name in source.names]
        if not any(lows) and not any(highs):
            return source
        shape = [
            size if size == DYNAMIC_INDEX else before + size + after
            for before, size, after in zip(lows, source.type.get_shape(), highs, strict=True)
        ]
        body = Block(arg_types=[IndexType()] * len(shape))
        zero = self.zero(source.element)
        body.add_op(tensor.YieldOp(zero))
        op = tensor.PadOp(
            source.value, [], [], Region(body), lows, highs, TensorType(source.element, shape)
        )
        return NamedTensor(self.insert(op), source.names)

    def scatter(
        self,
        source: NamedTensor,
        into: NamedTensor,
        offsets: Mapping[str, int],
        strides: Mapping[str, int],
    ) -> NamedTensor:
        """`into` with `source` inserted at these offsets and strides (0 and 1 where not named)."""
        sizes = self._mixed(source.names, source.type.get_shape())
        op = tensor.InsertSliceOp.build(
            operands=[
                source.value,
                into.value,
                [],
                [size for size in sizes if not isinstance(size, int)],
                [],
            ],
            result_types=[into.type],
            properties={
                "static_offsets": _i64s([offsets.get(name, 0) for name in source.names]),
                "static_sizes": _i64s(source.type.get_shape()),
                "static_strides": _i64s([strides.get(name, 1) for name in source.names]),
            },
        )
        return NamedTensor(self.insert(op), source.names)

    def generic(
        self,
        inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        init: tuple[SSAValue, Sequence[AffineExpr]],
        num_parallel: int,
        num_reduction: int,
        body: Callable[[Builder, Block], SSAValue],
    ) -> SSAValue:
        """A `linalg.generic` with one init, its body built by `body`, which returns the yield."""
        operands = [*inputs, init]
        types = [cast("TensorType[Attribute]", value.type).element_type for value, _ in operands]
        block = Block(arg_types=types)
        builder = Builder(InsertPoint.at_end(block))
        builder.insert(linalg.ops.YieldOp(body(builder, block)))
        for op in block.ops:
            op.location = self._location
        return self.insert(generic(operands, block, num_parallel, num_reduction))

    def cast(self, source: NamedTensor, element: Element) -> NamedTensor:
        """`source` with its elements extended or rounded to `element`; itself if they are that."""
        if source.element == element:
            return source
        wider = element.bitwidth > source.element.bitwidth
        cast_op = arith.ExtFOp if wider else arith.TruncFOp
        rank = len(source.names)
        identity = [AffineExpr.dimension(axis) for axis in range(rank)]
        empty = self.empty(source.names, source.sizes, element)

        def convert(builder: Builder, block: Block) -> SSAValue:
            return builder.insert(cast_op(block.args[0], element)).result

        value = self.generic([(source.value, identity)], (empty.value, identity), rank, 0, convert)
        return NamedTensor(value, source.names)

    def _mixed(self, names: Sequence[str], shape: Sequence[int]) -> list[SSAValue | int]:
        return [
            self._extents[name] if size == DYNAMIC_INDEX else size
            for name, size in zip(names, shape, strict=True)
        ]

    def _dynamic(self, names: Sequence[str], shape: Sequence[int]) -> list[SSAValue]:
        return [size for size in self._mixed(names, shape) if not isinstance(size, int)]


def _i64s(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, values)
