"""A kernel's tensor body as stages on rows of frames.

    convolution, elementwise ops, … ; insert_slice into a window --> PlanarProgram, Binding

Ops are put into clusters: a convolution, or nothing, and the elementwise ops that read its sums at
the same channel and frame. A cluster is a stage, or two where its ops are many. What a later
cluster reads, and is not a result, lies in a temporary. Two convolutions of which only the sum is
read are terms of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator

from convir.analysis.layouts import MAX_PLANAR_CHANNELS
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.analysis.values.zeros import constant_fill_of
from convir.lowering.bodies.contraction.scalar_program import Sum
from convir.lowering.bodies.planar.elementwise import Elementwise, elementwise
from convir.lowering.bodies.planar.program import Binding, PlanarProgram
from convir.lowering.bodies.planar.rows import (
    frame_convolution,
    planar_shape,
    splits_channels,
    static_slice,
)
from convir.lowering.bodies.planar.stages import Cluster, Column, Computed, StageBuilder, Term, View
from convir.lowering.regions.op_groups import ALIASES, FREE

if TYPE_CHECKING:
    from convir.analysis.slices import SliceView
    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.contraction.scalar_program import Term as Scalar
    from convir.lowering.bodies.planar.rows import FrameConvolution
    from convir.lowering.bodies.planar.stages import Source


@dataclass(frozen=True)
class Insertion:
    """A result that is an argument but for some rows and frames."""

    argument: int
    result: int


@dataclass(frozen=True)
class PlanarKernel:
    """A kernel as one launch of a planar program."""

    program: PlanarProgram
    binding: Binding
    insertions: tuple[Insertion, ...]
    """Results whose other elements are an argument's."""


def read_planar(callee: kernel.FuncOp, *, splits: bool = True) -> PlanarKernel | Refusal:
    """The body of `callee` as stages, or why it is none.

    Args:
        callee: the kernel.
        splits: whether many steps on sums are a stage of their own.
    """
    reader = _Reader(len(callee.function_type.inputs), splits)
    for op in callee.body.block.ops:
        refusal = reader.read(op)
        if refusal is not None:
            return refusal
    return reader.finished(cast("Operation", callee.body.block.last_op))


