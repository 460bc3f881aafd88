"""What shapes an op's results have once those of its operands are numbers, one rule an op class.

A rule sees an op whose operands are static and rewrites it: sizes, offsets and paddings that are
constants by now move into the op's static lists, and the results take static types. A size that
does not follow is an `UnboundSizeError`, and one that contradicts the op's type or is negative a
`ContradictionError`. Whether sizes fit each other is left to the op's own verifier, which whoever
calls a rule runs.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, TensorType, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import OpResult, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from convir.analysis.reshapes import groups_of
from convir.analysis.slices import dropped_dims, index_of, numbers
from convir.dialects.conv.ops import CONV_OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.dialects.builtin import IntegerType
    from xdsl.ir import Attribute, Operation
    from xdsl.irdl import IRDLOperation

AnyTensor: TypeAlias = "TensorType[Attribute]"
Shape: TypeAlias = "tuple[int, ...]"

_OPEN = "does not follow from the shapes of the arguments"
_SEGMENTS = "operandSegmentSizes"
_ELEMENTWISE_DIALECTS = frozenset(("arith", "math"))


class UnboundSizeError(Exception):
    """A size does not follow from the shapes of the arguments; the text says which."""


class ContradictionError(Exception):
    """Two sizes of one tensor differ; the text says which."""


def bind_op(op: Operation) -> Operation | None:
    """Make the results of `op` static, given static operands; the op that stands for it now.

    None if it is gone, being the identity. Ops without rule stay as they are, and so do their
    dynamic results.

    Raises:
        UnboundSizeError: a size depends on more than the shapes of the arguments.
        ContradictionError: a size is another than the type of its tensor says, or negative.
    """
    rule = _RULES.get(type(op))
    if rule is not None:
        return rule(op)
    if isinstance(op, LinalgStructuredOperation):
        _retype_all(op, [shape_of(out) for out in op.outputs if isinstance(out.type, TensorType)])
    elif op.dialect_name() in _ELEMENTWISE_DIALECTS:
        operand = next((v for v in op.operands if isinstance(v.type, TensorType)), None)
        if operand is not None:
            _retype_all(op, [shape_of(operand)] * len(op.results))
    return op


def tensor_type(value: SSAValue) -> AnyTensor:
    """The type of `value`, which is a ranked tensor."""
    return cast("AnyTensor", value.type)


def shape_of(value: SSAValue) -> Shape:
    """The shape of a ranked tensor, `DYNAMIC_INDEX` where it is not known."""
    return tensor_type(value).get_shape()


def resized(tensor_type: AnyTensor, shape: Sequence[int]) -> AnyTensor:
    """The type with another shape."""
    return TensorType(tensor_type.element_type, shape, tensor_type.encoding)


def merged(shape: Sequence[int], declared: Sequence[int]) -> Shape:
    """The sizes of `shape`, and those of `declared` where it has none.

    Raises:
        ContradictionError: the two contradict each other.
    """
    fits = len(shape) == len(declared) and all(
        a == b or DYNAMIC_INDEX in (a, b) for a, b in zip(shape, declared, strict=True)
    )
    if not fits:
        raise ContradictionError(f"is {spelled(shape)}, but its type says {spelled(declared)}")
    return tuple(b if a == DYNAMIC_INDEX else a for a, b in zip(shape, declared, strict=True))


SCALAR = "scalar"
"""How the shape of rank 0 is spelled."""


def spelled(shape: Sequence[int]) -> str:
    """A shape as `4x8`, a size that is not known as `?`."""
    return "x".join("?" if n == DYNAMIC_INDEX else str(n) for n in shape) or SCALAR


def _retype(result: SSAValue, shape: Sequence[int]) -> None:
    """Give `result` the sizes of `shape`, which must agree with those that its type has."""
    declared = tensor_type(result)
    if DYNAMIC_INDEX not in declared.get_shape() and tuple(shape) == declared.get_shape():
        return
    Rewriter.replace_value_with_new_type(
        result, resized(declared, merged(shape, declared.get_shape()))
    )


def _retype_all(op: Operation, shapes: Sequence[Shape]) -> None:
    for result, shape in zip(tuple(op.results), shapes, strict=True):
        _retype(result, shape)


def _folded(
    static: DenseArrayBase[IntegerType], dynamic: Sequence[SSAValue], what: str
) -> tuple[Shape, list[SSAValue]]:
    """A mixed list of numbers and values with every constant among the numbers.

    Raises:
        ContradictionError: a constant is negative.
    """
    mixed: list[int] = []
    left: list[SSAValue] = []
    values = iter(dynamic)
    for number in numbers(static):
        value = next(values) if number == DYNAMIC_INDEX else None
        known = number if value is None else index_of(value)
        if value is not None and isinstance(known, int) and known < 0:
            raise ContradictionError(f"has a {what} of {known}")
        if value is not None and not isinstance(known, int):
            left.append(value)
        mixed.append(known if isinstance(known, int) else DYNAMIC_INDEX)
    return tuple(mixed), left


def _rebuilt(
    op: IRDLOperation,
    operands: Sequence[SSAValue | Sequence[SSAValue]],
    lists: Mapping[str, Shape],
    shape: Shape,
) -> Operation:
    """`op` replaced by one with other operands, static lists and a result of `shape`."""
    kept = {name: value for name, value in op.properties.items() if name != _SEGMENTS}
    numbers_of = {name: DenseArrayBase.from_list(i64, sizes) for name, sizes in lists.items()}
    declared = tensor_type(op.results[0])
    new = type(op).build(
        operands=operands,
        result_types=[resized(declared, merged(shape, declared.get_shape()))],
        properties={**kept, **numbers_of},
        attributes=dict(op.attributes),
        regions=[op.detach_region(region) for region in tuple(op.regions)],
    )
    new.location = op.location
    Rewriter.replace_op(op, new)
    return new


def _dynamic_values(sizes: Sequence[SSAValue], result: SSAValue) -> Shape:
    """The shape of `result`, whose dynamic sizes are given by constants."""
    values = iter(sizes)
    shape: list[int] = []
    for dim, number in enumerate(shape_of(result)):
        size = index_of(next(values)) if number == DYNAMIC_INDEX else number
        if not isinstance(size, int):
            raise UnboundSizeError(f"has a size of dimension {dim} that {_OPEN}")
        if size < 0:
            raise ContradictionError(f"has a size of {size}")
        shape.append(size)
    return tuple(shape)


def _empty(op: Operation) -> Operation:
    empty = cast("tensor.EmptyOp", op)
    return _rebuilt(empty, [[]], {}, _dynamic_values(empty.dynamic_sizes, empty.tensor))


def _splat(op: Operation) -> Operation:
    splat = cast("tensor.SplatOp", op)
    shape = _dynamic_values(splat.dynamicSizes, splat.result)
    return _rebuilt(splat, [splat.input, []], {}, shape)


def _expand_shape(op: Operation) -> Operation:
    """The sizes that are given, and in each group at most one that follows from the source."""
    expand = cast("tensor.ExpandShapeOp", op)
    given, _ = _folded(expand.static_output_shape, expand.dynamic_output_shape, "size")
    shape = list(given)
    for size, group in zip(shape_of(expand.src), groups_of(expand), strict=True):
        open_dims = [dim for dim in group if shape[dim] == DYNAMIC_INDEX]
        others = prod(shape[dim] for dim in group if dim not in open_dims)
        if len(open_dims) > 1 or (open_dims and others == 0):
            raise UnboundSizeError(f"has a size of dimension {open_dims[0]} that {_OPEN}")
        if open_dims:
            shape[open_dims[0]] = size // others
    return _rebuilt(expand, [expand.src, []], {"static_output_shape": tuple(shape)}, tuple(shape))


def _collapse_shape(op: Operation) -> Operation:
    collapse = cast("tensor.CollapseShapeOp", op)
    sizes = shape_of(collapse.src)
    groups = groups_of(collapse)
    _retype(collapse.result, [prod(sizes[dim] for dim in group) for group in groups])
    return op


def _reshape(op: Operation) -> Operation:
    """The sizes that the shape operand lists, at most one of which follows from the source."""
    reshape = cast("tensor.ReshapeOp", op)
    shape = list(shape_of(reshape.result))
    made = reshape.shape
    if isinstance(made, OpResult) and isinstance(made.op, tensor.FromElementsOp):
        entries = [index_of(element) for element in made.op.elements]
        listed = [n if isinstance(n, int) else DYNAMIC_INDEX for n in entries]
        shape = list(merged(listed, shape))
    open_dims = [dim for dim, size in enumerate(shape) if size == DYNAMIC_INDEX]
    others = prod(size for size in shape if size != DYNAMIC_INDEX)
    if len(open_dims) > 1 or (open_dims and others == 0):
        raise UnboundSizeError(f"has a size of dimension {open_dims[0]} that {_OPEN}")
    if open_dims:
        shape[open_dims[0]] = prod(shape_of(reshape.source)) // others
    _retype(reshape.result, shape)
    return op


def _cast(op: Operation) -> Operation | None:
    """A cast that only forgot or promised sizes is the identity on static shapes."""
    cast_op = cast("tensor.CastOp", op)
    if not all(isinstance(value.type, TensorType) for value in (cast_op.source, cast_op.dest)):
        raise UnboundSizeError("casts a tensor without rank")
    source, dest = tensor_type(cast_op.source), tensor_type(cast_op.dest)
    merged(source.get_shape(), dest.get_shape())
    if resized(source, dest.get_shape()) != dest:
        _retype(cast_op.dest, source.get_shape())
        return op
    Rewriter.replace_op(op, [], [cast_op.source])
    return None


def _concat(op: Operation) -> Operation:
    concat = cast("tensor.ConcatOp", op)
    dim = concat.dim.value.data
    shapes = [shape_of(value) for value in concat.inputs]
    shape = list(shapes[0])
    shape[dim] = sum(sizes[dim] for sizes in shapes)
    _retype(concat.result, shape)
    return op


def _like_dest(op: Operation) -> Operation:
    _retype(op.results[0], shape_of(cast("tensor.InsertOp", op).dest))
    return op


def _like_init(op: Operation) -> Operation:
    _retype(op.results[0], shape_of(op.operands[-1]))
    return op


def _extract_slice(op: Operation) -> Operation:
    extract = cast("tensor.ExtractSliceOp", op)
    dropped = dropped_dims(numbers(extract.static_sizes), shape_of(extract.result))
    operands, lists = _slice_lists(extract)
    sizes = lists["static_sizes"]
    if DYNAMIC_INDEX in sizes:
        dim = sizes.index(DYNAMIC_INDEX)
        raise UnboundSizeError(f"has a size of dimension {dim} that {_OPEN}")
    shape = tuple(size for dim, size in enumerate(sizes) if dim not in (dropped or ()))
    return _rebuilt(extract, [extract.source, *operands], lists, shape)


def _insert_slice(op: Operation) -> Operation:
    """Sizes that are not given are the source's."""
    insert = cast("tensor.InsertSliceOp", op)
    operands, lists = _slice_lists(insert)
    sizes = lists["static_sizes"]
    if DYNAMIC_INDEX in sizes:
        if len(sizes) != len(shape_of(insert.source)):
            dim = sizes.index(DYNAMIC_INDEX)
            raise UnboundSizeError(f"has a size of dimension {dim} that {_OPEN}")
        lists["static_sizes"] = merged(sizes, shape_of(insert.source))
        operands[1] = []
    return _rebuilt(insert, [insert.source, insert.dest, *operands], lists, shape_of(insert.dest))


