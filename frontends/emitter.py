"""Building linalg and tensor ops on tensors of static shape, with NumPy's broadcasting."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.effects import Effects
from convir.analysis.reshapes import collapse_shape, expand_shape, reassociation
from convir.dialects.address_space import check_addressable
from convir.dialects.linalg.generics import generic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xdsl.dialects.builtin import LocationAttr
    from xdsl.ir import Attribute, Operation, SSAValue

    ScalarBody = Callable[["ScalarBuilder", Sequence[SSAValue]], SSAValue]


def tensor_type(element: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """A type of static shape.

    Raises:
        ValueError: a size is negative, or no memory holds such a tensor.
    """
    check_addressable(shape)
    return TensorType(element, shape)


def type_of(value: SSAValue) -> TensorType[Attribute]:
    """The type of a tensor."""
    return cast("TensorType[Attribute]", value.type)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor."""
    return type_of(value).get_shape()


def element_of(value: SSAValue) -> Any:
    """The element type of a tensor."""
    return type_of(value).element_type


class ScalarBuilder:
    """Builds the body of an op on scalars."""

    def __init__(self, block: Block, location: LocationAttr) -> None:
        self._builder = Builder(InsertPoint.at_end(block))
        self._location = location

    def insert(self, op: Operation) -> SSAValue:
        """Insert `op` and return its only result."""
        op.location = self._location
        return self._builder.insert(op).results[0]

    def number(self, value: float, element: Attribute) -> SSAValue:
        """A constant of the float, integer or index type `element`."""
        return self.insert(arith.ConstantOp(scalar_attr(value, element)))

    def index(self, loop: int) -> SSAValue:
        """The number of the iteration of a loop of the structured op around this body."""
        return self.insert(linalg.ops.IndexOp(loop))


def scalar_attr(value: float, element: Attribute) -> Any:
    """A scalar of a float, integer or index type as an attribute."""
    if isinstance(element, AnyFloat):
        return FloatAttr(float(value), element)
    return IntegerAttr(int(value), cast("IntegerType | IndexType", element))


