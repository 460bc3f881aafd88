"""Results that are put together of parts: each part is computed where it belongs.

    %1 = tensor.insert_slice %a into %empty[0, 0] [4, 16] [1, 1]
    %2 = tensor.insert_slice %b into %1[4, 0] [4, 16] [1, 1]

Where such insertions fill all of a tensor with pieces of its memory, as chunks of a batch do, no
kernel copies: the kernels that compute the pieces write into views of one buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType, TensorType
from xdsl.ir import Operation

from convir.analysis.slices import slice_view
from convir.dialects.conv.constant import ConstantOp
from convir.lowering.regions.op_groups import ALIASES, FREE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Block, SSAValue

ALIGNMENT = 64
"""Bytes that a piece's place is a multiple of: kernels read and write vectors there."""


@dataclass(frozen=True)
class Piece:
    """One insertion of a result."""

    op: Operation
    source: SSAValue
    """What a kernel computes; a reshape of it is what is inserted."""
    offset: int
    """Bytes before it in the result."""
    nbytes: int


@dataclass(frozen=True)
class PlacedResult:
    """A tensor whose pieces kernels write where they belong."""

    value: SSAValue
    """What the last insertion gives."""
    pieces: tuple[Piece, ...]
    """In the order of their insertions."""


def placed_results(block: Block) -> list[PlacedResult]:
    """The results of a block that are put together of pieces."""
    found: list[PlacedResult] = []
    for op in block.ops:
        if op.name != "tensor.insert_slice" or _goes_on(op):
            continue
        pieces = _pieces(op)
        if pieces is not None:
            found.append(PlacedResult(op.results[0], tuple(pieces)))
    return found


def placing_ops(block: Block) -> frozenset[Operation]:
    """The insertions that no kernel computes."""
    return frozenset(piece.op for result in placed_results(block) for piece in result.pieces)


def _goes_on(op: Operation) -> bool:
    """Whether another insertion adds to the result of `op`."""
    return any(
        use.operation.name == "tensor.insert_slice" and use.index == 1 for use in op.results[0].uses
    )


def _pieces(last: Operation) -> list[Piece] | None:
    """The pieces that fill a tensor; None if they do not, or a kernel has to put them there."""
    pieces: list[Piece] = []
    op: Operation = last
    while True:
        piece = _piece(op)
        if piece is None:
            return None
        pieces.append(piece)
        below = op.operands[1].owner
        if not isinstance(below, Operation) or below.name != "tensor.insert_slice":
            break  # All of what lies below is written over.
        if not below.results[0].has_one_use():
            return None
        op = below
    end = 0
    for piece in sorted(pieces, key=lambda piece: piece.offset):
        if piece.offset != end:
            return None
        end += piece.nbytes
    whole = nbytes_of(last.results[0])
    return pieces[::-1] if len(pieces) > 1 and end == whole else None


def _piece(op: Operation) -> Piece | None:
    view = slice_view(op)
    if view is None or view.dropped or None in (*view.offsets, *view.strides):
        return None
    source = op.operands[0]
    computed = _computed_for(source)
    if computed is None or any(stride != 1 for stride in view.strides):
        return None
    shape, small = (_shape(value) for value in (op.results[0], source))
    if DYNAMIC_INDEX in (*shape, *small) or not is_contiguous(small, shape):
        return None
    size = nbytes_of(source)
    offset = offset_of(op.results[0], cast("tuple[int, ...]", view.offsets))
    return Piece(op, computed, offset, size) if size and offset % ALIGNMENT == 0 else None


def _computed_for(source: SSAValue) -> SSAValue | None:
    """What a kernel computes for this one insertion, of which `source` is a reshape, or all of it;
    None if there is no such kernel."""
    while source.has_one_use():
        owner = source.owner
        if not isinstance(owner, Operation) or isinstance(owner, ConstantOp):
            return None
        if owner.name not in ALIASES:
            is_none = owner.name in FREE or owner.name == "tensor.insert_slice"
            return None if is_none else source
        source = owner.operands[0]
    return None


def is_contiguous(small: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a slice of these sizes is one piece of memory: whole behind its first long side."""
    leading = next((dim for dim, size in enumerate(small) if size != 1), len(small))
    return len(small) == len(shape) and small[leading + 1 :] == shape[leading + 1 :]


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Attribute]", value.type).get_shape()


def nbytes_of(value: SSAValue) -> int:
    """The bytes of a static tensor."""
    return prod(_shape(value)) * _element_bytes(value)


def offset_of(value: SSAValue, offsets: Sequence[int]) -> int:
    """The bytes of a static tensor before its element at `offsets`."""
    shape = _shape(value)
    steps = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    return _element_bytes(value) * sum(o * step for o, step in zip(offsets, steps, strict=True))


def _element_bytes(value: SSAValue) -> int:
    element: object = cast("TensorType[Attribute]", value.type).element_type
    return -(-element.bitwidth // 8) if isinstance(element, FixedBitwidthType) else 8
