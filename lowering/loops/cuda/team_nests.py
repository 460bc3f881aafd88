"""Loop nests of reductions that teams of threads compute, and when they do.

One thread an element is enough where there are many elements and their neighbours read
neighbours. Elsewhere a team shares an element: adjacent threads along rows that are summed,
threads of different warps along columns. Where even that leaves a GPU empty, the reduction is cut
into parts, which a second launch joins; both in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation, OpResult
from xdsl.ir.affine import AffineDimExpr

from convir.analysis.structured import structured
from convir.lowering.loops.cuda.accesses import VECTOR_BYTES, element_bytes
from convir.lowering.loops.cuda.teams import THREADS, Team, combiners_of, reduction_size
from convir.lowering.loops.evaluate import static_shape

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from convir.analysis.structured import Structured

MIN_SHARED = 64
"""Reductions of fewer iterations are not worth waiting for other threads."""

FILL_THREADS = 1 << 17
"""About half of the threads that a large GPU holds at once: with fewer, its memory idles."""

WARP = 32

WARP_READS = 1024
"""Reads of a row that a warp does alone; longer ones take a block."""

MEMBER_READS = 4
"""Reads that a member of a team does at least, before a reduction is cut into parts."""


@dataclass(frozen=True)
class SharedReduction:
    """A reduction inside a kernel's result, and the team that computes an element of it."""

    value: OpResult
    """The reduction's result."""
    team: Team
    width: int
    """Consecutive elements of the result that a team computes."""

    @property
    def parts_bytes(self) -> int:
        """The memory that parts need between the two launches; 0 if there is one part."""
        if self.team.splits == 1:
            return 0
        shape = static_shape(self.value)
        return self.team.splits * prod(shape) * element_bytes(_element_type(self.value))

    def joining(self) -> SharedReduction:
        """How the parts are joined: as columns of a matrix with a row for each."""
        shape = static_shape(self.value)
        return replace(self, team=_column_team(prod(shape) // self.width, self.team.splits))


def shared_reduction(value: SSAValue) -> SharedReduction | None:
    """The reduction that a team should compute for each element of `value`; None if none."""
    found = _reduction_of(value)
    if found is None:
        return None
    view = structured(found.op)
    assert view is not None
    size = reduction_size(view)
    shape = static_shape(found)
    if size is None or size < MIN_SHARED or prod(shape) == 0 or combiners_of(view) is None:
        return None
    width = 1
    if _reads_rows(view):
        lanes = _dividing(size, _widest(view))
        members = WARP if size // lanes <= WARP_READS else THREADS
        team = Team(members, adjacent=True, lanes=lanes)
    else:
        width = _dividing(shape[-1], _widest(view)) if shape else 1
        if prod(shape) // width >= FILL_THREADS:
            return None
        team = _column_team(prod(shape) // width, 1)
    if len(found.op.results) == 1:
        team = replace(team, splits=_splits(team, prod(shape) // width, size))
    return SharedReduction(found, team, width)


def _column_team(units: int, splits: int) -> Team:
    teams = 1
    while teams < WARP and units % (2 * teams) == 0:
        teams *= 2
    return Team(THREADS // teams, adjacent=teams == 1, splits=splits)


def _splits(team: Team, units: int, size: int) -> int:
    """Into how many parts a reduction is cut, for enough threads with enough to do."""
    wanted = -(-FILL_THREADS // (units * team.members))
    possible = size // (team.lanes * team.members * MEMBER_READS)
    return max(1, min(wanted, possible))


def _reduction_of(value: SSAValue) -> OpResult | None:
    """The only reduction that elements of `value` cost; None if there is none, or several."""
    found: set[OpResult] = set()
    pending = [value]
    seen: set[SSAValue] = set()
    while pending:
        current = pending.pop()
        owner = current.owner
        if current in seen or not isinstance(owner, Operation):
            continue
        seen.add(current)
        view = structured(owner)
        if view is not None and view.loops_of("reduction"):
            found.add(cast("OpResult", current))
            continue
        pending += [x for x in owner.operands if isinstance(x.type, TensorType)]
    return found.pop() if len(found) == 1 else None


def _reads_rows(view: Structured) -> bool:
    """Whether the innermost dimension of the largest operand is one that is reduced."""
    sizes = [_elements(operand) for operand in view.inputs]
    if not sizes:
        return False
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    results = view.maps[largest].results
    if not results:
        return False
    last = results[-1]
    return isinstance(last, AffineDimExpr) and last.position in view.loops_of("reduction")


def _elements(value: SSAValue) -> int:
    shape = cast("TensorType[Attribute]", value.type).get_shape()
    return 0 if DYNAMIC_INDEX in shape else prod(shape)


def _widest(view: Structured) -> int:
    """How many elements of the smallest operand fill an access."""
    sizes = [element_bytes(_element_type(operand)) for operand in view.inputs]
    return VECTOR_BYTES // min(sizes, default=VECTOR_BYTES)


def _dividing(size: int, widest: int) -> int:
    """The largest power of two up to `widest` that divides `size`."""
    lanes = widest
    while lanes > 1 and size % lanes != 0:
        lanes //= 2
    return max(1, lanes)


def _element_type(value: SSAValue) -> Attribute:
    return cast("TensorType[Attribute]", value.type).element_type
