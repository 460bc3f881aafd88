"""A function for another batch size: the same operations, one dimension resized throughout.

Dimensions that must have one size are tied together, op by op: a loop and the dimensions that it
indexes alone, the two sides of a slice or a reshape that leave a dimension whole, an operand and
its result. What is tied to the leading dimension of the first argument is the batch. It can be
resized if nothing on the way fixes it: a window, a reshape that mixes it with others, a constant
with elements of its own, arithmetic on its index, or an op that is not known here; nor, where
samples are to be computed independently, a sum over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    I64,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from convir.analysis.linear import linear_map
from convir.analysis.refusal import Refusal
from convir.analysis.reshapes import groups_of
from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.analysis.values.zeros import splat_of
from convir.dialects.conv.ops import ConvOp
from convir.dialects.diagnostics import verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.dialects.builtin import IntegerType, ModuleOp
    from xdsl.ir import Attribute

    from convir.analysis.structured import Structured

Dim: TypeAlias = tuple[SSAValue | Operation, int]
"""A dimension of a tensor, or a loop of a structured op."""


def with_batch(
    module: ModuleOp, function: str, size: int, *, independent: bool = False
) -> ModuleOp | Refusal:
    """A copy of `module` in which the batch of `function` is `size`; why not, if it cannot be.

    The batch is whatever is tied to the leading dimension of the function's first argument.

    Args:
        module: what is copied.
        function: the name of the function.
        size: the samples of the copy.
        independent: whether the copy must compute each sample as `module` does, from it alone.
    """
    copy = module.clone()
    func = next(
        (op for op in copy.walk() if isinstance(op, FuncOp) and op.sym_name.data == function), None
    )
    if func is None or not func.body.blocks:
        return Refusal(f"there is no function '{function}' with a body")
    arguments = func.body.block.args
    if not arguments or not _shape(arguments[0]):
        return Refusal("the first argument is not a tensor with a leading dimension")
    ties = _Ties(independent)
    for op in func.body.block.ops:
        _tie(op, ties)
    batch = ties.tied_to((arguments[0], 0))
    if isinstance(batch, Refusal):
        return batch
    _resize(func, batch, size)
    verify(copy)
    return copy


class _Ties:
    """Dimensions that have one size, as a union-find, and why some must keep theirs."""

    def __init__(self, independent: bool) -> None:
        self.independent = independent
        """Whether no value may be reduced over the batch."""
        self._parents: dict[Dim, Dim] = {}
        self._fixed: dict[Dim, str] = {}

    def _root(self, dim: Dim) -> Dim:
        parent = self._parents.setdefault(dim, dim)
        while parent != self._parents[parent]:
            parent = self._parents[parent]
        self._parents[dim] = parent
        return parent

    def tie(self, one: Dim, other: Dim) -> None:
        """The two dimensions have one size."""
        self._parents[self._root(one)] = self._root(other)

    def fix(self, dim: Dim, op: Operation) -> None:
        """`op` does not allow `dim` to be resized."""
        self._root(dim)
        self._fixed[dim] = f"{op.name} does not let the batch be resized"

    def reduce(self, dim: Dim, op: Operation) -> None:
        """`op` reduces over `dim`, which fixes it where samples are to be independent."""
        if self.independent:
            self._root(dim)
            self._fixed[dim] = f"a result is summed over the batch, by {op.name}"

    def fix_all(self, values: Iterable[SSAValue], op: Operation) -> None:
        """`op` does not allow any dimension of `values` to be resized."""
        for value in values:
            for dim in range(len(_shape(value))):
                self.fix((value, dim), op)

    def tied_to(self, dim: Dim) -> frozenset[Dim] | Refusal:
        """Everything of the size of `dim`, or which op fixes some of it."""
        root = self._root(dim)
        members = frozenset(other for other in tuple(self._parents) if self._root(other) == root)
        reason = next((self._fixed[other] for other in members if other in self._fixed), None)
        if reason is not None:
            return Refusal(reason)
        return members


def _shape(value: SSAValue) -> tuple[int, ...]:
    value_type = value.type
    if not isinstance(value_type, TensorType):
        return ()
    return cast("TensorType[Attribute]", value_type).get_shape()


def _tie(op: Operation, ties: _Ties) -> None:
    view = structured(op)
    if view is not None:
        _tie_structured(view, ties)
        return
    match op:
        case tensor.EmptyOp() | ReturnOp():
            return
        case tensor.InsertSliceOp() | tensor.ExtractSliceOp() | tensor.PadOp():
            _tie_slice(op, ties)
        case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
            _tie_reshape(op, ties)
        case ConvOp():
            _tie_convolution(op, ties)
        case tensor.CastOp():
            _tie_elementwise(op, ties)
        case _ if op.name == "arith.constant":
            if not _is_splat_or_scalar(op):
                ties.fix_all(op.results, op)
        case _ if op.name.startswith(("arith.", "math.")):
            _tie_elementwise(op, ties)
        case _:
            inner = (operand for child in op.walk() for operand in child.operands)
            ties.fix_all((*inner, *op.results), op)


def _is_splat_or_scalar(constant: Operation) -> bool:
    value = constant.properties.get("value")
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return not _shape(constant.results[0])
    return splat_of(cast("DenseIntOrFPElementsAttr", value)) is not None


def _tie_elementwise(op: Operation, ties: _Ties) -> None:
    for value in op.operands:
        for dim in range(len(_shape(value))):
            ties.tie((value, dim), (op.results[0], dim))


def _tie_structured(view: Structured, ties: _Ties) -> None:
    op = view.op
    for loop, kind in enumerate(view.iterators):
        if kind != "parallel":
            ties.reduce((op, loop), op)
    for operand, indexing_map in zip(view.operands, view.maps, strict=True):
        indices = linear_map(indexing_map)
        if indices is None:
            ties.fix_all((operand,), op)
            continue
        for dim, index in enumerate(indices):
            if index.bare is not None:
                ties.tie((operand, dim), (op, index.bare))
                continue
            ties.fix((operand, dim), op)
            for loop in index.loops:
                ties.fix((op, loop), op)
    for init, result in zip(view.inits, op.results, strict=True):
        for dim in range(len(_shape(init))):
            ties.tie((init, dim), (result, dim))
    for inner in view.body.walk():
        if inner.name == "linalg.index":
            _tie_index(inner, op, ties)
        elif inner.name == "tensor.extract":
            _fix_computed_indices(inner, ties)


def _tie_index(index: Operation, nest: Operation, ties: _Ties) -> None:
    """A loop's index that is only used to read a tensor ties the loop to its dimension."""
    attribute = index.properties["dim"]
    loop = attribute.value.data if isinstance(attribute, IntegerAttr) else 0
    for use in index.results[0].uses:
        if use.operation.name == "tensor.extract":
            ties.tie((nest, loop), (use.operation.operands[0], use.index - 1))
        else:
            ties.fix((nest, loop), nest)


