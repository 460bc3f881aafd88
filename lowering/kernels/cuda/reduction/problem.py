"""What the family sees of a kernel: passes over rows, and how rows lie in memory.

*Along*: neighbours in memory are of one row, and threads share a row. *Across*: neighbours are of
neighbouring rows, or of a few of the same row each (groups of channels); a thread has a vector of
them, its *column*, and goes over its elements, the *positions*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import BlockArgument
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.bodies.rows.moments import in_one_pass
from convir.lowering.bodies.rows.program import Load, RowProgram
from convir.lowering.bodies.rows.read import RowRules, read_rows
from convir.lowering.loops.cuda.scalars import ScalarPrinter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.contraction.spec import ComputeType
    from convir.lowering.bodies.rows.program import Access

PLANS_ROWS = True
"""Whether passes over rows are formed and chosen for a GPU; loops compute reductions elsewhere."""
NOT_PLANNED = "passes over rows are not planned"

VECTOR_BYTES = 16
RUN_BYTES = 128
"""Of neighbours of one row: those of fewer are read with those of other rows beside them."""
MOST_POSITIONS = 1 << 30
"""What 32 bits count with room for the steps of a block."""


@dataclass(frozen=True)
class Rows:
    """A program, and the part of its axes that threads divide among each other."""

    program: RowProgram
    inner: int
    """The first of the axes that columns extend along; none of them along rows."""

    @property
    def is_along(self) -> bool:
        """Whether a thread's vectors are of one row."""
        return self.inner == len(self.program.sizes)

    @cached_property
    def one_pass(self) -> Rows:
        """The same, reading what is not kept on chip as seldom as may be."""
        return Rows(in_one_pass(self.program), self.inner)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """What is read and written of elements, not of rows."""
        of_rows, nodes = self.program.of_rows, self.program.nodes
        read = [n.source for i, n in enumerate(nodes) if isinstance(n, Load) and not of_rows[i]]
        return (*read, *(s.target for s in self.program.stores if not of_rows[s.node]))

    @property
    def outer_axes(self) -> tuple[int, ...]:
        """The axes that count rows, or images of rows, slowest first."""
        return self._outside(reduced=False)

    @property
    def position_axes(self) -> tuple[int, ...]:
        """The axes of a row that a thread goes over."""
        return self._outside(reduced=True)

    @property
    def inner_axes(self) -> tuple[int, ...]:
        """The axes that columns extend along."""
        return tuple(range(self.inner, len(self.program.sizes)))

    @property
    def images(self) -> int:
        """Rows; across, sets of rows that lie beside each other."""
        return self._product(self.outer_axes)

    @property
    def columns(self) -> int:
        """Vectors of neighbouring rows; 1 along rows."""
        return 1 if self.is_along else self._product(self.inner_axes) // self.width

    @property
    def positions(self) -> int:
        """Vectors of a row; across, elements of a column."""
        return self._product(self.position_axes) // (self.width if self.is_along else 1)

    @property
    def run(self) -> int:
        """Neighbours of one row, across."""
        axes = (axis for axis in self.inner_axes if self.program.reduced[axis])
        return self._product(tuple(axes))

    @property
    def parts(self) -> int:
        """Totals of a reduction that a thread keeps: one for each row that its vector is of; where
        rows end within vectors, one for each lane."""
        if self.is_along or self.run % self.width == 0:
            return 1
        return self.width // self.run if self.width % self.run == 0 else self.width

    @cached_property
    def width(self) -> int:
        """Elements of a vector."""
        widest = VECTOR_BYTES // min((STORAGE_BYTES[a.type] for a in self.accesses), default=4)
        while widest > 1 and not all(self._divides(access, widest) for access in self.accesses):
            widest //= 2
        return widest

    def _divides(self, access: Access, width: int) -> bool:
        """Whether vectors of an access begin at multiples of their size, and are dense or of one
        element."""
        sizes = self.program.sizes
        span, kinds, axis = 1, set[bool](), len(sizes)
        while span % width and axis > (0 if self.is_along else self.inner):
            axis -= 1
            if self.is_along and not self.program.reduced[axis]:
                return False
            if access.strides[axis] not in (0, span):
                return False
            kinds.add(access.strides[axis] != 0)
            span *= sizes[axis]
        if span % width or len(kinds) > 1:
            return False
        return kinds == {False} or all(stride % width == 0 for stride in access.strides[:axis])

    def is_uniform(self, access: Access) -> bool:
        """Whether all lanes of a vector have one element."""
        return access.strides[-1] == 0

    def _outside(self, *, reduced: bool) -> tuple[int, ...]:
        return tuple(i for i in range(self.inner) if self.program.reduced[i] == reduced)

    def _product(self, axes: Sequence[int]) -> int:
        return prod(self.program.sizes[axis] for axis in axes)


