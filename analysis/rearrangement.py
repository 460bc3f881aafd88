"""Ops whose result holds elements of one tensor, each at another index: a transpose, im2col."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import BlockArgument, OpResult

from convir.analysis.linear import LinearIndex, linear_map
from convir.analysis.structured import structured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Block, Operation, SSAValue

    from convir.analysis.structured import Structured

_MAX_NUMBER: Final = (1 << 63) - 1
"""A coefficient past it is not an index: sums of a value with itself double it each time."""


@dataclass(frozen=True)
class Rearrangement:
    """An op whose result holds elements of `source`, each at another index."""

    source: SSAValue
    index: tuple[LinearIndex, ...]
    """Per dimension of the source: its index as a form over the dimensions of the result."""


def rearrangement(op: Operation) -> Rearrangement | None:
    """`op` as a rearrangement; None if it computes anything, or not every element.

    A generic that yields its input through a linear map, or an element that it extracts at
    indices which are linear in its own: a transpose, a filter flip.
    """
    view = structured(op)
    if view is None or len(view.inits) != 1 or set(view.iterators) - {"parallel"}:
        return None
    out = linear_map(view.init_maps[0])
    if out is None or [form.bare for form in out] != list(range(len(view.iterators))):
        return None
    terminator = view.body.last_op
    if terminator is None or len(terminator.operands) != 1:
        return None
    yielded = terminator.operands[0]
    if isinstance(yielded, BlockArgument):
        return _of_input(view, yielded)
    extract = cast("OpResult", yielded).op
    if not isinstance(extract, tensor.ExtractOp) or extract.parent is not view.body:
        return None
    known = _index_forms(view.body)
    forms = [_form_of(index, known) for index in extract.indices]
    if None in forms:
        return None
    return Rearrangement(extract.tensor, tuple(cast("list[LinearIndex]", forms)))


def _of_input(view: Structured, argument: BlockArgument) -> Rearrangement | None:
    if argument.index >= len(view.inputs):
        return None
    source = view.inputs[argument.index]
    forms = linear_map(view.maps[argument.index])
    if forms is None or not isinstance(source.type, TensorType):
        return None
    return Rearrangement(source, forms)


def _index_forms(body: Block) -> dict[SSAValue, LinearIndex]:
    """The values of `body` computed from `linalg.index` and constants by sums and differences."""
    known: dict[SSAValue, LinearIndex] = {}
    for op in body.ops:
        match op:
            case IndexOp():
                known[op.result] = LinearIndex(((op.dim.value.data, 1),))
            case arith.AddiOp() | arith.SubiOp():
                lhs, rhs = _form_of(op.lhs, known), _form_of(op.rhs, known)
                if lhs is None or rhs is None:
                    continue
                form = lhs.plus(rhs.affine(-1, 0) if isinstance(op, arith.SubiOp) else rhs)
                if all(abs(number) <= _MAX_NUMBER for _, number in form.terms):
                    known[op.result] = form
            case _:
                pass
    return known


def _form_of(value: SSAValue, known: Mapping[SSAValue, LinearIndex]) -> LinearIndex | None:
    """The form of a value that is known, or a constant."""
    if isinstance(value, OpResult) and isinstance(value.op, arith.ConstantOp):
        constant = value.op.value
        return LinearIndex((), constant.value.data) if isinstance(constant, IntegerAttr) else None
    return known.get(value)