def _fix_computed_indices(extract: Operation, ties: _Ties) -> None:
    source, *indices = extract.operands
    for dim, index in enumerate(indices):
        owner = index.owner
        if not isinstance(owner, Operation) or owner.name != "linalg.index":
            ties.fix((source, dim), extract)


def _tie_slice(op: Operation, ties: _Ties) -> None:
    view = slice_view(op)
    if view is None:
        ties.fix_all((*op.operands, *op.results), op)
        return
    for dim in range(view.rank):
        small = view.small_dim(dim)
        if view.dest is not None:
            ties.tie((view.dest, dim), (view.result, dim))
        if small is not None and view.covers(dim):
            ties.tie((view.large, dim), (view.small, small))
            continue
        ties.fix((view.large, dim), op)
        if small is not None:
            ties.fix((view.small, small), op)


def _tie_reshape(op: tensor.CollapseShapeOp | tensor.ExpandShapeOp, ties: _Ties) -> None:
    grouped, one = op.src, op.result
    if isinstance(op, tensor.ExpandShapeOp):
        grouped, one = op.result, op.src
    groups = groups_of(op)
    if not groups:  # A single element: sizes of 1, and they stay so.
        for dim in range(len(_shape(grouped))):
            ties.fix((grouped, dim), op)
    for position, dims in enumerate(groups):
        if len(dims) == 1:
            ties.tie((grouped, dims[0]), (one, position))
            continue
        ties.fix((one, position), op)
        for dim in dims:
            ties.fix((grouped, dim), op)


def _tie_convolution(op: ConvOp, ties: _Ties) -> None:
    values = dict(zip(op.DIRECTION.roles, (op.lhs, op.rhs, op.init), strict=True))
    image, _, output = op.geometry.layouts
    batches = (values["input"], image.outer_axis), (values["output"], output.outer_axis)
    ties.tie(*batches)
    if values["filter"] is op.init:
        ties.reduce(batches[0], op)
    for dim in range(len(_shape(op.init))):
        ties.tie((op.init, dim), (op.result, dim))
    for value in values.values():
        for dim in range(len(_shape(value))):
            if (value, dim) not in batches:
                ties.fix((value, dim), op)


def _resize(func: FuncOp, batch: frozenset[Dim], size: int) -> None:
    dims: dict[SSAValue, list[int]] = {}
    for owner, dim in batch:
        if isinstance(owner, SSAValue):
            dims.setdefault(owner, []).append(dim)
    for value, resized in dims.items():
        if isinstance(value.owner, Operation):
            _resize_attributes(value.owner, resized, size)
    for value, resized in dims.items():
        old = cast("TensorType[Attribute]", value.type)
        sizes = [size if dim in resized else n for dim, n in enumerate(old.get_shape())]
        new = TensorType(old.element_type, sizes, old.encoding)
        if isinstance(value.owner, Operation) and value.owner.name == "arith.constant":
            value.owner.properties["value"] = _resized_splat(value.owner, new)
        Rewriter.replace_value_with_new_type(value, new)
    func.update_function_type()


def _resize_attributes(op: Operation, resized: list[int], size: int) -> None:
    """Change the sizes that `op` spells out for the dimensions `resized` of its result."""
    match op:
        case tensor.ExpandShapeOp():
            op.static_output_shape = _with_sizes(op.static_output_shape, resized, size)
        case tensor.InsertSliceOp():
            op.static_sizes = _with_sizes(op.static_sizes, resized, size)
        case tensor.ExtractSliceOp():
            view = slice_view(op)
            dims = range(0) if view is None else range(view.rank)
            large = [d for d in dims if view is not None and view.small_dim(d) in resized]
            op.static_sizes = _with_sizes(op.static_sizes, large, size)
        case _:
            return


def _with_sizes(sizes: DenseArrayBase[I64], dims: list[int], size: int) -> DenseArrayBase[I64]:
    values = [size if dim in dims else n for dim, n in enumerate(sizes.get_values())]
    return DenseArrayBase.from_list(i64, values)


def _resized_splat(op: Operation, new: TensorType[Attribute]) -> Attribute:
    """The splat of a constant op, as a splat of another shape."""
    dense = cast("DenseIntOrFPElementsAttr[IntegerType]", op.properties["value"])
    width = dense.get_element_type().compile_time_size
    return DenseIntOrFPElementsAttr(
        cast("TensorType[IntegerType]", new), BytesAttr(dense.data.data[:width])
    )
