"""Casts that forget sizes, folded into what reads them, and sizes that are constants after all.

rewrite:
  linalg op, slice, insertion, pad of (cast %a), where the cast forgets sizes   -->  of %a
  slice, insertion or expand_shape with a constant among its sizes   -->  with a static size

Where the result knows more sizes than before it is cast to the type that it had. The new op is
verified first: where sizes contradict each other, nothing is rewritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, TensorType, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import OpResult
from xdsl.pattern_rewriter import RewritePattern
from xdsl.utils.exceptions import VerifyException

from convir.analysis.slices import index_of, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.irdl import IRDLOperation
    from xdsl.pattern_rewriter import PatternRewriter

_SIZES = {
    tensor.ExtractSliceOp: ("static_sizes", "sizes"),
    tensor.InsertSliceOp: ("static_sizes", "sizes"),
    tensor.ExpandShapeOp: ("static_output_shape", "dynamic_output_shape"),
}
"""Where an op says its sizes: a static list, and the operands that fill its gaps."""


class FoldOperandCasts(RewritePattern):
    """What reads a tensor whose sizes a cast forgot reads the tensor that was cast."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match any op on tensors whose verifier says which types fit together."""
        known = [_known(operand) for operand in op.operands]
        if not op.results or all(new is old for new, old in zip(known, op.operands, strict=True)):
            return
        new = op.clone()
        new.operands = known
        kept = _retyped(new, _result_types(op, known))
        if kept is not None:
            _replace(op, kept, rewriter)


class StaticSizes(RewritePattern):
    """A size that is given by a constant is static."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match slices, insertions and `tensor.expand_shape` that drop no dimension."""
        if not isinstance(op, tensor.ExtractSliceOp | tensor.InsertSliceOp | tensor.ExpandShapeOp):
            return
        listed, given = _SIZES[type(op)]
        old = numbers(cast("DenseArrayBase[Any]", op.properties[listed]))
        values = list(cast("Sequence[SSAValue]", getattr(op, given)))
        constants = iter([_constant(value) for value in values])
        static = [next(constants) if size == DYNAMIC_INDEX else size for size in old]
        small = op.source if isinstance(op, tensor.InsertSliceOp) else op.results[0]
        small_type = cast("TensorType[Attribute]", small.type)
        if static == list(old) or len(small_type.get_shape()) != len(static):
            return
        left = [value for value in values if _constant(value) == DYNAMIC_INDEX]
        refined = TensorType(small_type.element_type, static, small_type.encoding)
        operands: list[Any] = [op.operands[0], left]
        made: list[Operation] = []
        if isinstance(op, tensor.InsertSliceOp):
            made = [tensor.CastOp(op.source, refined)]
            operands = [made[0].results[0], op.dest, op.offsets, left, op.strides]
            refined = op.result.type
        elif isinstance(op, tensor.ExtractSliceOp):
            operands = [op.source, op.offsets, left, op.strides]
        kept = {n: v for n, v in op.properties.items() if n != "operandSegmentSizes"}
        new = cast("type[IRDLOperation]", type(op)).build(
            operands=operands,
            result_types=[refined],
            properties={**kept, listed: DenseArrayBase.from_list(i64, static)},
            attributes=op.attributes,
        )
        new.location = op.location
        if _verifies(new) and all(map(_verifies, made)):
            _replace(op, new, rewriter, made)
            return
        for one in (new, *made):
            one.erase()


def _known(value: SSAValue) -> SSAValue:
    """What `value` is a cast of, if the cast forgets sizes; else `value`."""
    if not isinstance(value, OpResult) or not isinstance(value.op, tensor.CastOp):
        return value
    source = value.op.source
    types = source.type, value.op.dest.type
    if not all(isinstance(one, TensorType) for one in types):
        return value
    known, forgetful = (cast("TensorType[Attribute]", one).get_shape() for one in types)
    pairs = zip(known, forgetful, strict=True)
    return source if all(size in (DYNAMIC_INDEX, one) for one, size in pairs) else value


def _constant(value: SSAValue) -> int:
    """The size that `value` is known to be, or `DYNAMIC_INDEX`."""
    size = index_of(value)
    return size if isinstance(size, int) and size >= 0 else DYNAMIC_INDEX


def _result_types(op: Operation, operands: Sequence[SSAValue]) -> list[Attribute]:
    """The types of the results on other operands: those of what the op writes to, if it does."""
    if isinstance(op, LinalgStructuredOperation):
        return [value.type for value in operands[len(operands) - len(op.results) :]]
    return [operands[1].type] if isinstance(op, tensor.InsertSliceOp) else list(op.result_types)


def _retyped(op: Operation, types: Sequence[Attribute]) -> Operation | None:
    """The new op with results of these types; None, and the op erased, if it is invalid then."""
    new = op
    if list(op.result_types) != list(types):
        new = type(op).create(
            operands=op.operands,
            result_types=types,
            properties=op.properties,
            attributes=op.attributes,
            regions=[op.detach_region(0) for _ in tuple(op.regions)],
            location=op.location,
        )
        op.erase()
    if _verifies(new):
        return new
    new.erase()
    return None


def _replace(
    op: Operation, new: Operation, rewriter: PatternRewriter, before: Sequence[Operation] = ()
) -> None:
    """Replace `op`, its results cast to the types that they had."""
    ops = [*before, new]
    values: list[SSAValue] = []
    for old, now in zip(op.results, new.results, strict=True):
        now.name_hint = old.name_hint
        if old.type != now.type:
            ops.append(tensor.CastOp(now, cast("TensorType[Attribute]", old.type)))
        values.append(now if old.type == now.type else ops[-1].results[0])
    rewriter.replace(op, ops, values)


def _verifies(op: Operation) -> bool:
    try:
        op.verify()
    except VerifyException:
        return False
    return True
