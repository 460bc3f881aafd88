"""Reductions that several threads compute together, each a part, joined in a fixed order.

A team of threads computes one element, or one vector of elements, of a reduction's result. What
the combiner is, and what it leaves as it is, is read from the body.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, linalg, scf
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType
from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from convir.lowering.loops.cuda.vector_evaluate import VectorEvaluator
from convir.lowering.loops.evaluate import scalar_attr, static_shape
from convir.lowering.loops.indices import Lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.builder import Builder
    from xdsl.ir import Attribute, BlockArgument, SSAValue

    from convir.analysis.structured import Structured
    from convir.lowering.loops.cuda.lanes import LaneBuilder
    from convir.lowering.loops.evaluate import Rule, Value
    from convir.lowering.loops.indices import Condition, Index

THREADS = 256
"""Threads of a block of a generated kernel: enough warps to hide loads, few enough registers."""

_NEUTRAL_FLOATS = {
    "arith.addf": -0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": -inf,
    "arith.minimumf": inf,
    "arith.maxnumf": nan,
    "arith.minnumf": nan,
}
_NEUTRAL_INTEGERS: dict[str, Callable[[int], int]] = {
    "arith.addi": lambda _: 0,
    "arith.muli": lambda _: 1,
    "arith.andi": lambda _: -1,
    "arith.ori": lambda _: 0,
    "arith.xori": lambda _: 0,
    "arith.maxsi": lambda bits: -(1 << (bits - 1)),
    "arith.minsi": lambda bits: (1 << (bits - 1)) - 1,
    "arith.maxui": lambda _: 0,
    "arith.minui": lambda _: -1,
}


@dataclass(frozen=True)
class Team:
    """The threads of a block that compute an element, and how they share the work."""

    members: int
    """Threads of a team, a power of two."""
    adjacent: bool
    """Whether the members are neighbours; else their counterparts in the next team are."""
    lanes: int = 1
    """Consecutive elements that a member reads at once."""
    splits: int = 1
    """Into how many parts the reduction is cut, each for another team."""

    @property
    def teams(self) -> int:
        """How many teams a block has."""
        return THREADS // self.members


@dataclass(frozen=True)
class Combiner:
    """A reduction that may be computed in any order: `op` of the accumulator and a value."""

    op: Operation
    value: SSAValue
    """What an iteration contributes, in the body."""


def combiners_of(view: Structured) -> tuple[Combiner, ...] | None:
    """How each result of a reduction is combined; None if the order matters to one of them."""
    terminator = view.body.last_op
    assert terminator is not None
    found: list[Combiner] = []
    for accumulator, yielded in zip(
        view.body.args[len(view.inputs) :], terminator.operands, strict=True
    ):
        op = yielded.owner
        if not isinstance(op, Operation) or accumulator not in op.operands:
            return None
        if op.name not in (*_NEUTRAL_FLOATS, *_NEUTRAL_INTEGERS) or len(op.operands) != 2:
            return None
        if not accumulator.has_one_use() or not yielded.has_one_use():
            return None
        value = op.operands[1] if op.operands[0] is accumulator else op.operands[0]
        found.append(Combiner(op, value))
    return tuple(found)


def reduction_size(view: Structured) -> int | None:
    """How many iterations a reduction has; None if that is unknown."""
    bounds = [view.bounds[loop] for loop in view.loops_of("reduction")]
    return None if None in bounds else prod(cast("list[int]", bounds))


class TeamEvaluator(VectorEvaluator):
    """Emits the reductions of a kernel body as `scf.parallel` loops over a team's members."""

    def __init__(
        self,
        builder: Builder,
        lane: LaneBuilder,
        buffers: dict[SSAValue, SSAValue],
        rules: Mapping[str, Rule],
        team: Team,
    ) -> None:
        super().__init__(builder, lane, buffers, rules)
        self._team = team
        self._depth = 0
        self.part: Index | None = None
        """Which part of the reduction is computed, without its init; None for all of it."""
        self.parts: SSAValue | None = None
        """The buffer of the parts that are computed already, to be joined; None if none are."""

    def choose(
        self,
        condition: Condition,
        if_true: Callable[[], SSAValue],
        if_false: Callable[[], SSAValue],
    ) -> SSAValue:
        """One of two values in each lane, neither of which a team computes."""
        self._depth += 1
        value = super().choose(condition, if_true, if_false)
        self._depth -= 1
        return value

    def _reduction(
        self, view: Structured, result: int, loops: list[Index | None], reductions: list[int]
    ) -> SSAValue:
        combiners = combiners_of(view)
        if self._depth > 0 or combiners is None:
            raise PassFailedException("not all threads of a block reach a reduction")
        key = ("team", view.op, *loops)
        if self.at.numbers.find((*key, result)) is None:
            totals = self._parallel(view, combiners, loops, reductions)
            for i, (combiner, total) in enumerate(zip(combiners, totals, strict=True)):
                if self.part is None:
                    known = [0 if loop is None else loop for loop in loops]
                    at = self.at.apply(view.init_maps[i], known)
                    total = self._combined(combiner, self.element(view.inits[i], at), total)
                self.at.numbers.add((*key, i), total)
        found = self.at.numbers.find((*key, result))
        assert found is not None
        return found

    def _parallel(
        self,
        view: Structured,
        combiners: Sequence[Combiner],
        loops: list[Index | None],
        reductions: list[int],
    ) -> Sequence[SSAValue]:
        """What all iterations of a part contribute to each result."""
        bounds = [cast("int", view.bounds[loop]) for loop in reductions]
        size = prod(bounds) // self._team.lanes if self.parts is None else self._team.splits
        block = Block(arg_types=[IndexType()])
        neutral = [self._wide(self._neutral(combiner)) for combiner in combiners]
        begin, end = self._part_bounds(size)
        outer = self.builder.insertion_point
        self.builder.insertion_point = InsertPoint.at_end(block)
        self.lane.ranges.bound(block.args[0], 0, max(0, size - 1))
        self._depth += 1
        with self.at.numbers.scope():
            if self.parts is None:
                values = self._iteration(view, combiners, loops, reductions, block.args[0])
            else:
                values = [self._wide(self._part(self.parts, view, loops, block.args[0]))]
        self._depth -= 1
        pairs = zip(combiners, values, strict=True)
        regions = [_combine_region(combiner, value) for combiner, value in pairs]
        self.builder.insert(scf.ReduceOp(values, regions))
        self.builder.insertion_point = outer
        op = scf.ParallelOp([begin], [end], [self.at.constant(1)], Region(block), neutral)
        self.builder.insert(op)
        self._cover(op.results)
        return op.results

    def _part_bounds(self, size: int) -> tuple[SSAValue, SSAValue]:
        if self.part is None:
            return self.at.constant(0), self.at.constant(size)
        length = -(-size // self._team.splits)
        begin = self.at.mul(self.part, length)
        end = self.at.value(self.at.add(begin, length))
        return self.at.value(begin), self.emit(arith.MinSIOp(end, self.at.constant(size)))

    def _part(
        self, parts: SSAValue, view: Structured, loops: list[Index | None], index: SSAValue
    ) -> SSAValue:
        """A part that another launch computed, of the only result of `view`."""
        known = [0 if loop is None else loop for loop in loops]
        at = self.at.apply(view.init_maps[0], known)
        shape = static_shape(view.op.results[0])
        return self._load(parts, self.at.linearize([index, *at], [self._team.splits, *shape]))

    def _iteration(
        self,
        view: Structured,
        combiners: Sequence[Combiner],
        loops: list[Index | None],
        reductions: list[int],
        index: SSAValue,
    ) -> list[SSAValue]:
        """What one iteration of a member contributes: a run of elements, combined in pairs."""
        lanes = self._team.lanes
        if lanes == 1:
            return self._contributions(view, combiners, loops, reductions, index)
        with self.lane.only(tuple(range(lanes))):
            position = self.lane.add(
                self.lane.mul(index, lanes),
                Lanes(self.lane.active, tuple((None, i) for i in self.lane.active)),
            )
            vectors = self._contributions(view, combiners, loops, reductions, position)
            runs = [self._scalars(vector) for vector in vectors]
        return [self._tree(combiner, run) for combiner, run in zip(combiners, runs, strict=True)]

    def _contributions(
        self,
        view: Structured,
        combiners: Sequence[Combiner],
        loops: list[Index | None],
        reductions: list[int],
        position: Index,
    ) -> list[SSAValue]:
        bounds = [cast("int", view.bounds[loop]) for loop in reductions]
        at = dict(zip(reductions, self.at.delinearize(position, bounds), strict=True))
        inner = [cast("Index", at.get(i, loop)) for i, loop in enumerate(loops)]
        known: dict[SSAValue, Value] = {
            op.result: self.index_value(inner[op.dim.value.data])
            for op in view.body.ops
            if isinstance(op, linalg.ops.IndexOp)
        }

        def argument(arg: BlockArgument) -> SSAValue:
            operand = view.operands[arg.index]
            return self.element(operand, self.at.apply(view.maps[arg.index], inner))

        return [
            self._wide(self.data(self.region_scalar(c.value, view.body, known, argument)))
            for c in combiners
        ]

    def _tree(self, combiner: Combiner, values: Sequence[SSAValue]) -> SSAValue:
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self._combined(combiner, a, b) for a, b in pairs]
        return values[0]

    def _combined(self, combiner: Combiner, a: SSAValue, b: SSAValue) -> SSAValue:
        op = type(combiner.op).create(
            operands=[a, b],
            result_types=[r.type for r in combiner.op.results],
            properties=combiner.op.properties,
        )
        return self._on_vectors(op)

    def _neutral(self, combiner: Combiner) -> SSAValue:
        name, element_type = combiner.op.name, combiner.op.results[0].type
        return self.constant(scalar_attr(neutral_of(name, element_type), element_type))


def _combine_region(combiner: Combiner, value: SSAValue) -> Region:
    block = Block(arg_types=[value.type, value.type])
    op = type(combiner.op).create(
        operands=block.args,
        result_types=[value.type],
        properties=combiner.op.properties,
    )
    block.add_ops([op, scf.ReduceReturnOp(op.results[0])])
    return Region(block)


def neutral_of(name: str, element_type: Attribute) -> float:
    """What a combiner leaves every value as it is with."""
    if isinstance(element_type, AnyFloat):
        return _NEUTRAL_FLOATS[name]
    bits = element_type.bitwidth if isinstance(element_type, IntegerType) else 64
    return _NEUTRAL_INTEGERS[name](bits)
