"""Ops on one sample as ops on all of them: every tensor that varies gets a dimension more."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import linalg, tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.traits import is_side_effect_free

from convir.analysis.dependence import operands_of
from convir.analysis.refusal import Refusal
from convir.analysis.reshapes import collapse_shape, expand_shape, groups_of, splitting
from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.analysis.values.zeros import constant_fill_of
from convir.dialects.linalg.generics import rearranging
from convir.passes.batch_gemms.im2col import ImageProduct, image_product
from convir.passes.builders.structured_rebuild import rebuilt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute

    from convir.analysis.slices import SliceView
    from convir.analysis.structured import Structured
    from convir.passes.batch_gemms.match import Leaf, Samples

_POINTWISE = ("arith.", "math.")


@dataclass(frozen=True)
class Batched:
    """A tensor of many samples."""

    value: SSAValue
    axis: int
    """Its dimension over the samples; the others are one sample's."""


@dataclass
class Batcher:
    """Builds `count` samples, from number `begin` on, into a block of its own."""

    samples: Samples
    begin: int
    count: int
    reads_images: bool = False
    """Whether products with a matrix of im2col read the image instead."""
    block: Block = field(default_factory=Block)
    known: dict[SSAValue, SSAValue | Batched] = field(
        default_factory=dict[SSAValue, "SSAValue | Batched"]
    )

    def build(self, dest: SSAValue) -> SSAValue | Refusal:
        """`dest` with the results of the samples in their place."""
        for op in self.samples.ops:
            refusal = self._convert(op)
            if refusal is not None:
                return refusal
        return self._store(dest)

    def discard(self) -> None:
        """Erase what was built."""
        for op in reversed(list(self.block.ops)):
            op.detach()
            op.erase()

    def _convert(self, op: Operation) -> Refusal | None:
        leaf = self.samples.leaves.get(op)
        if leaf is not None:
            source = self._of(leaf.source)
            if isinstance(source, Batched):
                return Refusal("a sample slices its own computation by the loop index")
            self.known[op.results[0]] = self._slice(leaf, source)
            return None
        if not is_side_effect_free(op):
            return Refusal(f"{op.name} may have effects")
        if not any(isinstance(self._of(value), Batched) for value in operands_of(op)):
            mapping = {value: cast("SSAValue", self._of(value)) for value in operands_of(op)}
            clone = op.clone(mapping)
            self.block.add_op(clone)
            self.known.update(zip(op.results, clone.results, strict=True))
            return None
        batched = self._batched(op)
        if isinstance(batched, Refusal):
            return batched
        self.known[op.results[0]] = batched
        return None

    def _of(self, value: SSAValue) -> SSAValue | Batched:
        return self.known.get(value, value)

    def _batched(self, op: Operation) -> Batched | Refusal:
        refusal = Refusal(f"{op.name} has no batched form")
        if len(op.results) != 1:
            return refusal
        view = structured(op)
        if view is not None:
            return self._structured(view)
        if op.regions and not isinstance(op, tensor.PadOp):
            return refusal
        match op:
            case tensor.PadOp():
                return self._pad(op)
            case tensor.CastOp() if op.source.type == op.dest.type:
                return cast("Batched", self._of(op.source))
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                return self._reshape(op)
            case _ if op.name.startswith(_POINTWISE):
                return self._pointwise(op)
            case _:
                return refusal

    def _emit(self, op: Operation, like: Operation) -> SSAValue:
        op.location = like.location
        self.block.add_op(op)
        return op.results[0]

    def _shape(self, value: SSAValue, axis: int) -> list[int]:
        """The shape of many samples of a tensor."""
        shape = list(cast("TensorType[Attribute]", value.type).get_shape())
        return [*shape[:axis], self.count, *shape[axis:]]

    def _type(self, value: SSAValue, axis: int) -> TensorType[Attribute]:
        element = cast("TensorType[Attribute]", value.type).element_type
        return TensorType(element, self._shape(value, axis))

    def _slice(self, leaf: Leaf, value: SSAValue) -> Batched:
        """The slices of all samples, as one of `value`, which stands for the leaf's source."""
        view = leaf.view
        offsets = [0 if offset is None else offset for offset in view.offsets]
        sizes = list(cast("tuple[int, ...]", view.sizes))
        strides = list(cast("tuple[int, ...]", view.strides))
        offsets[leaf.dim] = leaf.start + leaf.step * self.begin
        sizes[leaf.dim], strides[leaf.dim] = self.count, leaf.step
        kept = [d for d in range(view.rank) if d not in view.dropped or d == leaf.dim]
        element = cast("TensorType[Attribute]", value.type).element_type
        shape = [sizes[d] for d in kept]
        if cast("TensorType[Attribute]", value.type).get_shape() != tuple(shape):
            op = tensor.ExtractSliceOp.build(
                operands=[value, [], [], []],
                result_types=[TensorType(element, shape)],
                properties=_slice_properties(offsets, sizes, strides),
            )
            value = self._emit(op, view.op)
        axis = kept.index(leaf.dim)
        if leaf.dim not in view.dropped:
            value = self._split(value, axis, view.op)
        return Batched(value, axis)

    def _split(self, value: SSAValue, axis: int, like: Operation) -> SSAValue:
        """`value` with a dimension of size 1 behind `axis`."""
        shape = list(cast("TensorType[Attribute]", value.type).get_shape())
        result = TensorType(
            cast("TensorType[Attribute]", value.type).element_type,
            [*shape[: axis + 1], 1, *shape[axis + 1 :]],
        )
        return self._emit(expand_shape(value, splitting(len(shape), axis), result), like)

    def _structured(self, view: Structured) -> Batched | Refusal:
        if len(view.inits) != 1:
            return Refusal(f"{view.op.name} has several results")
        for inner in view.body.walk():
            if any(isinstance(self._of(value), Batched) for value in inner.operands):
                return Refusal(f"the body of {view.op.name} captures a sample's tensor")
        operands: list[SSAValue] = []
        maps: list[AffineMap] = []
        loops = len(view.iterators)
        shifted = [AffineExpr.dimension(loop + 1) for loop in range(loops)]
        axis = 0
        for position, (operand, indexing_map) in enumerate(
            zip(view.operands, view.maps, strict=True)
        ):
            found = self._of(operand)
            if position == len(view.inputs) and not isinstance(found, Batched):
                is_stored = view.op.results[0] is self.samples.result
                found = self._spread(found, self._stored_axis() if is_stored else 0, view.op)
            results = list(indexing_map.replace_dims_and_symbols(shifted, [], loops + 1, 0).results)
            if isinstance(found, Batched):
                results.insert(found.axis, AffineExpr.dimension(0))
                axis = found.axis
                found = found.value
            operands.append(found)
            maps.append(AffineMap(loops + 1, 0, tuple(results)))
        new = rebuilt(view, operands, maps, ["parallel", *view.iterators])
        for inner in new.walk():
            for i, operand in enumerate(inner.operands):
                replacement = self._of(operand)
                if inner is not new and isinstance(replacement, SSAValue):
                    inner.operands[i] = replacement
            if isinstance(inner, linalg.ops.IndexOp):
                inner.dim = IntegerAttr(inner.dim.value.data + 1, i64)
        product = image_product(new) if self.reads_images else None
        if not isinstance(product, ImageProduct):
            return Batched(self._emit(new, view.op), axis)
        *_, value = [self._emit(op, view.op) for op in product.rewritten()]
        new.erase()
        return Batched(value, axis)

    def _stored_axis(self) -> int:
        """The dimension of a result that samples are stored along."""
        stored = self.samples.stored
        return sum(dim not in stored.view.dropped for dim in range(stored.dim))

    def _spread(self, value: SSAValue, axis: int, like: Operation) -> Batched:
        """The same tensor for every sample."""
        result = self._type(value, axis)
        sizes: list[SSAValue] = []
        for dim, size in enumerate(cast("TensorType[Attribute]", value.type).get_shape()):
            if size == DYNAMIC_INDEX:
                index = self._emit(ConstantOp.from_int_and_width(dim, IndexType()), like)
                sizes.append(self._emit(tensor.DimOp(value, index), like))
        empty = self._emit(tensor.EmptyOp(sizes, result), like)
        if isinstance(value.owner, tensor.EmptyOp):
            return Batched(empty, axis)
        fill = constant_fill_of(value)
        if fill is not None:
            scalar = self._emit(ConstantOp(fill), like)
            filled = linalg.ops.FillOp((scalar,), (empty,), (result,))
            return Batched(self._emit(filled, like), axis)
        loops = [AffineExpr.dimension(loop) for loop in range(len(result.get_shape()))]
        source = [loop for loop in loops if loop != loops[axis]]
        return Batched(self._emit(rearranging(value, source, empty, loops), like), axis)

    def _pad(self, op: tensor.PadOp) -> Batched | Refusal:
        source = self._of(op.source)
        if not isinstance(source, Batched) or op.low or op.high:
            return Refusal("a pad whose amounts are not constant")
        mapping: dict[SSAValue, SSAValue] = {}
        for inner in op.region.walk():
            for value in inner.operands:
                found = self._of(value)
                if value.owner is op.region.block:
                    return Refusal("a pad whose value depends on the index")
                if isinstance(found, Batched):
                    return Refusal("a pad whose value depends on the sample")
                mapping[value] = found
        low, high = (list(x.get_values()) for x in (op.static_low, op.static_high))
        for amounts in (low, high):
            amounts.insert(source.axis, 0)
        result = self._type(op.result, source.axis)
        body = Block(arg_types=[op.region.block.args[0].type] * len(low))
        for inner in op.region.block.ops:
            body.add_op(inner.clone(mapping))
        padded = tensor.PadOp(source.value, [], [], Region(body), low, high, result)
        return Batched(self._emit(padded, op), source.axis)

    def _reshape(self, op: tensor.CollapseShapeOp | tensor.ExpandShapeOp) -> Batched:
        source = self._of(op.src)
        assert isinstance(source, Batched)
        groups = groups_of(op)
        collapses = isinstance(op, tensor.CollapseShapeOp)
        starts = [group[0] if collapses else i for i, group in enumerate(groups)]
        rank = len(cast("TensorType[Attribute]", op.src.type).get_shape())
        if not groups:  # One element a sample, of rank 0 before or behind.
            larger = op.src if collapses else op.result
            dims = len(cast("TensorType[Attribute]", larger.type).get_shape())
            return self._regrouped(op, source.value, [list(range(dims + 1))], 0)
        if source.axis not in (*starts, rank):  # Between dimensions that are merged.
            source = Batched(self._moved(source, 0, op), 0)
        at = starts.index(source.axis) if source.axis in starts else len(groups)
        split = groups[at][0] if at < len(groups) else sum(map(len, groups))
        moved = [[dim + (dim >= split) for dim in group] for group in groups]
        moved.insert(at, [split])
        return self._regrouped(op, source.value, moved, at if collapses else split)

    def _regrouped(
        self,
        op: tensor.CollapseShapeOp | tensor.ExpandShapeOp,
        source: SSAValue,
        groups: Sequence[Sequence[int]],
        axis: int,
    ) -> Batched:
        """`op` on many samples, which come to lie in dimension `axis`."""
        result = self._type(op.result, axis)
        if isinstance(op, tensor.CollapseShapeOp):
            return Batched(self._collapsed(source, groups, result, op), axis)
        sizes = [cast("SSAValue", self._of(size)) for size in op.dynamic_output_shape]
        return Batched(self._emit(expand_shape(source, groups, result, sizes), op), axis)

    def _collapsed(
        self,
        source: SSAValue,
        groups: Sequence[Sequence[int]],
        result: TensorType[Attribute],
        like: Operation,
    ) -> SSAValue:
        """`source` collapsed to `result`.

        A slice that leaves what is merged whole is cut from the collapsed tensor, where kernels
        read it in place: a slice that is reshaped is a copy.
        """
        cut = slice_view(source.op) if isinstance(source, OpResult) else None
        if cut is None or not _cuts_beside(cut, groups):
            return self._emit(collapse_shape(source, groups, result), like)
        whole = cast("TensorType[Attribute]", cut.source.type).get_shape()
        shape = [prod(whole[dim] for dim in group) for group in groups]
        collapsed = collapse_shape(cut.source, groups, TensorType(result.element_type, shape))
        offsets = [cast("int", cut.offsets[group[0]]) for group in groups]
        # What is merged is whole: the stride of a dimension of size 1 says nothing.
        strides = [1 if len(group) > 1 else cast("int", cut.strides[group[0]]) for group in groups]
        op = tensor.ExtractSliceOp.build(
            operands=[self._emit(collapsed, like), [], [], []],
            result_types=[result],
            properties=_slice_properties(offsets, result.get_shape(), strides),
        )
        return self._emit(op, like)

    def _pointwise(self, op: Operation) -> Batched | Refusal:
        axes = {x.axis for x in map(self._of, op.operands) if isinstance(x, Batched)}
        if len(axes) != 1:
            return Refusal(f"the operands of {op.name} hold their samples in different dimensions")
        (axis,) = axes
        operands: list[SSAValue] = []
        for value in op.operands:
            found = self._of(value)
            if not isinstance(found, Batched) and isinstance(found.type, TensorType):
                found = self._spread(found, axis, op)
            # A scalar is the same for every element: the condition of a select.
            operands.append(found.value if isinstance(found, Batched) else found)
        new = type(op).create(
            operands=operands,
            result_types=[self._type(op.results[0], axis)],
            properties=op.properties,
            attributes=op.attributes,
        )
        return Batched(self._emit(new, op), axis)

    def _store(self, dest: SSAValue) -> SSAValue | Refusal:
        """`dest` with the samples' results in their slices."""
        stored, found = self.samples.stored, self._of(self.samples.result)
        view = stored.view
        if not isinstance(found, Batched):
            found = self._spread(found, self._stored_axis(), view.op)
        position = self._stored_axis()
        value = self._moved(found, position, view.op)
        if stored.dim not in view.dropped:
            value = self._merged(value, position, view.op)
        offsets = [0 if offset is None else offset for offset in view.offsets]
        sizes = list(cast("tuple[int, ...]", view.sizes))
        strides = list(cast("tuple[int, ...]", view.strides))
        offsets[stored.dim] = stored.start + stored.step * self.begin
        sizes[stored.dim], strides[stored.dim] = self.count, stored.step
        if value.type == dest.type:
            return value
        op = tensor.InsertSliceOp.build(
            operands=[value, dest, [], [], []],
            result_types=[dest.type],
            properties=_slice_properties(offsets, sizes, strides),
        )
        return self._emit(op, view.op)

    def _moved(self, found: Batched, axis: int, like: Operation) -> SSAValue:
        """The tensor with its samples in dimension `axis`."""
        if found.axis == axis:
            return found.value
        shape = list(cast("TensorType[Attribute]", found.value.type).get_shape())
        order = [d for d in range(len(shape)) if d != found.axis]
        order.insert(axis, found.axis)
        element = cast("TensorType[Attribute]", found.value.type).element_type
        empty = self._emit(tensor.EmptyOp((), TensorType(element, [shape[d] for d in order])), like)
        source = [AffineExpr.dimension(order.index(d)) for d in range(len(shape))]
        out = [AffineExpr.dimension(d) for d in range(len(shape))]
        return self._emit(rearranging(found.value, source, empty, out), like)

    def _merged(self, value: SSAValue, axis: int, like: Operation) -> SSAValue:
        """`value` with its dimension `axis` and the one of size 1 behind it as one."""
        shape = list(cast("TensorType[Attribute]", value.type).get_shape())
        del shape[axis + 1]
        element = cast("TensorType[Attribute]", value.type).element_type
        groups = splitting(len(shape), axis)
        return self._emit(collapse_shape(value, groups, TensorType(element, shape)), like)


def _cuts_beside(cut: SliceView, groups: Sequence[Sequence[int]]) -> bool:
    """Whether a static slice takes all of every dimension that is merged with another."""
    if cut.kind != "extract_slice" or cut.dropped or None in (*cut.offsets, *cut.strides):
        return False
    shapes = (cast("TensorType[Attribute]", x.type).get_shape() for x in (cut.source, cut.result))
    whole, part = shapes
    if DYNAMIC_INDEX in (*whole, *part):
        return False
    merged = [dim for group in groups if len(group) > 1 for dim in group]
    return all(whole[dim] == part[dim] for dim in merged)


def _slice_properties(
    offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> dict[str, Attribute]:
    return {
        "static_offsets": DenseArrayBase.from_list(i64, list(offsets)),
        "static_sizes": DenseArrayBase.from_list(i64, list(sizes)),
        "static_strides": DenseArrayBase.from_list(i64, list(strides)),
    }