def _slice_lists(
    op: tensor.ExtractSliceOp | tensor.InsertSliceOp,
) -> tuple[list[list[SSAValue]], dict[str, Shape]]:
    """The dynamic operands that are left of a slice, and its static lists."""
    offsets, dynamic_offsets = _folded(op.static_offsets, op.offsets, "offset")
    sizes, dynamic_sizes = _folded(op.static_sizes, op.sizes, "size")
    strides, dynamic_strides = _folded(op.static_strides, op.strides, "stride")
    lists = {"static_offsets": offsets, "static_sizes": sizes, "static_strides": strides}
    return [dynamic_offsets, dynamic_sizes, dynamic_strides], lists


def _pad(op: Operation) -> Operation:
    pad = cast("tensor.PadOp", op)
    low, dynamic_low = _folded(pad.static_low, pad.low, "low padding")
    high, dynamic_high = _folded(pad.static_high, pad.high, "high padding")
    shape = tuple(
        DYNAMIC_INDEX if DYNAMIC_INDEX in (before, after) else before + size + after
        for before, size, after in zip(low, shape_of(pad.source), high, strict=True)
    )
    lists = {"static_low": low, "static_high": high}
    return _rebuilt(pad, [pad.source, dynamic_low, dynamic_high], lists, shape)


def _call(op: Operation) -> Operation:
    call = cast("func.CallOp", op)
    callee = SymbolTable.lookup_symbol(op, call.callee)
    if isinstance(callee, func.FuncOp):
        taken = tuple(callee.function_type.inputs)
        if taken != tuple(call.operand_types):
            raise UnboundSizeError(f"calls {call.callee}, which takes other sizes")
    return op


_RULES: Mapping[type[Operation], Callable[[Operation], Operation | None]] = {
    **dict.fromkeys(CONV_OPS.values(), _like_init),
    func.CallOp: _call,
    tensor.CastOp: _cast,
    tensor.CollapseShapeOp: _collapse_shape,
    tensor.ConcatOp: _concat,
    tensor.EmptyOp: _empty,
    tensor.ExpandShapeOp: _expand_shape,
    tensor.ExtractSliceOp: _extract_slice,
    tensor.InsertOp: _like_dest,
    tensor.InsertSliceOp: _insert_slice,
    tensor.PadOp: _pad,
    tensor.ReshapeOp: _reshape,
    tensor.SplatOp: _splat,
}
