"""How attention is cut: blocks of queries, whose scores stay in a cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.program import Load
from convir.lowering.kernels.host.attention.problem import SCORES
from convir.lowering.kernels.host.code.builder import LINE_BYTES
from convir.lowering.kernels.host.implicit_gemm.blocking import (
    MIN_ITEMS,
    block,
    bounds_of,
    with_pieces,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.bodies.rows.program import Access, RowProgram
    from convir.lowering.kernels.host.attention.problem import Attention
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking

SCORE_BYTES = 4
BLOCK_BYTES = 128 * 1024
"""Scores of a block, on the stack of the thread and in the second-level cache beside keys and
values; a block has at least one tile."""
BLOCK_QUERIES = 96
"""At most; with more of them nothing is read less often."""


@dataclass(frozen=True)
class Cuts:
    """The cuts of one attention."""

    line: int
    """Elements from one row of scores to the next: whole cache lines, an odd number of them, so
    that rows of a tile are in different sets of a cache."""
    bounds: tuple[int, ...]
    """The queries of a group between blocks."""
    scores: Blocking
    values: Blocking

    @property
    def block_bytes(self) -> int:
        """Of the scores of a block."""
        longest = max(b - a for a, b in pairwise(self.bounds))
        return longest * self.line * SCORE_BYTES


def cut(scores: Contraction, values: Contraction, line: int, lanes: Lanes) -> Cuts:
    """The cuts of two products whose rows of scores lie `line` elements apart."""
    first, second = block(scores, lanes), block(values, lanes)
    queries = scores.phases[0].pixels
    most = min(BLOCK_QUERIES, BLOCK_BYTES // (line * SCORE_BYTES))
    tile = lcm(first.tile.rows, second.tile.rows)
    if tile > most:
        tile = max(first.tile.rows, second.tile.rows)
    blocks = -(-queries // max(tile, most // tile * tile))
    wanted = -(-MIN_ITEMS // scores.groups)
    blocks = max(blocks, min(wanted, -(-queries // tile)))
    bounds = bounds_of(queries, blocks, tile)
    return Cuts(line, bounds, with_pieces(first, bounds), with_pieces(second, bounds))


def line_of(keys: int) -> int:
    """Elements from one row of scores to the next, more than there are."""
    lines = keys * SCORE_BYTES // LINE_BYTES + 1
    return (lines + 1 - lines % 2) * LINE_BYTES // SCORE_BYTES


def spread(problem: Attention, line: int) -> Attention:
    """The same with rows of scores that lie `line` elements apart."""
    keys, scores, values = problem.keys, problem.scores, problem.values

    def apart(stride: int) -> int:
        return stride // keys * line

    def of(axis: Axis, field: str) -> Axis:
        return replace(axis, **{field: apart(getattr(axis, field))})

    def access(given: Access) -> Access:
        *outer, _ = given.strides
        return replace(given, strides=(*map(apart, outer), 1))

    (one,), (other,) = scores.phases, values.phases
    one = replace(one, axes=tuple(of(axis, "out_stride") for axis in one.axes))
    other = replace(other, axes=tuple(of(axis, "row_stride") for axis in other.axes))
    rows: RowProgram = replace(
        problem.rows,
        nodes=tuple(
            replace(node, source=access(node.source))
            if isinstance(node, Load) and node.source.index == SCORES
            else node
            for node in problem.rows.nodes
        ),
        stores=tuple(replace(s, target=access(s.target)) for s in problem.rows.stores),
    )
    c = replace(scores.c, group_stride=apart(scores.c.group_stride))
    a = replace(values.a, group_stride=apart(values.a.group_stride))
    return replace(
        problem,
        scores=replace(scores, phases=(one,), c=c),
        rows=rows,
        values=replace(values, phases=(other,), a=a),
    )
