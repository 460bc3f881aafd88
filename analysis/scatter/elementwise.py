"""Elementwise ops that may run on part of a tensor instead of all of it.

A scatter commutes with an elementwise op `f` whose value at a hole is one constant: scattering
into `hole` and applying `f` is applying `f` and scattering into `f(hole)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir.affine import AffineDimExpr

from convir.analysis.refusal import Refusal
from convir.analysis.slices import is_encoded
from convir.analysis.structured import structured
from convir.analysis.values.zeros import value_where

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue
    from xdsl.ir.affine import AffineMap

    from convir.analysis.scatter.placement import Digits
    from convir.analysis.structured import Structured
    from convir.analysis.values.scalars import Constant


@dataclass(frozen=True)
class Elementwise:
    """An elementwise op, and the part of one operand that it is to run on."""

    view: Structured
    operand: int
    """The number of the operand, among inputs then inits, that is given in part."""
    loops: tuple[Digits, ...]
    """What is left of each loop."""
    hole: Constant
    """What the op computes from the holes."""

    @property
    def result(self) -> tuple[Digits, ...]:
        """What is left of each dimension of the result."""
        return self.dims_of(len(self.view.inputs))

    def dims_of(self, operand: int) -> tuple[Digits, ...]:
        """What is left of each dimension of an operand."""
        return tuple(self.loops[loop] for loop in _permutation(self.view.maps[operand]))


def elementwise(
    op: Operation, value: SSAValue, dims: tuple[Digits, ...], hole: Constant
) -> Elementwise | Refusal:
    """How `op` runs on the part of its operand `value` that `dims` leaves.

    `hole` is what `value` holds elsewhere. Refuses unless the op maps elements one to one, in any
    order of dimensions, and its value at a hole is one exact constant.
    """
    view = structured(op)
    if view is None or len(view.inits) != 1 or len(op.results) != 1:
        return Refusal(f"{op.name} is not elementwise")
    if any(iterator != "parallel" for iterator in view.iterators):
        return Refusal(f"{op.name} is not elementwise")
    if any(is_encoded(operand) for operand in view.operands):
        return Refusal(f"{op.name} works on a tensor with an encoding")
    if any(isinstance(inner, IndexOp) for inner in view.body.ops):
        return Refusal(f"{op.name} depends on the position")
    positions = [number for number, operand in enumerate(view.operands) if operand is value]
    if len(positions) != 1:
        return Refusal(f"{op.name} reads it {len(positions)} times")
    (position,) = positions
    for indexing_map in (view.maps[position], view.init_maps[0]):
        if len(_permutation(indexing_map)) != len(view.iterators):
            return Refusal(f"{op.name} does not map elements one to one")
    for number, operand in enumerate(view.operands):
        indexing_map = view.maps[number]
        if isinstance(operand.type, TensorType) and not indexing_map.is_projected_permutation():
            return Refusal(f"{op.name} does not map elements one to one")
    after = value_where(view, {position: hole})
    if after is None:
        return Refusal(f"{op.name} does not compute one exact constant from the holes")
    order = _permutation(view.maps[position])
    loops = tuple(dims[order.index(loop)] for loop in range(len(order)))
    return Elementwise(view, position, loops, after)


def _permutation(indexing_map: AffineMap) -> tuple[int, ...]:
    """The loop of each dimension, leaving out dimensions that are no bare loop."""
    loops = [expr.position for expr in indexing_map.results if isinstance(expr, AffineDimExpr)]
    return tuple(dict.fromkeys(loops))
