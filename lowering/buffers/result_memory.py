"""The arguments of a kernel in whose memory its results are, or may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.ir import BlockArgument, Operation

from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.lowering.loops.pointwise import is_pointwise
from convir.lowering.regions.placements import ALIGNMENT, is_contiguous, nbytes_of, offset_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute

    from convir.dialects.kernel import ops as kernel


SLICE_AND_RETURN = 2
"""Ops of a kernel that slices and does no more."""

_HARMLESS = frozenset({"arith.constant", "tensor.empty", "kernel.return"})
"""Ops of a body that read no element of an argument."""


def in_place_arguments(callee: kernel.FuncOp, result: int) -> list[int]:
    """The arguments whose memory the result may take: each element is read before it is written.

    That holds where the body is elementwise throughout and every map is the identity.
    """
    if len(callee.function_type.outputs) != 1:
        return []
    for op in callee.body.block.ops:
        view = structured(op)
        if view is None:
            if op.name not in _HARMLESS and not is_pointwise(op):
                return []
            continue
        if any(kind != "parallel" for kind in view.iterators):
            return []
        rank = len(view.iterators)
        identity = tuple(range(rank))
        for indexing_map in view.maps:
            used = tuple(getattr(e, "position", None) for e in indexing_map.results)
            if used not in (identity, ()):
                return []
        if any(inner.name == "tensor.extract" for inner in view.body.ops):
            return []
    wanted = callee.function_type.outputs.data[result]
    return [i for i, t in enumerate(callee.function_type.inputs) if t == wanted]


def updated_argument(callee: kernel.FuncOp, result: int) -> int | None:
    """The argument that a result is, but for a slice: a kernel in its memory writes only that."""
    returned = callee.body.block.last_op
    assert returned is not None
    owner = returned.operands[result].owner
    view = slice_view(owner) if isinstance(owner, Operation) else None
    if view is None or not isinstance(view.dest, BlockArgument):
        return None
    # What the kernel reads of it may have been written over.
    return view.dest.index if view.dest.has_one_use() else None


class Part(NamedTuple):
    """A piece of the memory of an argument."""

    argument: int
    offset: int
    """Bytes before it."""


def sliced_argument(callee: kernel.FuncOp) -> Part | None:
    """The piece of an argument's memory that a kernel alone copies; None if it does more.

    The piece begins where kernels read vectors.
    """
    ops = list(callee.body.block.ops)
    view = slice_view(ops[0]) if len(ops) == SLICE_AND_RETURN else None
    if view is None or view.kind != "extract_slice" or view.strided:
        return None
    if not isinstance(view.source, BlockArgument) or None in (*view.offsets, *view.sizes):
        return None
    shape = cast("TensorType[Attribute]", view.source.type).get_shape()
    if not is_contiguous(cast("tuple[int, ...]", view.sizes), shape):
        return None
    offset = offset_of(view.source, cast("tuple[int, ...]", view.offsets))
    is_whole = nbytes_of(view.result) > 0 and offset % ALIGNMENT == 0
    return Part(view.source.index, offset) if is_whole else None
