"""`tensor.extract`, `tensor.from_elements` and `tensor.splat`.

rewrite:
  extract of a splat, a fill                         -->  its element
  extract of a constant at constant indices          -->  constant
  extract of (from_elements …) at constant indices   -->  the operand
  extract of (insert %x into %a) at the same indices -->  %x
  from_elements of constants                         -->  constant
  splat of a constant, static                        -->  constant
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerType,
    TensorType,
)
from xdsl.ir import OpResult
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.slices import index_of
from convir.analysis.values.scalars import constant_of
from convir.passes.canonicalize.patterns.uniform import (
    bytes_of,
    constant,
    dense_constant,
    element_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.pattern_rewriter import PatternRewriter


class ExtractUniform(RewritePattern):
    """Any element of equal elements is that element."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract`."""
        assert isinstance(op, tensor.ExtractOp)
        element = element_of(op.tensor)
        if isinstance(element, bytes):
            scalar = _scalar(element, op.result.type)
            if scalar is not None:
                rewriter.replace(op, scalar)
        elif element is not None:
            rewriter.replace(op, (), (element,))


class ExtractKnown(RewritePattern):
    """An element at constant indices of something spelled out element by element."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract`."""
        assert isinstance(op, tensor.ExtractOp)
        if not isinstance(op.tensor, OpResult):
            return
        origin = op.tensor.op
        if isinstance(origin, tensor.InsertOp) and tuple(origin.indices) == tuple(op.indices):
            rewriter.replace(op, (), (origin.scalar,))
            return
        position = _position(op)
        if position is None:
            return
        if isinstance(origin, tensor.FromElementsOp):
            rewriter.replace(op, (), (origin.elements[position],))
            return
        dense = dense_constant(op.tensor)
        if dense is None:
            return
        width = dense.type.element_type.compile_time_size
        data = dense.data.data[position * width : (position + 1) * width]
        scalar = _scalar(data, op.result.type) if len(data) == width else None
        if scalar is not None:
            rewriter.replace(op, scalar)


class FoldFromElements(RewritePattern):
    """A tensor of constants is a constant."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.from_elements`."""
        assert isinstance(op, tensor.FromElementsOp)
        elements = [_constant_bytes(element) for element in op.elements]
        known = [element for element in elements if element is not None]
        if not known or len(known) < len(elements):
            return
        stored = known[:1] if len(set(known)) == 1 else known
        rewriter.replace(op, constant(b"".join(stored), op.result.type))


class FoldSplat(RewritePattern):
    """A static splat of a constant is a constant."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.splat`."""
        assert isinstance(op, tensor.SplatOp)
        if op.dynamicSizes:
            return
        element = _constant_bytes(op.input)
        if element is not None:
            rewriter.replace(op, constant(element, op.result.type))


def _position(op: tensor.ExtractOp) -> int | None:
    """The row-major position that `op` reads, if it and the shape are constant and it exists."""
    source_type = op.tensor.type
    if not isinstance(source_type, TensorType) or not source_type.has_static_shape():
        return None
    indices = [index_of(index) for index in op.indices]
    return _row_major(indices, source_type.get_shape())


def _row_major(indices: Sequence[object], shape: Sequence[int]) -> int | None:
    position = 0
    for index, size in zip(indices, shape, strict=True):
        if not isinstance(index, int) or not 0 <= index < size:
            return None
        position = position * size + index
    return position


def _constant_bytes(scalar: SSAValue) -> bytes | None:
    if not isinstance(scalar, OpResult) or not isinstance(scalar.op, arith.ConstantOp):
        return None
    return bytes_of(scalar.op.value)


def _scalar(data: bytes, scalar_type: Attribute) -> arith.ConstantOp | None:
    """The scalar constant that `data` stores; None for NaN, whose bits an attribute may lose."""
    if not isinstance(scalar_type, IntegerType | IndexType | AnyFloat):
        return None
    number = cast("float | int", next(iter(scalar_type.iter_unpack(data))))
    scalar = constant_of(number, cast("Attribute", scalar_type))
    return None if scalar is None else arith.ConstantOp(scalar)


PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "tensor.extract": (ExtractUniform(), ExtractKnown()),
    "tensor.from_elements": (FoldFromElements(),),
    "tensor.splat": (FoldSplat(),),
}
"""Operation name to the patterns that rewrite it."""
