"""Row-major reshapes between shapes of static and symbolic sizes, and the ops that do them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import tensor
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute, SSAValue

    from convir.analysis.slices import Size

Group: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of one shape, and the dimensions of another that hold the same elements."""


def reassociation(before: Sequence[Size], after: Sequence[Size]) -> tuple[Group, ...] | None:
    """The finest groups of dimensions that correspond in a reshape of `before` to `after`.

    None if the two shapes do not provably hold the same elements in the same order; no groups at
    all if one of them has rank 0, and the other sizes of 1.
    """
    if len(before) == 0 or len(after) == 0:
        return () if all(size == 1 for size in (*before, *after)) else None
    groups: list[Group] = []
    left, right = _Run(before), _Run(after)
    while not (left.finished and right.finished):
        if left.same_elements(right) and left.taken and right.taken:
            _take_units(left, right)
            groups.append((left.restart(), right.restart()))
            continue
        behind = left if left.smaller_than(right) else right
        if behind.exhausted:
            behind = right if behind is left else left
        if behind.exhausted:
            return None
        behind.take()
    return tuple(groups)


@dataclass
class _Run:
    """The dimensions of one shape taken into the group that is being formed."""

    sizes: Sequence[Size]
    position: int = 0
    taken: list[int] = field(default_factory=list[int])

    @property
    def exhausted(self) -> bool:
        return self.position == len(self.sizes)

    @property
    def finished(self) -> bool:
        return self.exhausted and not self.taken

    def take(self) -> None:
        self.taken.append(self.position)
        self.position += 1

    def restart(self) -> tuple[int, ...]:
        taken, self.taken = tuple(self.taken), []
        return taken

    @property
    def static(self) -> int:
        return prod(size for dim in self.taken if isinstance(size := self.sizes[dim], int))

    @property
    def symbols(self) -> list[Size]:
        return [size for dim in self.taken if not isinstance(size := self.sizes[dim], int)]

    def same_elements(self, other: _Run) -> bool:
        return self.static == other.static and self.symbols == other.symbols

    def smaller_than(self, other: _Run) -> bool:
        if not self.taken or not other.taken:
            return not self.taken
        if len(self.symbols) != len(other.symbols):
            return len(self.symbols) < len(other.symbols)
        return self.static < other.static


def _take_units(left: _Run, right: _Run) -> None:
    """Unit dimensions join the group before them where the shapes do not both have one.

    Trailing units of the one shape would otherwise be left without a partner.
    """
    for run, other in ((left, right), (right, left)):
        while not run.exhausted and run.sizes[run.position] == 1:
            if not other.exhausted and other.sizes[other.position] == 1:
                break
            run.take()


def reassociation_attr(groups: Iterable[Iterable[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Groups of dimensions as a reshape spells them out."""
    return ArrayAttr(ArrayAttr(IntegerAttr(dim, i64) for dim in group) for group in groups)


def groups_of(op: tensor.CollapseShapeOp | tensor.ExpandShapeOp) -> tuple[tuple[int, ...], ...]:
    """The groups of dimensions of a reshape; none where one side has rank 0."""
    return tuple(tuple(dim.value.data for dim in group) for group in op.reassociation)


def splitting(rank: int, at: int) -> tuple[tuple[int, ...], ...]:
    """The groups of a shape of `rank` dimensions of which dimension `at` stands for two."""
    return tuple((dim, dim + 1) if dim == at else (dim + (dim > at),) for dim in range(rank))


def collapse_shape(
    source: SSAValue, groups: Iterable[Iterable[int]], result: TensorType[Attribute]
) -> tensor.CollapseShapeOp:
    """`source` with the dimensions of each group merged."""
    return tensor.CollapseShapeOp(
        operands=[source],
        result_types=[result],
        properties={"reassociation": reassociation_attr(groups)},
    )


def expand_shape(
    source: SSAValue,
    groups: Iterable[Iterable[int]],
    result: TensorType[Attribute],
    dynamic: Sequence[SSAValue] = (),
) -> tensor.ExpandShapeOp:
    """`source` with each dimension split into a group; `dynamic` are the open sizes of `result`."""
    return tensor.ExpandShapeOp(
        source, dynamic, reassociation_attr(groups), result.get_shape(), result
    )
