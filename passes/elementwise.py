"""Running an elementwise op on part of a tensor instead of all of it.

A scatter commutes with an elementwise op `f` whose value at a hole is one constant: scattering
into `hole` and applying `f` is applying `f` and scattering into `f(hole)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir.affine import AffineDimExpr

from convir.dialects.placement import covers
from convir.dialects.refusal import Refusal
from convir.dialects.structured import structured
from convir.dialects.zeros import constant_fill_of, value_where
from convir.passes.structured_rebuild import rebuilt
from convir.passes.tensor_builder import element_counts, element_type_of, tensor_type

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue
    from xdsl.ir.affine import AffineMap

    from convir.dialects.placement import Digits
    from convir.dialects.scalars import Constant
    from convir.dialects.structured import Structured
from convir.passes.tensor_builder import TensorBuilder


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

    def build(self, builder: TensorBuilder, part: SSAValue) -> SSAValue:
        """The op on `part`, the other operands cut down to fit."""
        operands = [
            part if position == self.operand else self._cut(builder, position)
            for position in range(len(self.view.operands))
        ]
        sizes = element_counts(self.result)
        result_type = tensor_type(element_type_of(operands[-1]), sizes)
        return builder.insert(rebuilt(self.view, operands, result_type))

    def _cut(self, builder: TensorBuilder, position: int) -> SSAValue:
        operand = self.view.operands[position]
        if not isinstance(operand.type, TensorType):
            return operand
        dims = self.dims_of(position)
        if all(covers(digits) for digits in dims):
            return operand
        if self.view.body.args[position].first_use is None:
            return builder.uninitialised(element_type_of(operand), element_counts(dims))
        fill = constant_fill_of(operand)
        if fill is None:
            raise ValueError(f"{operand} is not uniform")
        return builder.filled(fill, element_counts(dims))


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
