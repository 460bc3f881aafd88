"""Clusters of ops while a body is read, and the stages that they become."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith

from convir.lowering.bodies.contraction.scalar_program import Operand, Result, ScalarOp, Sum
from convir.lowering.bodies.planar import program
from convir.lowering.bodies.planar.program import (
    Bound,
    Parameter,
    PlanarProgram,
    Rows,
    Stage,
    Temporary,
)
from convir.lowering.kernels.host.vector_functions.table import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.scalar_program import Term as Scalar
    from convir.lowering.bodies.planar.program import Read, Write

MAX_STEPS_ON_SUMS = 8
"""Ops on each sum while it is in a register. Longer programs, and functions such as tanh, are a
stage of their own: a loop writes them once, instead of once for every sum of a tile."""

NEAR_FRAMES = 32
"""Frames within which taps of one row share loads: two of the widest vectors."""


@dataclass(frozen=True)
class View:
    """Rows of an argument; inputs are counted first, then results. In elements."""

    argument: int
    offset: int
    row_stride: int
    image_stride: int
    channels: int

    def part(self, channel: int, frame: int, channels: int | None = None) -> View:
        """Rows from `channel` on, their frames from `frame` on."""
        offset = self.offset + channel * self.row_stride + frame
        left = self.channels - channel if channels is None else channels
        return replace(self, offset=offset, channels=left)


@dataclass(frozen=True)
class Column:
    """A number for each channel: an argument."""

    argument: int


@dataclass(frozen=True)
class Computed:
    """Rows that a cluster computes."""

    cluster: Cluster
    value: Scalar
    first: int
    """The channel of the cluster that is the first one."""
    channels: int

    @property
    def is_whole(self) -> bool:
        """Whether these are all channels of the cluster."""
        return (self.first, self.channels) == (0, self.cluster.channels)


Source: TypeAlias = View | Column | Computed


@dataclass(frozen=True)
class Term:
    """A convolution that is added to the sums of a cluster."""

    source: View | Computed
    weights: int | float
    """An argument, or what all weights are."""
    depth: int
    taps: int
    groups: int
    reach: int


@dataclass(eq=False)
class Cluster:
    """Sums, and what is computed of them at the same channel and frame."""

    channels: int
    terms: list[Term] = field(default_factory=list[Term])
    reads: list[Source] = field(default_factory=list["Source"])
    steps: list[ScalarOp] = field(default_factory=list[ScalarOp])

    def operand(self, source: Source) -> Scalar:
        """What stands for the element of `source` in the steps."""
        if isinstance(source, Computed) and source.cluster is self:
            return source.value
        if source not in self.reads:
            self.reads.append(source)
        return Operand(self.reads.index(source))

    @property
    def adds_up(self) -> bool:
        """Whether its value is the sum and other numbers added to it."""
        if not self.terms or not all(issubclass(op.kind, arith.AddfOp) for op in self.steps):
            return False
        added = [term for op in self.steps for term in op.operands if not isinstance(term, Operand)]
        return len(set(added)) == len(added)

    def absorb(self, other: Computed, value: Scalar) -> Scalar:
        """Add another cluster's value to `value`; returns what stands for the total."""
        self.terms[:0] = other.cluster.terms
        known: dict[Scalar, Scalar] = {Sum(): value}
        for number, source in enumerate(other.cluster.reads):
            known[Operand(number)] = self.operand(source)
        for number, op in enumerate(other.cluster.steps):
            self.steps.append(replace(op, operands=tuple(known.get(x, x) for x in op.operands)))
            known[Result(number)] = Result(len(self.steps) - 1)
        return known[other.value]

    @property
    def is_heavy(self) -> bool:
        """Whether the steps are a stage of their own."""
        is_function = any(op.kind.name in FUNCTIONS for op in self.steps)
        return bool(self.terms) and (is_function or len(self.steps) > MAX_STEPS_ON_SUMS)