@dataclass
class _Reader:
    inputs: int
    """Arguments of the kernel."""
    splits: bool
    clusters: list[Cluster] = field(default_factory=list[Cluster])
    values: dict[SSAValue, View | Computed] = field(
        default_factory=dict[SSAValue, "View | Computed"]
    )
    inserted: dict[SSAValue, tuple[SSAValue, SliceView]] = field(
        default_factory=dict[SSAValue, "tuple[SSAValue, SliceView]"]
    )
    frames: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Images and frames of everything that is computed."""

    def read(self, op: Operation) -> Refusal | None:
        """Take the next op of the body."""
        if op.has_trait(IsTerminator) or op.name in FREE:
            return None
        if op.name in ALIASES:
            return self._alias(op)
        view = static_slice(op)
        if view is not None:
            return self._slice(view)
        convolution = frame_convolution(op)
        if not isinstance(convolution, Refusal):
            return self._convolution(op, convolution)
        taken = elementwise(op)
        if isinstance(taken, Refusal):
            loops = structured(op)
            reduces = loops is not None and bool(loops.loops_of("reduction"))
            return convolution if reduces else taken
        return self._elementwise(taken)

    def finished(self, returned: Operation) -> PlanarKernel | Refusal:
        """The whole program."""
        if not any(cluster.terms for cluster in self.clusters):
            return Refusal("it holds no convolution along frames")
        if len(self.frames) != 1:
            return Refusal("its results have different numbers of frames")
        ((images, frames),) = self.frames
        insertions: list[Insertion] = []
        results: list[tuple[Computed, View]] = []
        for number, value in enumerate(returned.operands):
            place, source = _whole(value, self.inputs + number), value
            if value in self.inserted:
                source, view = self.inserted[value]
                insertions.append(Insertion(cast("BlockArgument", view.dest).index, number))
                _, channel, frame = cast("tuple[int, int, int]", view.offsets)
                place = place.part(channel, frame)
            computed = self._computed(source)
            if isinstance(computed, Refusal):
                return computed
            results.append((computed, place))
        builder = StageBuilder(self.clusters)
        for computed, place in results:
            builder.result(computed, place)
        program, bound = builder.build(splits=self.splits)
        return PlanarKernel(program, Binding(bound, frames, images), tuple(insertions))

    def _computed(self, value: SSAValue) -> Computed | Refusal:
        """`value` as what all of a cluster computes: the copy of a part, if need be."""
        source = self.source(value)
        if isinstance(source, Refusal) or (isinstance(source, Computed) and source.is_whole):
            return source
        assert not isinstance(source, Column)
        copy = Cluster(source.channels)
        self.clusters.append(copy)
        return Computed(copy, copy.operand(source), 0, source.channels)

    def source(self, value: SSAValue) -> View | Computed | Refusal:
        """Where the rows of `value` come from."""
        if value in self.values:
            return self.values[value]
        if isinstance(value, BlockArgument) and planar_shape(value) is not None:
            return _whole(value, value.index)
        return Refusal("it reads a value that is not a planar tensor of f32")

    def _alias(self, op: Operation) -> Refusal | None:
        if not splits_channels(op):
            return None  # Weights and columns are found through it.
        source = self.source(op.operands[0])
        if isinstance(source, Refusal):
            return source
        self.values[op.results[0]] = source
        return None

    def _slice(self, view: SliceView) -> Refusal | None:
        _, channel, frame = cast("tuple[int, int, int]", view.offsets)
        if view.kind == "insert_slice":
            if not isinstance(view.dest, BlockArgument):
                return Refusal("it inserts into a value that is not an argument")
            self.inserted[view.result] = view.source, view
            return None
        source = self.source(view.source)
        if isinstance(source, Refusal):
            return source
        shape = planar_shape(view.result)
        assert shape is not None
        if isinstance(source, View):
            self.values[view.result] = source.part(channel, frame, shape.channels)
            return None
        if not view.covers(2):
            return Refusal("it reads a computed value at other frames")
        self.values[view.result] = Computed(
            source.cluster, source.value, source.first + channel, shape.channels
        )
        return None

    def _convolution(self, op: Operation, convolution: FrameConvolution) -> Refusal | None:
        source = self.source(convolution.image)
        if isinstance(source, Refusal):
            return source
        filled = constant_fill_of(convolution.weights)
        weights = float(filled.value.data) if filled else _argument(convolution.weights)
        if weights is None:
            return Refusal("its weights are computed")
        if isinstance(source, Computed) and not convolution.reads_one_frame:
            return Refusal("it reads a computed value at other frames")
        if max(convolution.channels, convolution.depth * convolution.groups) > MAX_PLANAR_CHANNELS:
            return Refusal(f"it has more than {MAX_PLANAR_CHANNELS} channels")
        if isinstance(source, View):
            source = source.part(0, convolution.first)
        cluster = Cluster(convolution.channels)
        cluster.terms.append(
            Term(source, weights, convolution.depth, convolution.taps, convolution.groups,
                 convolution.reach)
        )  # fmt: skip
        self.clusters.append(cluster)
        self._define(op.results[0], Computed(cluster, Sum(), 0, convolution.channels))
        return None

    def _elementwise(self, op: Elementwise) -> Refusal | None:
        sources: dict[SSAValue, Source] = {}
        for value in op.aligned:
            source = self.source(value)
            if isinstance(source, Refusal):
                return source
            sources[value] = source
        for value in op.columns:
            argument = _argument(value)
            if argument is None:
                return Refusal("it reads a column that is computed")
            sources[value] = Column(argument)
        shape = planar_shape(op.op.results[0])
        assert shape is not None
        merged = self._merged(op, sources)
        if merged is not None:
            self._define(op.op.results[0], merged)
            return None
        cluster = self._joined(sources, shape.channels)
        terms: dict[SSAValue, Scalar] = {
            value: cluster.operand(source) for value, source in sources.items()
        }
        steps, value = op.steps(terms, len(cluster.steps))
        cluster.steps += steps
        self._define(op.op.results[0], Computed(cluster, value, 0, shape.channels))
        return None

    def _joined(self, sources: dict[SSAValue, Source], channels: int) -> Cluster:
        """The cluster that an elementwise op joins: the last one that it reads, or a new one."""
        read = [source for source in sources.values() if isinstance(source, Computed)]
        if read:
            last = max((source.cluster for source in read), key=self.clusters.index)
            if all(source.is_whole for source in read if source.cluster is last):
                return last
        self.clusters.append(Cluster(channels))
        return self.clusters[-1]

    def _merged(self, op: Elementwise, sources: dict[SSAValue, Source]) -> Computed | None:
        """The sum of two sums as one, if that is what `op` computes and nothing else reads them."""
        both = list(sources.values())
        if not op.is_sum or not all(isinstance(s, Computed) and s.is_whole for s in both):
            return None
        first, last = sorted(
            cast("list[Computed]", both), key=lambda source: self.clusters.index(source.cluster)
        )
        if first.cluster is last.cluster:
            return None
        for cluster in (first.cluster, last.cluster):
            if not cluster.adds_up or any(
                not value.has_one_use()
                for value, source in self.values.items()
                if isinstance(source, Computed) and source.cluster is cluster
            ):
                return None
        self.clusters.remove(first.cluster)
        value = last.cluster.absorb(first, last.value)
        return Computed(last.cluster, value, 0, last.channels)

    def _define(self, value: SSAValue, computed: Computed) -> None:
        self.values[value] = computed
        shape = planar_shape(value)
        assert shape is not None
        self.frames.add((shape.images, shape.frames))


def _whole(value: SSAValue, argument: int) -> View:
    """All rows of a dense planar tensor."""
    shape = planar_shape(value)
    assert shape is not None
    return View(argument, 0, shape.frames, shape.channels * shape.frames, shape.channels)


def _argument(value: SSAValue) -> int | None:
    """The argument whose memory `value` is."""
    while isinstance(value.owner, Operation) and value.owner.name in ALIASES:
        value = value.owner.operands[0]
    return value.index if isinstance(value, BlockArgument) else None
