"""A kernel as passes over rows: what each element, and each row, computes of the others.

A *row* is all elements that the reductions of a kernel combine with each other. A tensor of the
kernel is one node, since all ops read it at the index that they write: of each element, or of each
row where it does not differ within one.

    softmax     row:  m = max x           s = sum of exp(x - m)
                each: exp(x - m) / s
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, TypeAlias, cast

from convir.lowering.bodies.contraction.scalar_program import Result, ScalarOp

if TYPE_CHECKING:
    from xdsl.dialects.builtin import AnyFloat, FloatAttr

    from convir.lowering.bodies.contraction.spec import ComputeType, StorageType


@dataclass(frozen=True)
class Access:
    """Where the elements of an argument or result lie."""

    index: int
    """Of the argument, or of the result."""
    type: StorageType
    strides: tuple[int, ...]
    """Along each axis, in elements; 0 where it has none of it."""


@dataclass(frozen=True)
class Load:
    """An element of an argument."""

    source: Access
    kind: AnyFloat


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: FloatAttr[AnyFloat]


@dataclass(frozen=True)
class Step:
    """A scalar op; its operands are `Result`s with the numbers of nodes."""

    op: ScalarOp


@dataclass(frozen=True)
class Reduction:
    """All elements of a row, combined with each other and with `init`."""

    combiner: str
    """The name of an op of `NEUTRAL`."""
    operand: int
    init: int
    kind: AnyFloat


Node: TypeAlias = Load | Number | Step | Reduction

COMBINERS = {
    "arith.addf": 0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": float("-inf"),
    "arith.minimumf": float("inf"),
}
"""What the reductions of a body combine elements by, and what changes nothing."""

SUM = "arith.addf"
MAXIMUM = "arith.maximumf"
MAXIMUM_OF_NUMBERS = "arith.maxnumf"
"""The maximum of those that are no NaN; `softmax.py` finds where it will do."""

NEUTRAL = {**COMBINERS, MAXIMUM_OF_NUMBERS: float("-inf")}
"""What changes nothing that it is combined with."""


@dataclass(frozen=True)
class Store:
    """A result of the kernel."""

    node: int
    target: Access


@dataclass(frozen=True)
class RowProgram:
    """Nodes in order of their dependence, over axes from the outermost in memory to the
    innermost."""

    element: ComputeType
    """What is computed in."""
    sizes: tuple[int, ...]
    reduced: tuple[bool, ...]
    """Which axes a row extends along; the others count the rows."""
    nodes: tuple[Node, ...]
    stores: tuple[Store, ...]

    @property
    def along_rows(self) -> bool:
        """Whether neighbours in memory are of one row; otherwise of neighbouring rows."""
        return self.reduced[-1]

    @property
    def rows(self) -> int:
        """How many there are."""
        return prod(
            size for size, reduced in zip(self.sizes, self.reduced, strict=True) if not reduced
        )

    @cached_property
    def of_rows(self) -> tuple[bool, ...]:
        """Of each node, whether it does not differ within a row."""
        found: list[bool] = []
        for node in self.nodes:
            match node:
                case Load():
                    within = zip(node.source.strides, self.reduced, strict=True)
                    found.append(not any(stride for stride, reduced in within if reduced))
                case Step():
                    found.append(all(found[operand] for operand in operands_of(node)))
                case _:
                    found.append(True)
        return tuple(found)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Of each node, how many passes over a row come before it is known."""
        found: list[int] = []
        for node in self.nodes:
            level = max((found[operand] for operand in operands_of(node)), default=0)
            found.append(level + isinstance(node, Reduction))
        return tuple(found)

    @cached_property
    def passes(self) -> int:
        """Over each row: one for each level of reductions, and for the elements that are stored."""
        stored = (self.levels[s.node] for s in self.stores if not self.of_rows[s.node])
        return max(max(self.levels), 1 + max(stored, default=-1))

    def reductions_of(self, number: int) -> list[int]:
        """The reductions that a pass, counted from 1, computes."""
        found = enumerate(zip(self.nodes, self.levels, strict=True))
        return [i for i, (node, level) in found if isinstance(node, Reduction) and level == number]

    def stores_of(self, number: int) -> list[Store]:
        """What a pass stores of each element."""
        return [
            store
            for store in self.stores
            if not self.of_rows[store.node] and self.levels[store.node] == number - 1
        ]

    def elements_of(self, number: int, known: frozenset[int] = frozenset()) -> list[int]:
        """The nodes that a pass computes of each element, in order, but for what is `known`."""
        wanted = [self.reduction(i).operand for i in self.reductions_of(number)]
        pending = [*wanted, *(store.node for store in self.stores_of(number))]
        found: set[int] = set()
        while pending:
            node = pending.pop()
            if node in found or self.of_rows[node]:
                continue
            found.add(node)
            if node not in known:
                pending += operands_of(self.nodes[node])
        return sorted(found)

    def kind(self, number: int) -> AnyFloat:
        """The type of a node."""
        node = self.nodes[number]
        match node:
            case Step():
                return cast("AnyFloat", node.op.result)
            case Number():
                return node.value.type
            case _:
                return node.kind

    def reduction(self, number: int) -> Reduction:
        """The node of that number."""
        node = self.nodes[number]
        assert isinstance(node, Reduction)
        return node


def operands_of(node: Node) -> tuple[int, ...]:
    """The nodes that a node is computed of."""
    match node:
        case Step():
            return tuple(term.step for term in node.op.operands if isinstance(term, Result))
        case Reduction():
            return node.operand, node.init
        case _:
            return ()