@dataclass
class StageBuilder:
    """Turns clusters into stages: finds where what they compute lies in memory."""

    clusters: Sequence[Cluster]
    _bound: list[Bound] = field(default_factory=list[Bound])
    _temporaries: list[int] = field(default_factory=list[int])
    _places: dict[tuple[int, Scalar], Rows] = field(
        default_factory=dict["tuple[int, Scalar]", Rows]
    )
    """Where a value of a cluster is read, by the cluster's number."""
    _writes: dict[int, list[Write]] = field(default_factory=dict[int, "list[Write]"])

    def result(self, computed: Computed, place: View) -> None:
        """Write `computed` to rows of a result."""
        number = self.clusters.index(computed.cluster)
        rows = self._rows(place)
        self._places.setdefault((number, computed.value), rows)
        self._writes.setdefault(number, []).append(program.Write(rows, computed.value))

    def build(self, *, splits: bool) -> tuple[PlanarProgram, tuple[Bound, ...]]:
        """The program, and what its parameters are in this launch.

        Args:
            splits: whether clusters of many steps become two stages.
        """
        stages: list[list[Stage]] = []
        # Backwards: what a cluster has to write is known when all that read it are.
        read = [self._read(cluster) for cluster in reversed(self.clusters)]
        for number, (cluster, (terms, reads)) in enumerate(
            zip(self.clusters, reversed(read), strict=True)
        ):
            writes = tuple(self._writes.get(number, ()))
            stage = Stage(cluster.channels, terms, reads, tuple(cluster.steps), writes)
            stages.append(self._split(stage) if splits and cluster.is_heavy else [stage])
        flat = tuple(stage for group in stages for stage in group)
        return PlanarProgram(len(self._bound), tuple(self._temporaries), flat), tuple(self._bound)

    def _read(self, cluster: Cluster) -> tuple[tuple[program.Term, ...], tuple[Read, ...]]:
        terms = tuple(
            program.Term(
                self._source(term.source, term.reach),
                self._parameter(Bound(term.weights, 0))
                if isinstance(term.weights, int)
                else term.weights,
                term.depth,
                term.taps,
                term.groups,
                _known_reach(term, cluster.channels),
            )
            for term in cluster.terms
        )
        reads = tuple(
            program.Column(self._parameter(Bound(source.argument, 0)))
            if isinstance(source, Column)
            else self._source(source, 0)
            for source in cluster.reads
        )
        return terms, reads

    def _split(self, stage: Stage) -> list[Stage]:
        """Sums that are written to memory, and the steps on what lies there."""
        places = [w.rows for w in stage.writes if isinstance(w.rows.array, Temporary)]
        between = places[0] if places else self._temporary(stage.channels)
        sums = Stage(stage.channels, stage.terms, (), (), (program.Write(between, Sum()),))
        loaded = Operand(len(stage.reads))

        def renamed(term: Scalar) -> Scalar:
            return loaded if isinstance(term, Sum) else term

        steps = tuple(
            replace(op, operands=tuple(renamed(x) for x in op.operands)) for op in stage.steps
        )
        writes = tuple(replace(write, value=renamed(write.value)) for write in stage.writes)
        return [sums, Stage(stage.channels, (), (*stage.reads, between), steps, writes)]

    def _source(self, source: View | Computed, reach: int) -> Rows:
        if isinstance(source, View):
            return self._rows(source, reach)
        number = self.clusters.index(source.cluster)
        key = number, source.value
        if key not in self._places:
            self._places[key] = self._temporary(source.cluster.channels)
            self._writes.setdefault(number, []).append(
                program.Write(self._places[key], source.value)
            )
        rows = self._places[key]
        return replace(rows, first=rows.first + source.first)

    def _temporary(self, channels: int) -> Rows:
        self._temporaries.append(channels)
        return Rows(Temporary(len(self._temporaries) - 1))

    def _rows(self, view: View, reach: int = 0) -> Rows:
        return Rows(
            self._parameter(
                Bound(view.argument, view.offset, view.row_stride, reach, view.image_stride)
            )
        )

    def _parameter(self, bound: Bound) -> Parameter:
        if bound not in self._bound:
            self._bound.append(bound)
        return Parameter(self._bound.index(bound))


def _known_reach(term: Term, channels: int) -> int | None:
    """How far apart taps are, where code for just that is worth having: each row is read for one
    channel only, and taps are so near that their vectors overlap."""
    is_near = 0 < term.reach * (term.taps - 1) < NEAR_FRAMES
    return term.reach if channels == term.groups and term.taps > 1 and is_near else None
