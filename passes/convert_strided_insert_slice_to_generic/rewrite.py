"""The body of a scatter as one `linalg.generic`: index arithmetic without branches.

For each position of the result the body computes which source element lands there, tests that one
does, reads it at an index clamped into the source, and selects it or what the hole holds:

    shifted = index - offset
    valid   = shifted >= 0  and  shifted mod stride == 0  and  shifted / stride < size
    element = source[max(min(shifted / stride, size - 1), 0)]

A test or clamp is emitted only where some position of the result needs it; `DimTests` holds that
decision. Quotient and remainder are a shift and a mask where the stride is a power of two, and
`divsi` and `remsi` elsewhere. Both remainders are nonzero for `-stride < shifted < 0`, so an offset
below the stride needs no test of the sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from convir.analysis.slices import DimOf
from convir.passes.convert_strided_insert_slice_to_generic.match import hole_of, scatter_dims

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation

    from convir.analysis.slices import Size, SliceView
    from convir.passes.convert_strided_insert_slice_to_generic.match import ScatterDim


@dataclass(frozen=True)
class DimTests:
    """Which tests and clamps one dimension needs, beyond those its other tests imply."""

    sign: bool
    """Positions before the offset may pass the other tests."""
    remainder: bool
    """Only every stride-th position holds a source element."""
    end: bool
    """Positions after the last source element may pass the other tests."""
    clamp_low: bool
    """The quotient may be negative."""
    clamp_high: bool
    """The quotient may reach the source's size."""


def tests_of(dim: ScatterDim) -> DimTests:
    """The tests and clamps of a dimension, as few as its static numbers prove enough."""
    if dim.covers:
        return DimTests(sign=False, remainder=False, end=False, clamp_low=False, clamp_high=False)
    offset, stride = dim.offset, dim.stride
    is_shift = isinstance(stride, int) and is_power_of_two(stride)
    may_precede = offset != 0
    may_precede_by_stride = not (
        isinstance(offset, int) and isinstance(stride, int) and offset < stride
    )
    past = _may_pass_end(dim)
    return DimTests(
        sign=may_precede and may_precede_by_stride,
        remainder=stride != 1,
        end=past,
        clamp_low=may_precede and (is_shift or may_precede_by_stride),
        clamp_high=past,
    )


def is_power_of_two(number: int) -> bool:
    """True for 1, 2, 4, 8 …"""
    return number > 0 and number & (number - 1) == 0


def scatter_as_generic(view: SliceView) -> list[Operation]:
    """The ops that compute the scatter of `view`, constants first, the `linalg.generic` last.

    They read the source, the destination or its fill, and the sizes that the op depends on, and
    are to stand where the op stands. Sizes are taken to be at least 1, strides to be positive.
    """
    return _Builder(view).build()