@dataclass
class Emitter:
    """Appends ops to a block."""

    block: Block
    location: LocationAttr

    def insert(self, op: Operation) -> SSAValue:
        """Append `op` and return its only result."""
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    def number(self, value: float, element: Attribute) -> SSAValue:
        """A scalar constant."""
        return self.insert(arith.ConstantOp(scalar_attr(value, element)))

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """An uninitialised tensor."""
        return self.insert(tensor.EmptyOp((), tensor_type(element, shape)))

    def filled(self, value: float, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A tensor that holds `value` everywhere."""
        scalar = self.number(value, element)
        init = self.empty(shape, element)
        return self.insert(linalg.ops.FillOp((scalar,), (init,), (init.type,)))

    def elementwise(
        self,
        operands: Sequence[SSAValue],
        body: ScalarBody,
        element: Attribute | None = None,
        shape: Sequence[int] = (),
    ) -> SSAValue:
        """A function of scalars on tensors that broadcast as NumPy's do, and with `shape`.

        Raises:
            ValueError: the shapes do not broadcast.
        """
        shape = np.broadcast_shapes(*map(shape_of, operands), tuple(shape))
        rank = len(shape)
        inputs: list[tuple[SSAValue, Sequence[AffineExpr]]] = []
        for operand in operands:
            own = shape_of(operand)
            first = rank - len(own)
            kept = [d for d, n in enumerate(own) if n == shape[first + d]]
            flat = self.reshape(operand, [own[d] for d in kept])
            inputs.append((flat, [AffineExpr.dimension(first + d) for d in kept]))
        result = element or element_of(operands[0])
        init = self.empty(shape, result), [AffineExpr.dimension(d) for d in range(rank)]
        return self.generic(inputs, init, rank, 0, lambda b, args: body(b, args[:-1]))

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`value` as often as broadcasting with `shape` repeats it.

        Raises:
            ValueError: the shapes do not broadcast.
        """
        wanted = np.broadcast_shapes(shape_of(value), tuple(shape))
        if wanted == shape_of(value):
            return value
        return self.elementwise([value], lambda _, args: args[0], shape=wanted)

    def generic(
        self,
        inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        init: tuple[SSAValue, Sequence[AffineExpr]],
        num_parallel: int,
        num_reduction: int,
        body: ScalarBody,
    ) -> SSAValue:
        """A `linalg.generic` with one init; `body` gets the block's arguments."""
        operands = [*inputs, init]
        block = Block(arg_types=[element_of(value) for value, _ in operands])
        scalars = ScalarBuilder(block, self.location)
        result = body(scalars, block.args)
        terminator = linalg.ops.YieldOp(result)
        terminator.location = self.location
        block.add_op(terminator)
        return self.insert(generic(operands, block, num_parallel, num_reduction))

    def reduce(
        self,
        value: SSAValue,
        axes: Sequence[int],
        start: float,
        body: ScalarBody,
        total: Attribute | None = None,
    ) -> SSAValue:
        """`value` without the dimensions `axes`, which `body(element, total)` sums up.

        The result is of elements of type `total`, by default of the value's.
        """
        shape = shape_of(value)
        kept = [d for d in range(len(shape)) if d not in axes]
        loops = {d: loop for loop, d in enumerate((*kept, *axes))}
        init = self.filled(start, [shape[d] for d in kept], total or element_of(value))
        source = [AffineExpr.dimension(loops[d]) for d in range(len(shape))]
        out = [AffineExpr.dimension(loop) for loop in range(len(kept))]
        return self.generic([(value, source)], (init, out), len(kept), len(axes), body)

    def transpose(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """`value` with its dimension `permutation[i]` as dimension i."""
        if list(permutation) == list(range(len(permutation))):
            return value
        shape = shape_of(value)
        init = self.empty([shape[d] for d in permutation], element_of(value))
        source = [AffineExpr.dimension(list(permutation).index(d)) for d in range(len(shape))]
        out = [AffineExpr.dimension(d) for d in range(len(shape))]
        return self.generic([(value, source)], (init, out), len(shape), 0, lambda _, args: args[0])

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`value` with another shape of as many elements, in row-major order.

        Raises:
            ValueError: the numbers of elements differ.
        """
        if any(size < 0 for size in shape) or prod(shape_of(value)) != prod(shape):
            raise ValueError(f"{prod(shape_of(value))} elements have no shape {list(shape)}")
        check_addressable(shape)
        value = _unreshaped(value, tuple(shape))
        have = shape_of(value)
        if have == tuple(shape):
            return value
        element = element_of(value)
        groups = reassociation(have, shape)
        if groups is None:  # An empty tensor.
            return self.empty(shape, element)
        old, new = ([group[side] for group in groups] for side in (0, 1))
        if len(old) < len(have):
            merged = [prod(have[d] for d in group) for group in old]
            value = self.insert(collapse_shape(value, old, TensorType(element, merged)))
        if len(new) < len(shape):
            value = self.insert(expand_shape(value, new, TensorType(element, shape)))
        return value

    def pad(
        self, value: SSAValue, low: Sequence[int], high: Sequence[int], fill: SSAValue
    ) -> SSAValue:
        """`value` with the scalar `fill` around it; negative amounts cut."""
        shape = shape_of(value)
        cut_low, cut_high = ([max(-n, 0) for n in pads] for pads in (low, high))
        if any(cut_low) or any(cut_high):
            sizes = [n - a - b for n, a, b in zip(shape, cut_low, cut_high, strict=True)]
            value = self.extract(value, cut_low, sizes, [1] * len(shape))
        low, high = ([max(n, 0) for n in pads] for pads in (low, high))
        if not any(low) and not any(high):
            return value
        shape = [a + n + b for a, n, b in zip(low, shape_of(value), high, strict=True)]
        body = Block(arg_types=[IndexType()] * len(shape))
        body.add_op(tensor.YieldOp(fill))
        result = tensor_type(element_of(value), shape)
        return self.insert(tensor.PadOp(value, [], [], Region(body), low, high, result))

    def extract(
        self, value: SSAValue, offsets: Sequence[int], sizes: Sequence[int], steps: Sequence[int]
    ) -> SSAValue:
        """A slice; itself where it is the whole."""
        if tuple(sizes) == shape_of(value):
            return value
        return self.insert(
            tensor.ExtractSliceOp.build(
                operands=[value, [], [], []],
                result_types=[tensor_type(element_of(value), sizes)],
                properties=_slice(offsets, sizes, steps),
            )
        )

    def insert_into(self, value: SSAValue, dest: SSAValue, offsets: Sequence[int]) -> SSAValue:
        """`dest` with `value` at the given place."""
        sizes = shape_of(value)
        return self.insert(
            tensor.InsertSliceOp.build(
                operands=[value, dest, [], [], []],
                result_types=[dest.type],
                properties=_slice(offsets, sizes, [1] * len(sizes)),
            )
        )


def _slice(
    offsets: Sequence[int], sizes: Sequence[int], steps: Sequence[int]
) -> dict[str, DenseArrayBase[IntegerType]]:
    """The properties of a static slice."""
    return {
        "static_offsets": DenseArrayBase.from_list(i64, list(offsets)),
        "static_sizes": DenseArrayBase.from_list(i64, list(sizes)),
        "static_strides": DenseArrayBase.from_list(i64, list(steps)),
    }


def _unreshaped(value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """What `value` was reshaped from, if that has the shape already; else `value`."""
    return next((origin for origin in reshaped_from(value) if shape_of(origin) == shape), value)


def reshaped_from(value: SSAValue) -> Iterator[SSAValue]:
    """`value`, what it was reshaped from, what that was reshaped from, and so on."""
    yield value
    while isinstance(value.owner, tensor.ExpandShapeOp | tensor.CollapseShapeOp):
        value = value.owner.src
        yield value


def erase_dead_ops(block: Block) -> None:
    """Erase what nobody reads: the reals of tensors of which only the integers are read."""
    effects = Effects()
    for op in reversed(list(block.ops)):
        if effects.is_dead(op):
            Rewriter.erase_op(op)


def erase_dead_reshapes(block: Block) -> None:
    """Erase the reshapes that something was reshaped past."""
    for op in reversed(list(block.ops)):
        is_reshape = isinstance(op, tensor.ExpandShapeOp | tensor.CollapseShapeOp)
        if is_reshape and op.results[0].first_use is None:
            Rewriter.erase_op(op)
