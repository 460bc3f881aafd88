"""Building `linalg.generic` ops with one result."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute, SSAValue
    from xdsl.ir.affine import AffineExpr

_PARALLEL = IteratorTypeAttr(IteratorType.PARALLEL)
_REDUCTION = IteratorTypeAttr(IteratorType.REDUCTION)


def generic(
    operands: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
    body: Block,
    num_parallel: int,
    num_reduction: int = 0,
) -> GenericOp:
    """A generic over parallel loops, then reduced ones.

    Args:
        operands: each input, and last the init, with the index of each of its dimensions.
        body: what is computed of their elements.
        num_parallel: how many loops are parallel.
        num_reduction: how many loops after those are reduced.
    """
    loops = num_parallel + num_reduction
    values = [value for value, _ in operands]
    return GenericOp(
        values[:-1],
        values[-1:],
        Region(body),
        [AffineMapAttr(AffineMap(loops, 0, tuple(exprs))) for _, exprs in operands],
        [_PARALLEL] * num_parallel + [_REDUCTION] * num_reduction,
        [values[-1].type],
    )


def rearranging(
    source: SSAValue,
    index: Sequence[AffineExpr],
    init: SSAValue,
    out: Sequence[AffineExpr],
) -> GenericOp:
    """A generic that puts the element of `source` at `index` to `out` in `init`, for all loops."""
    element = cast("TensorType[Attribute]", source.type).element_type
    body = Block(arg_types=[element, element])
    body.add_op(YieldOp(body.args[0]))
    return generic([(source, index), (init, out)], body, len(out))