def read(callee: kernel.FuncOp) -> Rows | Refusal:
    """The passes over rows that a kernel is, or why it is none."""
    block = callee.body.block
    returned = block.last_op
    assert returned is not None
    program = read_rows(list(block.ops), list(returned.operands), _argument, ON_GPU)
    return program if isinstance(program, Refusal) else rows_of(program)


def read_on_gpu(
    ops: Sequence[Operation],
    results: Sequence[SSAValue],
    argument: Callable[[SSAValue], int],
) -> RowProgram | Refusal:
    """The passes over rows that `ops` are, if the family takes them; see `read_rows`."""
    if not PLANS_ROWS:
        return Refusal(NOT_PLANNED)
    program = read_rows(ops, results, argument, ON_GPU)
    rows = program if isinstance(program, Refusal) else rows_of(program)
    return rows if isinstance(rows, Refusal) else rows.program


def rows_of(program: RowProgram) -> Rows | Refusal:
    """How the rows of a program lie, or why they are not taken."""
    for store in program.stores:
        along = zip(store.target.strides, program.reduced, strict=True)
        if program.of_rows[store.node] and any(s for s, reduced in along if reduced):
            return Refusal("a result repeats what is one number of a row")
    found = Rows(program, _inner(program))
    if max(found.positions, found.images * found.columns) > MOST_POSITIONS:
        return Refusal("32 bits do not count its elements")
    if not found.is_along and found.run > found.width and found.run % found.width:
        return Refusal(f"runs of {found.run} elements are no vectors")
    return found


def _inner(program: RowProgram) -> int:
    """The first of the axes that columns extend along."""
    sizes, reduced = program.sizes, program.reduced
    start = len(sizes)
    while start and reduced[start - 1]:
        start -= 1
    element = STORAGE_BYTES[program.element]
    accesses = [node.source for node in program.nodes if isinstance(node, Load)]
    element = min((STORAGE_BYTES[a.type] for a in accesses if any(a.strides)), default=element)
    if prod(sizes[start:]) * element >= RUN_BYTES or True not in reduced[:start]:
        return len(sizes)
    while start and not reduced[start - 1]:
        start -= 1
    return start


def unsupported(op: Operation, element: ComputeType) -> str | None:
    """Why no CUDA code computes a scalar op; None if there is some."""
    del element
    kinds: list[Attribute] = [value.type for value in (*op.operands, *op.results)]
    known = (AnyFloat, IntegerType)
    if not all(isinstance(k, known) for k in kinds) or op.regions or len(op.results) != 1:
        return f"holds {op.name}"
    if any(isinstance(k, IntegerType) and k.bitwidth != 1 for k in kinds):
        return f"computes {op.name} of integers"
    names: dict[SSAValue, str] = dict.fromkeys(op.operands, "x")
    try:
        ScalarPrinter("int", names).expression(op)
    except PassFailedException as error:
        return f"has no code: {error}"
    return None


ON_GPU = RowRules(unsupported, takes_apart=True)
"""Lanes of threads."""


def _argument(value: SSAValue) -> int:
    if not isinstance(value, BlockArgument):
        raise TypeError("a kernel reads what is neither its argument nor computed in it")
    return value.index
