"""Building tensors at one place of the IR: fills, slices, reshapes, gathers and scatters.

Shapes are given as sizes that may be symbols; the builder materialises `tensor.dim` only for
sizes that no SSA value holds yet. Tensors are cast where a reader knows more or less of their
sizes. An op that would not verify is not built: see `drafted`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from convir.analysis.refusal import Refusal
from convir.analysis.reshapes import collapse_shape, expand_shape, reassociation
from convir.analysis.scatter.placement import Placement, covers, product
from convir.analysis.slices import DimOf, ranked, sizes_of
from convir.analysis.values.scalars import zero_of
from convir.analysis.values.zeros import constant_fill_of
from convir.dialects.diagnostics import one_line
from convir.passes.builders.structured_rebuild import rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.dialects.builtin import AnyFloat, IntegerType
    from xdsl.ir import Operation
    from xdsl.pattern_rewriter import PatternRewriter

    from convir.analysis.scatter.elementwise import Elementwise
    from convir.analysis.scatter.placement import Digits
    from convir.analysis.scatter.scattered_tensor import Scatter
    from convir.analysis.slices import Mixed, Size
    from convir.analysis.values.scalars import Constant


class UnbuildableError(Exception):
    """A tensor that cannot be built, with what is known of its sizes; the text is one clause."""


@dataclass(frozen=True)
class TensorBuilder:
    """Inserts ops in front of `like`, with its location."""

    rewriter: PatternRewriter
    like: Operation
    made: list[Operation] = field(default_factory=list["Operation"])
    """What was inserted, in order."""
    shapes: dict[SSAValue, tuple[Size, ...]] = field(
        default_factory=dict[SSAValue, "tuple[Size, ...]"]
    )
    """The sizes of tensors of which more is known than they show: how they were used or built."""

    def at(self, like: Operation) -> TensorBuilder:
        """The builder of the same draft in front of another op."""
        return replace(self, like=like)

    def insert(self, op: Operation) -> SSAValue:
        """Insert `op` and return its only result.

        Raises:
            UnbuildableError: it would be no valid op.
        """
        op.location = self.like.location
        self.rewriter.insert(op, InsertPoint.before(self.like))
        self.made.append(op)
        try:
            op.verify()
        except VerifyException as error:
            raise UnbuildableError(f"{op.name} cannot be built: {one_line(error)}") from error
        return op.results[0]

    def drafted(self, build: Callable[[], SSAValue]) -> SSAValue | Refusal:
        """What `build` builds, all of it with this builder; if it cannot, nothing is left of it."""
        try:
            return build()
        except UnbuildableError as error:
            for op in reversed(self.made):
                self.rewriter.erase(op)
            self.made.clear()
            self.rewriter.has_done_action = False
            return Refusal(str(error))

    def index(self, size: Size) -> Mixed:
        """`size` as something an op takes: static, or an SSA value of type `index`."""
        if not isinstance(size, DimOf):
            return size
        dim = self.insert(arith.ConstantOp(IntegerAttr.from_index_int_value(size.dim)))
        return self.insert(tensor.DimOp(size.value, dim))

    def uninitialised(self, element_type: Attribute, sizes: Sequence[Size]) -> SSAValue:
        """A `tensor.empty` of the given sizes."""
        dynamic = [self.index(size) for size in sizes if not isinstance(size, int)]
        values = [value for value in dynamic if isinstance(value, SSAValue)]
        return self.insert(tensor.EmptyOp(values, tensor_type(element_type, sizes)))

    def constant(self, value: Constant, sizes: Sequence[Size]) -> SSAValue:
        """A tensor that holds `value` everywhere: an `arith.constant` where the shape is static."""
        if all(isinstance(size, int) for size in sizes):
            return self.insert(arith.ConstantOp(splat(value, tensor_type(value.type, sizes))))
        return self.fill(self.insert(arith.ConstantOp(value)), sizes)

    def fill(self, value: SSAValue | Constant, sizes: Sequence[Size]) -> SSAValue:
        """A `linalg.fill` of a fresh tensor with `value`."""
        scalar = value if isinstance(value, SSAValue) else self.insert(arith.ConstantOp(value))
        init = self.uninitialised(scalar.type, sizes)
        return self.insert(FillOp((scalar,), (init,), (init.type,)))

    def filled(self, value: SSAValue | Constant, sizes: Sequence[Size]) -> SSAValue:
        """A tensor that holds `value` everywhere, as a constant if it can be one."""
        if isinstance(value, SSAValue):
            return self.fill(value, sizes)
        return self.constant(value, sizes)

    def cast(self, value: SSAValue, result: Attribute) -> SSAValue:
        """`value` with the type `result`, which differs at most in what it knows of the sizes."""
        if value.type == result:
            return value
        return self.insert(tensor.CastOp(value, cast("TensorType[Attribute]", result)))

    def known(self, value: SSAValue) -> SSAValue:
        """`value` with every size in its type that is known."""
        sizes = self._sizes(value)
        return self._sized(self.cast(value, tensor_type(element_type_of(value), sizes)), sizes)

    def reshape(self, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
        """`value` with the given sizes in row-major order, by at most one collapse and expand.

        Raises:
            UnbuildableError: the sizes are not provably those of a reshape.
        """
        value = self._unreshaped(value, sizes)
        have = self._sizes(value)
        value = self.known(value)
        groups = reassociation(have, sizes)
        if groups is None:
            wanted = tensor_type(element_type_of(value), sizes)
            if wanted == value.type:
                raise UnbuildableError(f"two tensors of type {wanted} are not proved equal in size")
            raise UnbuildableError(f"{value.type} is not provably reshaped to {wanted}")
        element = element_type_of(value)
        old, new = ([group[side] for group in groups] for side in (0, 1))
        if len(old) < len(have):
            merged = [_known_product([have[dim] for dim in group]) for group in old]
            value = self.insert(collapse_shape(value, old, tensor_type(element, merged)))
        if len(new) < len(sizes):
            dynamic = [self.index(size) for size in sizes if not isinstance(size, int)]
            known = [size for size in dynamic if isinstance(size, SSAValue)]
            value = self.insert(expand_shape(value, new, tensor_type(element, sizes), known))
        return self._sized(value, sizes)

    def pad(self, value: SSAValue, low: Sequence[int], high: Sequence[int]) -> SSAValue:
        """`value` with zeros before and after it in each dimension; itself where there are none."""
        if not any(low) and not any(high):
            return value
        element_type = element_type_of(value)
        sizes = [
            size if before == after == 0 else _padded(size, before + after)
            for before, size, after in zip(low, sizes_of(value), high, strict=True)
        ]
        zero = self.insert(arith.ConstantOp(zero_of(element_type)))
        body = Block(arg_types=[IndexType()] * len(sizes))
        body.add_op(tensor.YieldOp(zero))
        result = tensor_type(element_type, sizes)
        return self.insert(tensor.PadOp(value, [], [], Region(body), low, high, result))

    def extract(
        self,
        value: SSAValue,
        offsets: Sequence[Mixed],
        sizes: Sequence[Size],
        strides: Sequence[Mixed],
    ) -> SSAValue:
        """A `tensor.extract_slice` of `value`."""
        slices = self._slice(offsets, sizes, strides)
        op = tensor.ExtractSliceOp.build(
            operands=[value, *slices.dynamic],
            result_types=[tensor_type(element_type_of(value), sizes)],
            properties=slices.static,
        )
        return self._sized(self.insert(op), sizes)

    def insert_into(self, value: SSAValue, dest: SSAValue, placed: Digits) -> SSAValue:
        """A `tensor.insert_slice` of `value` into `dest`, one placement per dimension."""
        slices = self._slice(
            [placement.offset for placement in placed],
            [placement.size for placement in placed],
            [placement.stride for placement in placed],
        )
        return self.insert(
            tensor.InsertSliceOp.build(
                operands=[value, dest, *slices.dynamic],
                result_types=[dest.type],
                properties=slices.static,
            )
        )

    def gather(self, value: SSAValue, dims: Sequence[Digits]) -> SSAValue:
        """The elements of `value` that lie at the placements of each dimension."""
        if all(covers(digits) for digits in dims):
            return value
        placed = flattened(dims)
        spread = self.reshape(value, [placement.extent for placement in placed])
        taken = self.extract(
            spread,
            [placement.offset for placement in placed],
            [placement.size for placement in placed],
            [placement.stride for placement in placed],
        )
        return self.reshape(taken, element_counts(dims))

    def scatter(self, small: SSAValue, dest: SSAValue, dims: Sequence[Digits]) -> SSAValue:
        """`dest` with the elements of `small` at the placements of each dimension.

        `dest` has one dimension per placement.
        """
        placed = flattened(dims)
        spread = self.reshape(small, [placement.size for placement in placed])
        result = self.insert_into(spread, dest, placed)
        return self.reshape(result, extents(dims))

    def source_of(self, scatter: Scatter, kept: frozenset[int]) -> SSAValue:
        """The dense tensor that was scattered, still scattered in the dimensions in `kept`."""
        placed = scatter.placements
        value = self._dense_source(scatter)
        value = self._sized(value, scatter.source_sizes)
        value = self.reshape(value, [placement.source_size for placement in placed])
        if any(placement.crops for placement in placed):
            value = self.extract(
                value,
                [placement.start for placement in placed],
                [placement.size for placement in placed],
                [placement.step for placement in placed],
            )
        dims = [
            digits if dim in kept else gapless(digits) for dim, digits in enumerate(scatter.dims)
        ]
        if all(covers(digits) for digits in dims):
            return self.reshape(value, element_counts(dims))
        zero = zero_of(element_type_of(value))
        dest = self.constant(zero, [placement.extent for placement in flattened(dims)])
        placed_value = self.insert_into(value, dest, flattened(dims))
        return self.reshape(placed_value, extents(dims))

    def elementwise(self, step: Elementwise, part: SSAValue) -> SSAValue:
        """The op of `step` on `part` of its operand, the other operands cut down to fit."""
        operands = [
            part if position == step.operand else self._part_of(step, position)
            for position in range(len(step.view.operands))
        ]
        return self.insert(rebuilt(step.view, operands))

    def _part_of(self, step: Elementwise, position: int) -> SSAValue:
        operand = step.view.operands[position]
        if not isinstance(operand.type, TensorType):
            return operand
        dims = step.dims_of(position)
        if all(covers(digits) for digits in dims):
            return operand
        if step.view.body.args[position].first_use is None:
            return self.uninitialised(element_type_of(operand), element_counts(dims))
        fill = constant_fill_of(operand)
        if fill is None:
            raise UnbuildableError(f"{step.view.op.name} reads a tensor that is not uniform")
        return self.filled(fill, element_counts(dims))

    def _dense_source(self, scatter: Scatter) -> SSAValue:
        source = scatter.source
        if isinstance(source, SSAValue):
            return source
        return self.elementwise(source.step, self.source_of(source.scatter, frozenset()))

    def _sizes(self, value: SSAValue) -> tuple[Size, ...]:
        return self.shapes.get(value) or sizes_of(value)

    def _unreshaped(self, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
        """What `value` was reshaped from, if that has the given sizes, or `value`."""
        origin = value
        while isinstance(origin.owner, tensor.CollapseShapeOp | tensor.ExpandShapeOp):
            origin = origin.owner.src
            if self._sizes(origin) == tuple(sizes):
                return origin
        return value

    def _sized(self, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
        self.shapes[value] = tuple(sizes)
        return value

    def _slice(
        self, offsets: Sequence[Mixed], sizes: Sequence[Size], strides: Sequence[Mixed]
    ) -> _Slice:
        mixed_sizes = [self.index(size) for size in sizes]
        return _Slice(
            [_dynamic(entries) for entries in (offsets, mixed_sizes, strides)],
            {
                "static_offsets": DenseArrayBase.from_list(i64, _static(offsets)),
                "static_sizes": DenseArrayBase.from_list(i64, _static(mixed_sizes)),
                "static_strides": DenseArrayBase.from_list(i64, _static(strides)),
            },
        )


@dataclass(frozen=True)
class _Slice:
    dynamic: list[list[SSAValue]]
    static: dict[str, Attribute]


def tensor_type(element_type: Attribute, sizes: Sequence[Size]) -> TensorType[Attribute]:
    """The tensor type with the given sizes, dynamic where they are not static."""
    return TensorType(element_type, _static(sizes))


def element_type_of(value: SSAValue) -> Attribute:
    """The element type of a tensor."""
    return ranked(value).get_element_type()


def splat(value: Constant, result: TensorType[Attribute]) -> DenseIntOrFPElementsAttr:
    """A dense attribute that holds `value` everywhere, stored as one element."""
    element_type = cast("AnyFloat | IntegerType", value.type)
    number = cast("int", value.value.data)
    packed = BytesAttr(element_type.pack((number,)))
    return DenseIntOrFPElementsAttr(cast("TensorType[IntegerType]", result), packed)


def flattened(dims: Sequence[Digits]) -> Digits:
    """The placements of all dimensions, in row-major order."""
    return tuple(placement for digits in dims for placement in digits)


def gapless(digits: Digits) -> Digits:
    """The digits as they are once only the placed elements are left."""
    return tuple(Placement.whole(placement.size) for placement in digits)


def element_counts(dims: Sequence[Digits]) -> list[Size]:
    """How many elements are placed in each dimension."""
    return [_known_product([placement.size for placement in digits]) for digits in dims]


def extents(dims: Sequence[Digits]) -> list[Size]:
    """The size of each dimension, gaps included."""
    return [_known_product([placement.extent for placement in digits]) for digits in dims]


def _padded(size: Size, margin: int) -> int:
    return size + margin if isinstance(size, int) else DYNAMIC_INDEX


def _known_product(sizes: Sequence[Size]) -> Size:
    size = product(sizes)
    if size is None:
        raise UnbuildableError("a dimension has several dynamic sizes")
    return size


def _dynamic(entries: Sequence[Size]) -> list[SSAValue]:
    return [entry for entry in entries if isinstance(entry, SSAValue)]


def _static(entries: Sequence[Size]) -> list[int]:
    return [entry if isinstance(entry, int) else DYNAMIC_INDEX for entry in entries]
