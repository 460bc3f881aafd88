"""A scatter that a `linalg.generic` spells out by index arithmetic, read back.

`convert-strided-insert-slice-to-generic` writes this form and other compilers write their own;
whoever looks for a scatter reads it here as the `tensor.insert_slice` that it stands for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import OpResult
from xdsl.ir.affine import AffineMap

from convir.analysis.refusal import Refusal
from convir.analysis.scatter.index_arithmetic import loops_in, values_along
from convir.analysis.slices import SliceView
from convir.analysis.structured import structured
from convir.analysis.values.scalars import scalar_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.analysis.structured import Structured

_MAX_CONJUNCTS: Final = 256
"""Conditions of more parts than this are not tests that anybody wrote."""


class _Digit(NamedTuple):
    """Where the source elements of one dimension land."""

    offset: int
    size: int
    stride: int


def scatter_generic(op: Operation | None) -> SliceView | Refusal:
    """The scatter that `op` computes by index arithmetic, in any spelling.

    Its body selects, on a condition that is a conjunction of one test per loop, between an element
    of the source and a scalar, or the element of its init. In the view, `dest` is that init and
    `fill` that scalar; one of them is None. Static shapes only: each loop's arithmetic is evaluated
    at all trips of the loop.
    """
    view = structured(op)
    if op is None or view is None or not isinstance(op, GenericOp):
        return Refusal("it is not a linalg.generic")
    if (refusal := _not_a_map_over_result(view)) is not None:
        return refusal
    select = _yielded(view)
    if not isinstance(select, arith.SelectOp):
        return Refusal("its body selects nothing")
    extract = select.lhs.owner
    if not isinstance(extract, tensor.ExtractOp):
        return Refusal("its body does not select an element of another tensor")
    if _varies(extract.tensor, view):
        return Refusal("the tensor it reads depends on the position")
    shows_init = select.rhs is view.body.args[0]
    if not shows_init and _varies(select.rhs, view) and scalar_constant(select.rhs) is None:
        return Refusal("what its holes hold depends on the position")
    return _read(view, select, extract, shows_init)


def _read(
    view: Structured, select: arith.SelectOp, extract: tensor.ExtractOp, shows_init: bool
) -> SliceView | Refusal:
    source_type = extract.tensor.type
    assert isinstance(source_type, TensorType)
    shape = source_type.get_shape()
    tests = _tests_by_loop(select.cond)
    if isinstance(tests, Refusal):
        return tests
    source_dims = _source_dims_by_loop(extract, shape)
    if isinstance(source_dims, Refusal):
        return source_dims
    digits: list[_Digit] = []
    for loop, extent in enumerate(view.bounds):
        assert extent is not None
        source_dim = source_dims.get(loop)
        index = None if source_dim is None else extract.indices[source_dim]
        digit = _digit(extent, tests.get(loop, ()), index)
        if isinstance(digit, Refusal):
            return Refusal(f"{digit.reason} (dimension {loop})")
        if source_dim is not None and digit.size != shape[source_dim]:
            return Refusal(f"it leaves out elements of the source's dimension {source_dim}")
        digits.append(digit)
    return SliceView(
        op=view.op,
        kind="generic",
        source=extract.tensor,
        dest=view.inits[0] if shows_init else None,
        fill=None if shows_init else select.rhs,
        mixed_offsets=tuple(digit.offset for digit in digits),
        mixed_sizes=tuple(digit.size for digit in digits),
        mixed_strides=tuple(digit.stride for digit in digits),
        dropped=frozenset(range(len(digits))) - source_dims.keys(),
    )


def _not_a_map_over_result(view: Structured) -> Refusal | None:
    if view.inputs or len(view.inits) != 1:
        return Refusal("it has inputs, or not one init")
    if any(iterator != "parallel" for iterator in view.iterators):
        return Refusal("it reduces")
    if view.init_maps[0] != AffineMap.identity(len(view.iterators)):
        return Refusal("it permutes its result")
    if any(bound is None for bound in view.bounds):
        return Refusal("its shape is dynamic")
    return None


def _yielded(view: Structured) -> Operation | None:
    terminator = view.body.last_op
    if terminator is None or len(terminator.operands) != 1:
        return None
    value = terminator.operands[0]
    return value.op if isinstance(value, OpResult) else None


def _varies(value: SSAValue, view: Structured) -> bool:
    """True if the value is computed in the body, and may differ from one position to the next."""
    owner = value.owner
    return owner is view.body or (isinstance(value, OpResult) and value.op.parent is view.body)


def _tests_by_loop(condition: SSAValue) -> dict[int, tuple[SSAValue, ...]] | Refusal:
    """The conjuncts of the condition, by the one loop that each reads."""
    tests: dict[int, tuple[SSAValue, ...]] = {}
    stack = [condition]
    for _ in range(_MAX_CONJUNCTS):
        if not stack:
            return tests
        test = stack.pop()
        loops = loops_in(test)
        if loops is not None and len(loops) == 1:
            (loop,) = loops
            tests[loop] = (*tests.get(loop, ()), test)
        elif isinstance(test, OpResult) and isinstance(test.op, arith.AndIOp):
            stack.extend(test.op.operands)
        else:
            break
    return Refusal("its condition is not a conjunction of one test per dimension")


def _source_dims_by_loop(
    extract: tensor.ExtractOp, shape: Sequence[int]
) -> dict[int, int] | Refusal:
    """Which of the source's dimensions each loop walks along; in the order of the loops.

    A source dimension of one element that is read at 0 takes the next loop that walks along
    nothing.
    """
    walks: list[int | None] = []
    for source_dim, index in enumerate(extract.indices):
        loops = loops_in(index)
        if loops is None or len(loops) > 1:
            return Refusal(f"index {source_dim} of the element it reads is not one loop's")
        if not loops and shape[source_dim] != 1:
            return Refusal(f"index {source_dim} of the element it reads is one constant")
        walks.append(next(iter(loops), None))
    walked = [loop for loop in walks if loop is not None]
    if sorted(set(walked)) != walked:
        return Refusal("it permutes the dimensions of its source")
    source_dims: dict[int, int] = {}
    loop = 0
    for source_dim, walk in enumerate(walks):
        while walk is None and loop in walked:
            loop += 1
        source_dims[loop if walk is None else walk] = source_dim
        loop = (loop if walk is None else walk) + 1
    return source_dims


def _digit(extent: int, tests: tuple[SSAValue, ...], index: SSAValue | None) -> _Digit | Refusal:
    """Offset, size and stride of one loop, from where its tests hold and what its index is."""
    reached = np.ones(extent, dtype=np.bool_)
    for test in tests:
        truth = values_along(test, extent)
        if truth is None:
            return Refusal("its tests cannot be evaluated")
        reached &= truth.astype(np.bool_)
    positions = np.flatnonzero(reached)
    size = len(positions)
    if size == 0:
        return Refusal("no position is reached")
    steps = np.diff(positions)
    if size > 1 and (steps != steps[0]).any():
        return Refusal("the positions reached are not evenly spaced")
    if index is None and size != 1:
        return Refusal("several positions read one element")
    indices = np.zeros(extent, dtype=np.int64) if index is None else values_along(index, extent)
    if indices is None:
        return Refusal("its index cannot be evaluated")
    if (indices[positions] != np.arange(size)).any():
        return Refusal("the source is not read in order")
    return _Digit(int(positions[0]), size, int(steps[0]) if size > 1 else 1)
