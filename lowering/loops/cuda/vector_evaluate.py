"""The elements at many indices of a tensor value at once: one for each lane of a vector.

What does not depend on the lane is computed once. Where a condition differs between lanes, those
that agree are computed together, so that an element which is only sometimes read never is in vain.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, memref, tensor, ub, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, VectorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from convir.lowering.loops.cuda.accesses import Access, accesses, runs
from convir.lowering.loops.cuda.lane_ops import index_op
from convir.lowering.loops.evaluate import Evaluator, needed_ops, static_shape
from convir.lowering.loops.indices import Flags, Lanes
from convir.lowering.loops.pointwise import on_scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xdsl.builder import Builder
    from xdsl.dialects.builtin import MemRefType
    from xdsl.ir import Attribute, Block, BlockArgument

    from convir.analysis.structured import Structured
    from convir.lowering.loops.cuda.lanes import LaneBuilder
    from convir.lowering.loops.evaluate import Rule, Value
    from convir.lowering.loops.indices import Condition, Index


UNROLLED_WINDOW = 32
"""Windows of at most so many elements are unrolled where the code is built."""


class VectorEvaluator(Evaluator):
    """Emits the elements of a kernel body's tensors for the active lanes of `lane`.

    Buffers are flat memrefs, so that runs of lanes may cross rows.
    """

    def __init__(
        self,
        builder: Builder,
        lane: LaneBuilder,
        buffers: dict[SSAValue, SSAValue],
        rules: Mapping[str, Rule],
    ) -> None:
        super().__init__(builder, lane, buffers, rules)
        self.lane = lane
        self._covers: dict[SSAValue, tuple[int, ...]] = {}
        self.runs = 0
        """How many runs of consecutive elements the accesses of a thread are made of."""
        self.strides = False
        """Whether some access takes elements that all lie the same distance apart, but not 1."""

    def element(self, value: SSAValue, indices: list[Index]) -> SSAValue:
        """The elements of `value` at `indices`: a vector where they differ between lanes."""
        return super().element(value, [self.lane.restricted(index) for index in indices])

    def _element(self, value: SSAValue, indices: list[Index]) -> SSAValue:
        buffer = self.buffers.get(value)
        if buffer is None:
            return super()._element(value, indices)
        return self._load(buffer, self.at.linearize(indices, static_shape(value)))

    def store(self, value: SSAValue, buffer: SSAValue, position: Index) -> None:
        """Write `value` to the flat `position` of a buffer."""
        position = self.lane.restricted(position)
        if not isinstance(position, Lanes):
            self.builder.insert(memref.StoreOp.get(value, buffer, [self.at.value(position)]))
            return
        self._count(position)
        scalars = self._scalars(value)
        for access in accesses(position.terms, self.lane, self._element_type(buffer)):
            at = [self.lane.scalar(access.start)]
            values = [scalars[lanes[-1]] for lanes in access.lanes]
            if len(values) == 1:
                self.builder.insert(memref.StoreOp.get(values[0], buffer, at))
            else:
                self.builder.insert(vector.StoreOp(self._vector(values), buffer, at))

    def emit(self, op: Operation) -> SSAValue:
        """Insert `op`, unless the same is computed already; returns its first result."""
        if not isinstance(op.result_types[0], VectorType):
            return super().emit(op)
        # The same vector may belong to other lanes elsewhere.
        result = self.at.numbers.emit(self.builder, op, self.lane.active)
        self._covers.setdefault(result, self.lane.active)
        return result

    def data(self, value: Value) -> SSAValue:
        """A value of a body as an operand of the ops that compute with it."""
        if isinstance(value, Lanes):
            terms = self.lane.terms(value)
            return self._packed([self.lane.scalar(term) for term in terms])
        if isinstance(value, Flags):
            flags = self.lane.flags(value)
            return self._packed([self._boolean(flag) for flag in flags])
        covers = self._covers.get(value)
        if covers is None or covers == self.lane.active:
            return value
        return self._packed([self._lane(value, covers.index(i)) for i in self.lane.active])

    def index_value(self, index: Index) -> Value:
        """What a body that asks for a loop's index gets."""
        index = self.lane.restricted(index)
        return index if isinstance(index, Lanes) else self.at.value(index)

    def as_index(self, value: Value) -> Index:
        """A value that a body computes, as an index into a tensor."""
        if isinstance(value, Lanes):
            return self.lane.restricted(value)
        scalar = self.data(value)
        if isinstance(scalar.type, VectorType):
            return self.lane.lanes_from([(lane, 0) for lane in self._scalars(scalar)])
        op = scalar.owner
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return op.value.value.data
        return scalar

    def pointwise(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        """An op of arith or math on tensors, on the lanes of its operands."""
        return self._on_vectors(on_scalars(op, operands))

    def region_scalar(
        self,
        value: SSAValue,
        block: Block,
        known: dict[SSAValue, Value],
        argument: Callable[[BlockArgument], Value],
    ) -> Value:
        """A scalar of a body; what one side of a select reads is read where it is selected."""
        needed = needed_ops(value, block, known)
        deferred: dict[SSAValue, tensor.ExtractOp] = {
            op.result: op for op in _selected_reads(needed)
        }

        def computed(op: Operation) -> Sequence[Value]:
            return self._computed(op, self._operands(op, block, known, argument))

        def side(operand: SSAValue) -> SSAValue:
            read = deferred.get(operand)
            if read is not None:
                return self.data(computed(read)[0])
            return self.data(self._operand(operand, block, known, argument))

        for op in needed:
            if op.results[0] in deferred:
                continue
            if not any(operand in deferred for operand in op.operands):
                known.update(zip(op.results, computed(op), strict=True))
                continue
            condition = self._condition(self._operand(op.operands[0], block, known, argument))
            for operand in op.operands[1:]:
                if operand not in deferred:
                    self._operand(operand, block, known, argument)  # Known before it is chosen.
            known[op.results[0]] = self.choose(
                condition, lambda op=op: side(op.operands[1]), lambda op=op: side(op.operands[2])
            )
        return self._operand(value, block, known, argument)

    def choose(
        self,
        condition: Condition,
        if_true: Callable[[], SSAValue],
        if_false: Callable[[], SSAValue],
    ) -> SSAValue:
        """One of two values in each lane, computing only the one that is asked for."""
        flags = self.lane.flags(condition) if isinstance(condition, Flags) else ()
        condition = self.lane.condition(flags) if flags else condition
        if isinstance(condition, bool):
            return if_true() if condition else if_false()
        if not isinstance(condition, Flags):
            return super().choose(
                condition, lambda: self._wide(if_true()), lambda: self._wide(if_false())
            )
        groups: dict[SSAValue | bool, list[int]] = {}
        for lane, flag in zip(self.lane.active, flags, strict=True):
            groups.setdefault(flag, []).append(lane)
        scalars: dict[int, SSAValue] = {}
        for flag, lanes in groups.items():
            with self.lane.only(tuple(lanes)):
                chosen = self.choose(flag, if_true, if_false)
                scalars.update(zip(lanes, self._scalars(chosen), strict=True))
        return self._packed([scalars[lane] for lane in self.lane.active])

    def loop(
        self,
        bound: int,
        inits: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """A loop over [0, bound) that carries `inits`."""

        def bounded(index: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            self.lane.ranges.bound(index, 0, max(0, bound - 1))
            self._cover(carried)
            return body(index, carried)

        results = super().loop(bound, inits, bounded)
        self._cover(results)
        return results

    def _reduce(
        self,
        view: Structured,
        loops: list[Index | None],
        reductions: list[int],
        carried: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        if not any(isinstance(loop, Lanes) for loop in loops):
            return super()._reduce(view, loops, reductions, carried)
        values = [self._wide(value) for value in carried]
        bounds = [view.bounds[loop] for loop in reductions]
        if not reductions or None in bounds or prod(cast("list[int]", bounds)) > UNROLLED_WINDOW:
            return [self._wide(value) for value in super()._reduce(view, loops, reductions, values)]
        loop, *rest = reductions
        for index in range(cast("int", view.bounds[loop])):
            # Known indices: neighbouring windows read the same elements, which are loaded once.
            inner = [*loops[:loop], index, *loops[loop + 1 :]]
            values = [self._wide(value) for value in self._reduce(view, inner, rest, values)]
        return values

    def _scalar_op(self, op: Operation, operands: Sequence[Value]) -> Value:
        if any(not isinstance(operand, SSAValue) for operand in operands):
            found = index_op(self.lane, op, [self._as_operand(operand) for operand in operands])
            if isinstance(found, bool):
                return self._boolean(found)
            if found is not None:
                return self.at.value(found) if isinstance(found, int) else found
        scalars = map(self.data, operands)
        return self._on_vectors(op.clone(dict(zip(op.operands, scalars, strict=True))))

    def _as_operand(self, operand: Value) -> Value | int:
        if isinstance(operand, SSAValue) and isinstance(operand.type, IndexType):
            index = self.as_index(operand)
            return index if isinstance(index, int | Lanes) else operand
        return operand

    def _on_vectors(self, op: Operation) -> SSAValue:
        """Emit `op`, which is in no block, on as many lanes as the widest of its operands has."""
        if not any(isinstance(operand.type, VectorType) for operand in op.operands):
            return self.emit(op)
        size = len(self.lane.active)
        wide = type(op).create(
            operands=[self._wide(operand) for operand in op.operands],
            result_types=[VectorType(result.type, [size]) for result in op.results],
            properties=op.properties,
            attributes=op.attributes,
        )
        op.erase()
        return self.emit(wide)

    def _load(self, buffer: SSAValue, position: Index) -> SSAValue:
        if not isinstance(position, Lanes):
            return self.emit(memref.LoadOp.get(buffer, [self.at.value(position)]))
        element_type = self._element_type(buffer)
        scalars: dict[int, SSAValue] = {}
        self._count(position)
        filled = cast("MemRefType[Attribute]", buffer.type).element_count()
        for access in accesses(position.terms, self.lane, element_type, max(1, filled)):
            loaded = self._load_run(buffer, access, element_type)
            for value, lanes in zip(loaded, access.lanes, strict=True):
                scalars.update((lane, value) for lane in lanes)
        return self._packed([scalars[i] for i in range(len(position.terms))])

    def _count(self, position: Lanes) -> None:
        count = runs(position.terms)
        self.runs += count
        one_base = len({base for base, _ in position.terms}) == 1
        self.strides |= one_base and count == len(position.terms)

    def _load_run(
        self, buffer: SSAValue, access: Access, element_type: Attribute
    ) -> list[SSAValue]:
        at = [self.lane.scalar(access.start)]
        size = len(access.lanes)
        if size == 1:
            return [self.at.numbers.emit(self.builder, memref.LoadOp.get(buffer, at))]
        load = vector.LoadOp(buffer, at, VectorType(element_type, [size]))
        run = self.at.numbers.emit(self.builder, load)
        return [self._lane(run, i) for i in range(size)]

    def _element_type(self, buffer: SSAValue) -> Attribute:
        return cast("MemRefType[Attribute]", buffer.type).element_type

    def _condition(self, value: Value) -> Condition:
        if isinstance(value, Lanes):
            raise PassFailedException("a condition that is an index")
        if isinstance(value, Flags):
            return value
        scalar = self.data(value)
        if isinstance(scalar.type, VectorType):
            return Flags(self.lane.active, tuple(self._scalars(scalar)))
        return scalar

    def _boolean(self, flag: SSAValue | bool) -> SSAValue:
        return self.constant(IntegerAttr(int(flag), i1)) if isinstance(flag, bool) else flag

    def _cover(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            if isinstance(value.type, VectorType):
                self._covers[value] = self.lane.active

    def _wide(self, value: SSAValue) -> SSAValue:
        """`value` in every active lane, as a vector; a scalar where one lane is active."""
        value = self.data(value)
        if isinstance(value.type, VectorType) or len(self.lane.active) < 2:
            return value
        return self.emit(vector.BroadcastOp(value, VectorType(value.type, [len(self.lane.active)])))

    def _scalars(self, value: SSAValue) -> list[SSAValue]:
        """`value` in each active lane."""
        value = self.data(value)
        size = max(1, len(self.lane.active))
        if not isinstance(value.type, VectorType):
            return [value] * size
        return [self._lane(value, i) for i in range(size)]

    def _lane(self, value: SSAValue, position: int) -> SSAValue:
        op = value.owner
        if isinstance(op, vector.BroadcastOp):
            return op.source
        while isinstance(op, vector.InsertOp):
            if op.static_position.get_values() == (position,):
                return op.source
            op = op.dest.owner
        element_type = cast("VectorType[IntegerType]", value.type).element_type
        extract = vector.ExtractOp(value, [position], element_type)
        return self.at.numbers.emit(self.builder, extract)

    def _packed(self, scalars: Sequence[SSAValue]) -> SSAValue:
        """The given scalars, one for each active lane; a scalar where all are the same."""
        if all(scalar is scalars[0] for scalar in scalars):
            return scalars[0]
        result = self._vector(scalars)
        self._covers[result] = self.lane.active
        return result

    def _vector(self, scalars: Sequence[SSAValue]) -> SSAValue:
        source = _vector_of(scalars)
        if source is not None:
            return source
        vector_type = VectorType(scalars[0].type, [len(scalars)])
        if all(scalar is scalars[0] for scalar in scalars):
            broadcast = vector.BroadcastOp(scalars[0], vector_type)
            return self.at.numbers.emit(self.builder, broadcast)
        poison = ub.PoisonOp(vector_type)
        result: SSAValue = self.builder.insert(poison).result
        for i, scalar in enumerate(scalars):
            # Not numbered: no two vectors share one that is being filled.
            result = self.builder.insert(vector.InsertOp(scalar, result, [i])).result
        return result


def _vector_of(scalars: Sequence[SSAValue]) -> SSAValue | None:
    """The vector whose lanes are `scalars`, in order; None if there is none."""
    first = scalars[0].owner
    if not isinstance(first, vector.ExtractOp):
        return None
    source = first.vector
    if source.type != VectorType(scalars[0].type, [len(scalars)]):
        return None
    for i, scalar in enumerate(scalars):
        op = scalar.owner
        if not isinstance(op, vector.ExtractOp) or op.vector is not source:
            return None
        if op.static_position.get_values() != (i,):
            return None
    return source


def _selected_reads(ops: Sequence[Operation]) -> Iterator[tensor.ExtractOp]:
    """The elements that are read only for one side of a select."""
    for op in ops:
        if op.name != "arith.select":
            continue
        for operand in op.operands[1:]:
            if isinstance(operand.owner, tensor.ExtractOp) and operand.has_one_use():
                yield operand.owner
