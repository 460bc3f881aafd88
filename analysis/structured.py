"""A read-only view of any linalg structured op: named or generic, stock xDSL's or ours.

Passes decode linalg ops through this view and nothing else, so that they work on the op's
structure and never on its Python class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, TypeVar, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, ShapedType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir.affine import AffineDimExpr

from convir.analysis.linear import linear_map
from convir.analysis.slices import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Block, Operation, SSAValue
    from xdsl.ir.affine import AffineMap

    from convir.analysis.linear import LinearIndex

T = TypeVar("T")


@dataclass(frozen=True)
class Structured:
    """Loops, operands and body of one linalg op on tensors or memrefs.

    `operands` is inputs then inits, one indexing map and one body argument for each.
    """

    op: Operation
    inputs: tuple[SSAValue, ...]
    inits: tuple[SSAValue, ...]
    maps: tuple[AffineMap, ...]
    iterators: tuple[str, ...]
    """`parallel`, `reduction` or `window`, one per loop."""
    body: Block
    _of_loops: dict[object, object] = field(
        default_factory=dict["object", "object"], compare=False, repr=False
    )
    """What was read of the maps and the iterators alone, by what read it."""

    @cached_property
    def bounds(self) -> tuple[int | None, ...]:
        """The trip count of each loop; None where only a dynamic dimension gives it.

        Read off a dimension that the loop indexes alone (`d3`), in whatever operand its size is
        known; None too where there is none.
        """
        bounds: list[int | None] = [None] * len(self.iterators)
        for operand, indexing_map in zip(self.operands, self.maps, strict=True):
            operand_type = operand.type
            if not isinstance(operand_type, ShapedType):
                continue
            sizes = zip(operand_type.get_shape(), indexing_map.results, strict=True)
            for dim, (size, expr) in enumerate(sizes):
                if not isinstance(expr, AffineDimExpr) or bounds[expr.position] is not None:
                    continue
                known = size_of(operand, dim) if size == DYNAMIC_INDEX else size
                bounds[expr.position] = known if isinstance(known, int) else None
        return tuple(bounds)

    @property
    def operands(self) -> tuple[SSAValue, ...]:
        """Inputs, then inits."""
        return (*self.inputs, *self.inits)

    @property
    def input_maps(self) -> tuple[AffineMap, ...]:
        """The indexing maps of the inputs."""
        return self.maps[: len(self.inputs)]

    @property
    def init_maps(self) -> tuple[AffineMap, ...]:
        """The indexing maps of the inits, which are also those of the results."""
        return self.maps[len(self.inputs) :]

    def loops_of(self, kind: str) -> tuple[int, ...]:
        """The loops whose iterator type is `kind`, in order."""
        return tuple(i for i, it in enumerate(self.iterators) if it == kind)

    @property
    def forms(self) -> tuple[tuple[LinearIndex, ...] | None, ...]:
        """Of each operand, the linear forms of its map; None where one of them is not linear."""
        return self.once(_forms)

    def once(self, read: Callable[[Sequence[AffineMap], Sequence[str]], T]) -> T:
        """What `read` says of the maps and the iterators, asked once as long as the op has them."""
        if read not in self._of_loops:
            self._of_loops[read] = read(self.maps, self.iterators)
        return cast("T", self._of_loops[read])


def _forms(
    maps: Sequence[AffineMap], _iterators: Sequence[str]
) -> tuple[tuple[LinearIndex, ...] | None, ...]:
    return tuple(linear_map(indexing_map) for indexing_map in maps)


def structured(op: Operation | None) -> Structured | None:
    """The view of `op`, or None if it is not a linalg structured op."""
    if not isinstance(op, LinalgStructuredOperation):
        return None
    read = vars(op).get(_READ)
    if not isinstance(read, _Read) or not read.is_of(op):
        read = vars(op)[_READ] = _Read(op)
    return Structured(
        op, read.inputs, read.inits, read.maps, read.iterators, op.body.block, read.of_loops
    )


_READ = "convir.structured"
"""Where an op keeps its `_Read`; a clone has none."""


class _Read:
    """What attributes and operands say of a structured op, which is asked for many times."""

    def __init__(self, op: LinalgStructuredOperation) -> None:
        self._operands = op._operands  # pyright: ignore[reportPrivateUsage]  (the view is slower)
        self._attributes = (*op.properties.values(), *op.attributes.values())
        self.of_loops: dict[object, object] = {}
        self.maps = tuple(attr.data for attr in op.get_indexing_maps())
        self.iterators = tuple(str(attr.data.value) for attr in op.get_iterator_types())
        self.inputs = tuple(op.inputs)
        self.inits = tuple(op.outputs)

    def is_of(self, op: LinalgStructuredOperation) -> bool:
        """Whether the op still has the operands and attributes that were read."""
        # Whoever changes an operand gives the op another tuple.
        same = self._operands is op._operands  # pyright: ignore[reportPrivateUsage]
        return same and _are(self._attributes, (*op.properties.values(), *op.attributes.values()))


def _are(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