class _Builder:
    """Collects the ops before the generic and those of its body."""

    def __init__(self, view: SliceView) -> None:
        self._view = view
        self._dims = scatter_dims(view)
        self._fill = hole_of(view)
        self._type = cast("TensorType[Attribute]", view.result.type)
        self._before: list[Operation] = []
        self._constants: dict[int, SSAValue] = {}
        self._block = Block(arg_types=[self._type.element_type])

    def build(self) -> list[Operation]:
        """All the ops, in order."""
        indices: list[SSAValue] = []
        valid: SSAValue | None = None
        for loop, dim in enumerate(self._dims):
            if dim.covers and not dim.in_source:
                continue
            tests, index = self._walk(loop, dim)
            for test in tests:
                valid = test if valid is None else self._add(arith.AndIOp(valid, test))
            if dim.in_source:
                indices.append(index)
        element_type = self._type.element_type
        element = self._add(tensor.ExtractOp(self._view.source, indices, element_type))
        if valid is not None:
            element = self._add(arith.SelectOp(valid, element, self._hole()))
        self._block.add_op(YieldOp(element))
        identity = AffineMapAttr(AffineMap.identity(len(self._dims)))
        generic = GenericOp(
            inputs=(),
            outputs=(self._init(),),
            body=Region(self._block),
            indexing_maps=[identity],
            iterator_types=[IteratorTypeAttr.parallel()] * len(self._dims),
            result_types=(self._type,),
        )
        return [*self._before, generic]

    def _walk(self, loop: int, dim: ScatterDim) -> tuple[list[SSAValue], SSAValue]:
        """The tests of one dimension, and the index into the source."""
        if dim.covers:
            return [], self._add(IndexOp(loop))
        if dim.size == 1:
            position = self._add(IndexOp(loop))
            test = arith.CmpiOp(position, self._value(dim.offset), "eq")
            return [self._add(test)], self._value(0)
        needed = tests_of(dim)
        shifted = self._add(IndexOp(loop))
        if dim.offset != 0:
            shifted = self._add(arith.SubiOp(shifted, self._value(dim.offset)))
        tests: list[SSAValue] = []
        if needed.sign:
            tests.append(self._add(arith.CmpiOp(shifted, self._value(0), "sge")))
        index = shifted
        if needed.remainder:
            index, remainder = self._divide(shifted, dim)
            tests.append(self._add(arith.CmpiOp(remainder, self._value(0), "eq")))
        if needed.end:
            tests.append(self._add(arith.CmpiOp(index, self._value(dim.size), "slt")))
        if needed.clamp_high:
            index = self._add(arith.MinSIOp(index, self._last(dim.size)))
        if needed.clamp_low:
            index = self._add(arith.MaxSIOp(index, self._value(0)))
        return tests, index

    def _divide(self, shifted: SSAValue, dim: ScatterDim) -> tuple[SSAValue, SSAValue]:
        """Quotient and remainder by the stride."""
        stride = dim.stride
        if isinstance(stride, int) and is_power_of_two(stride):
            shift = self._value(stride.bit_length() - 1)
            quotient = self._add(arith.ShRSIOp(shifted, shift))
            return quotient, self._add(arith.AndIOp(shifted, self._value(stride - 1)))
        divisor = self._value(stride)
        quotient = self._add(arith.DivSIOp(shifted, divisor))
        return quotient, self._add(arith.RemSIOp(shifted, divisor))

    def _hole(self) -> SSAValue:
        """What a position without a source element holds."""
        if self._fill is None:
            return self._block.args[0]
        if isinstance(self._fill, SSAValue):
            return self._fill
        return self._prepend(arith.ConstantOp(self._fill), "fill")

    def _init(self) -> SSAValue:
        """The destination if the body reads it, else an empty tensor of the result's type."""
        if self._fill is None and self._view.dest is not None:
            return self._view.dest
        shape = self._type.get_shape()
        extents = [
            self._value(dim.extent)
            for static, dim in zip(shape, self._dims, strict=True)
            if static == DYNAMIC_INDEX
        ]
        return self._prepend(tensor.EmptyOp(extents, self._type), "empty")

    def _last(self, size: Size) -> SSAValue:
        """The last index of a dimension of `size` elements."""
        if isinstance(size, int):
            return self._value(size - 1)
        return self._prepend(arith.SubiOp(self._value(size), self._value(1)), "last")

    def _value(self, size: Size) -> SSAValue:
        """`size` as an SSA value that is defined before the generic."""
        if isinstance(size, SSAValue):
            return size
        if isinstance(size, DimOf):
            return self._prepend(tensor.DimOp(size.value, self._value(size.dim)), "size")
        if size not in self._constants:
            constant = arith.ConstantOp(IntegerAttr(size, IndexType()))
            self._constants[size] = self._prepend(constant, f"c{size}")
        return self._constants[size]

    def _prepend(self, op: Operation, name_hint: str) -> SSAValue:
        self._before.append(op)
        op.results[0].name_hint = name_hint
        return op.results[0]

    def _add(self, op: Operation) -> SSAValue:
        self._block.add_op(op)
        return op.results[0]


def _may_pass_end(dim: ScatterDim) -> bool:
    """True unless every position that the offset and the remainder admit has an element."""
    match (dim.offset, dim.size, dim.stride, dim.extent):
        case (int(offset), int(size), int(stride), int(extent)):
            return offset + size * stride < extent
        case _:
            return True
