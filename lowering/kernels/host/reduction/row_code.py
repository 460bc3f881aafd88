"""The passes over one row, or over a block of rows that neighbour each other in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Block as IrBlock

from convir.lowering.bodies.rows.program import (
    NEUTRAL,
    SUM,
    Load,
    Number,
    Step,
    operands_of,
)
from convir.lowering.bodies.rows.softmax import exponentials_of_negative
from convir.lowering.kernels.host.code.builder import Value, mask, vector
from convir.lowering.kernels.host.code.combine import across, combine, identity, widened
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.code.scalar_steps import constant, write_step
from convir.lowering.kernels.host.reduction.kept import kept_by
from convir.lowering.kernels.host.vector_functions.table import write_exp_of_negative

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Operation

    from convir.lowering.bodies.rows.program import Access, RowProgram, Store
    from convir.lowering.kernels.host.code.builder import Function
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.reduction.slots import Slot, Slots

CHUNK, COLUMN_CHUNK = 4, 16
"""Numbers that a lane adds up in f32 before their sum is added in f64, along and across rows: along
them, those of several lanes come together first."""


@dataclass
class RowCode:
    """Writes all passes of one item."""

    f: Function
    lanes: Lanes
    program: RowProgram
    block: Slots
    pointers: Mapping[tuple[str, int], Value]
    indices: Sequence[Value]
    """Of the item, along each axis that is not reduced."""
    _rows: dict[int, list[Value]] = field(default_factory=dict[int, "list[Value]"], init=False)
    """What is known of each row: a scalar along rows, a vector of each group across rows."""
    _wide: dict[int, list[Value]] = field(default_factory=dict[int, "list[Value]"], init=False)
    """Sums that are not rounded to f32 yet."""
    _bases: dict[tuple[str, int], Value] = field(
        default_factory=dict["tuple[str, int]", Value], init=False
    )
    _kept: dict[int, Store] = field(default_factory=dict[int, "Store"], init=False)
    """Nodes that an earlier pass left where a result goes."""

    def write(self) -> None:
        """All passes, and what is stored of rows."""
        program = self.program
        for number, node in enumerate(program.nodes):
            if isinstance(node, Load):
                pointer = self.pointers["load", node.source.index]
                self._bases["load", number] = self._base(node.source, pointer)
        for number, store in enumerate(program.stores):
            self._bases["store", number] = self._base(store.target, self.pointers["store", number])
        self._finish_rows(0)
        for number in range(1, program.passes + 1):
            self._pass(number)
            self._finish_rows(number)
        for number, store in enumerate(program.stores):
            if program.of_rows[store.node]:
                self._store_row(number, store)

    # Geometry.

    @cached_property
    def _negative(self) -> frozenset[int]:
        """The exponentials of what is not positive."""
        return exponentials_of_negative(self.program)

    @property
    def _along(self) -> bool:
        return self.program.along_rows

    @property
    def _reduced(self) -> list[int]:
        return [axis for axis, reduced in enumerate(self.program.reduced) if reduced]

    def _base(self, access: Access, pointer: Value) -> Value:
        """Where the item's first element is."""
        counted = [axis for axis, reduced in enumerate(self.program.reduced) if not reduced]
        offset: Value | int = 0
        for axis, index in zip(counted, self.indices, strict=True):
            offset = self.f.add(offset, self.f.mul(index, access.strides[axis]))
        return self.f.element(pointer, offset, self._storage(access).bytes, "base")

    def _storage(self, access: Access) -> Storage:
        return Storage(self.lanes, access.type)

    # A pass.

    def _pass(self, number: int) -> None:
        program, f = self.program, self.f
        reductions = program.reductions_of(number)
        elements = program.elements_of(number, frozenset(self._kept))
        kept = kept_by(program, number, elements, self._kept)
        groups = len(self.block.groups)
        carried: list[Value] = []
        for i in reductions:
            kind = self._wide_type(i)
            start = identity(program.reduction(i).combiner, kind)
            carried += [start] * groups
        outer = [program.sizes[axis] for axis in self._reduced[:-1]]
        if prod(outer) == 1:
            totals = self._along_innermost(number, elements, kept, [], carried)
        else:
            with f.loop("outer", 0, prod(outer), carried=carried, runs=True) as loop:
                rest, indices = loop.index, list[Value]()
                for size in reversed(outer[1:]):
                    indices.append(f.rem(rest, size, "index"))
                    rest = f.div(rest, size, "rest")
                places = [rest, *reversed(indices)]
                loop.carry(
                    *self._along_innermost(number, elements, kept, places, list(loop.carried))
                )
            totals = list(loop.results)
        for i, at in zip(reductions, range(0, len(totals), groups), strict=True):
            self._reduced_rows(i, totals[at : at + groups])
        self._kept.update(kept)

    def _along_innermost(
        self,
        number: int,
        elements: Sequence[int],
        kept: Mapping[int, Store],
        places: Sequence[Value],
        carried: list[Value],
    ) -> list[Value]:
        """The accumulators with all elements along the innermost reduced axis."""
        f = self.f
        step, slots, rest = self.block.steps
        length = self.program.sizes[self._reduced[-1]]
        main = length - length % step
        has_sums = any(
            self.program.reduction(i).combiner == SUM for i in self.program.reductions_of(number)
        )

        def run(index: Value | int, chosen: Sequence[Slot]) -> dict[int, list[Value]]:
            return self._step(number, elements, kept, [*places, index], chosen)

        if rest:
            partial = self._combined(number, run(main, rest), rest)
            carried = self._added(number, carried, partial)
        if not main:
            return carried
        if not self.program.reductions_of(number):
            with f.loop("step", 0, main, step, runs=True) as loop:
                run(loop.index, slots)
            return carried
        turns = main // step
        chunk = CHUNK if self._along else COLUMN_CHUNK
        if not has_sums or turns <= chunk:
            return self._chunk(number, run, 0, main, step, slots, carried)
        with f.loop("chunk", 0, main, chunk * step, carried=carried, runs=True) as loop:
            end = f.minimum(f.add(loop.index, chunk * step), main, "chunk.end")
            loop.carry(*self._chunk(number, run, loop.index, end, step, slots, list(loop.carried)))
        return list(loop.results)

    def _chunk(
        self,
        number: int,
        run: Callable[[Value | int, Sequence[Slot]], dict[int, list[Value]]],
        begin: Value | int,
        end: Value | int,
        step: int,
        slots: Sequence[Slot],
        carried: list[Value],
    ) -> list[Value]:
        """The accumulators with what lies between two places, added up in the element type."""
        f, program = self.f, self.program
        reductions = program.reductions_of(number)
        starts = [
            identity(program.reduction(i).combiner, self.lanes.type)
            for i in reductions
            for _ in slots
        ]
        with f.loop("step", begin, end, step, carried=starts, runs=True) as loop:
            found = run(loop.index, slots)
            following: list[Value] = []
            for k, i in enumerate(reductions):
                own = loop.carried[k * len(slots) : (k + 1) * len(slots)]
                following += [
                    combine(self.f, program.reduction(i).combiner, total, each)
                    for total, each in zip(own, found[i], strict=True)
                ]
            loop.carry(*following)
        totals = {
            i: list(loop.results[k * len(slots) : (k + 1) * len(slots)])
            for k, i in enumerate(reductions)
        }
        return self._added(number, carried, self._combined(number, totals, slots))

    def _combined(
        self, number: int, found: Mapping[int, Sequence[Value]], slots: Sequence[Slot]
    ) -> list[Value]:
        """What the slots of each group have, combined: for each reduction and group."""
        combined: list[Value] = []
        for i in self.program.reductions_of(number):
            combiner = self.program.reduction(i).combiner
            for group in range(len(self.block.groups)):
                values = [
                    each for each, slot in zip(found[i], slots, strict=True) if slot.group == group
                ]
                while len(values) > 1:
                    pairs = [
                        combine(self.f, combiner, a, b)
                        for a, b in zip(values[::2], values[1::2], strict=False)
                    ]
                    values = pairs + values[len(values) // 2 * 2 :]
                combined.append(values[0])
        return combined

    def _added(
        self, number: int, carried: Sequence[Value], partial: Sequence[Value]
    ) -> list[Value]:
        """Accumulators and partial results in one: sums in f64."""
        groups = len(self.block.groups)
        combiners = [
            self.program.reduction(i).combiner
            for i in self.program.reductions_of(number)
            for _ in range(groups)
        ]
        return [
            combine(self.f, combiner, total, widened(self.f, each, total.type))
            for combiner, total, each in zip(combiners, carried, partial, strict=True)
        ]

    # Elements.

    def _step(
        self,
        number: int,
        elements: Sequence[int],
        kept: Mapping[int, Store],
        places: Sequence[Value | int],
        slots: Sequence[Slot],
    ) -> dict[int, list[Value]]:
        """Compute and store the elements of some slots; gives what each reduction combines."""
        program = self.program
        found: dict[int, list[Value]] = {}
        for i in elements:
            node = program.nodes[i]
            if i in self._kept:
                base = self._bases["store", program.stores.index(self._kept[i])]
                target = self._kept[i].target
                found[i] = [self._load(base, target, places, slot) for slot in slots]
            elif isinstance(node, Load):
                base = self._bases["load", i]
                found[i] = [self._load(base, node.source, places, slot) for slot in slots]
                if number > 1 and self._computes(elements):
                    self._fetch_next(base, node.source, places, slots)
            else:
                op = self._op(cast("Step", node))
                operands = [
                    [self._operand(o, found, k, slot) for o in operands_of(node)]
                    for k, slot in enumerate(slots)
                ]
                if program.kind(i) == f32 and i in self._negative:
                    cpu = self.lanes.cpu
                    found[i] = [write_exp_of_negative(self.f, x, cpu) for (x,) in operands]
                else:
                    found[i] = [write_step(self.f, self.lanes, op, each) for each in operands]
        for i, store in kept.items():
            self._store(store, found[i], places, slots)
        for store in program.stores_of(number):
            values = [self._operand(store.node, found, k, slot) for k, slot in enumerate(slots)]
            self._store(store, values, places, slots)
        wanted: dict[int, list[Value]] = {}
        for i in program.reductions_of(number):
            node = program.reduction(i)
            neutral = identity(node.combiner, self.lanes.type)
            wanted[i] = [
                self._masked(self._operand(node.operand, found, k, slot), slot, neutral)
                for k, slot in enumerate(slots)
            ]
        return wanted

    def _masked(self, x: Value, slot: Slot, neutral: Value) -> Value:
        if not self._along or slot.active == self.lanes.count:
            return x
        return self.f.select(mask(self.lanes.count, slot.active), x, neutral, "masked")

    def _operand(
        self, node: int, found: Mapping[int, Sequence[Value]], k: int, slot: Slot
    ) -> Value:
        if node in found:
            return found[node][k]
        known = self._row_value(node, slot.group)
        if known.type.startswith("<") or known.text.startswith("splat"):
            return known
        return self.f.splat(known, self.lanes.count)

    def _load(
        self, base: Value, access: Access, places: Sequence[Value | int], slot: Slot
    ) -> Value:
        storage = self._storage(access)
        address = self._address(base, access, places, slot)
        if access.strides[-1] == 0:
            return self.f.splat(storage.load_scalar(self.f, address), self.lanes.count)
        return storage.load(self.f, address, slot.active)

    def _computes(self, elements: Sequence[int]) -> bool:
        """Whether a pass computes functions, during which memory has nothing to do."""
        steps = [node for i in elements if isinstance(node := self.program.nodes[i], Step)]
        return self._along and any(node.op.kind.name.startswith("math.") for node in steps)

    def _fetch_next(
        self, base: Value, access: Access, places: Sequence[Value | int], slots: Sequence[Slot]
    ) -> None:
        """Fetch the elements of the next item, which its first pass waits for."""
        strides = zip(access.strides, self.program.reduced, strict=True)
        *_, ahead = (0, *(stride for stride, reduced in strides if not reduced))
        if ahead and access.strides[-1]:
            size = self._storage(access).bytes
            for slot in slots:
                address = self._address(base, access, places, slot)
                self.f.prefetch(self.f.offset(address, ahead * size))

    def _store(
        self,
        store: Store,
        values: Sequence[Value],
        places: Sequence[Value | int],
        slots: Sequence[Slot],
    ) -> None:
        base = self._bases["store", self.program.stores.index(store)]
        for x, slot in zip(values, slots, strict=True):
            address = self._address(base, store.target, places, slot)
            self._storage(store.target).store(self.f, x, address, slot.active)

    def _address(
        self, base: Value, access: Access, places: Sequence[Value | int], slot: Slot
    ) -> Value:
        f = self.f
        offset: Value | int = 0
        for axis, index in zip(self._reduced, places, strict=True):
            offset = f.add(offset, f.mul(index, access.strides[axis]))
        offset = f.add(offset, slot.row * access.strides[self._reduced[-1]])
        if not self._along:
            offset = f.add(offset, slot.lane * access.strides[-1])
        return f.element(base, offset, self._storage(access).bytes)

    # Rows.

    def _finish_rows(self, number: int) -> None:
        """Compute what is known of rows after a pass."""
        for i, node in enumerate(self.program.nodes):
            if not self.program.of_rows[i] or self.program.levels[i] != number:
                continue
            if isinstance(node, Load):
                self._rows[i] = self._load_rows(i, node)
            elif isinstance(node, Step):
                groups = range(len(self.block.groups))
                self._rows[i] = [self._row_step(node, group) for group in groups]

    def _load_rows(self, number: int, node: Load) -> list[Value]:
        base, storage = self._bases["load", number], self._storage(node.source)
        if self._along:
            return [storage.load_scalar(self.f, base)]
        if node.source.strides[-1] == 0:
            scalar = storage.load_scalar(self.f, base)
            return [self.f.splat(scalar, self.lanes.count)] * len(self.block.groups)
        return [
            storage.load(self.f, self.f.offset(base, group * self.lanes.count * storage.bytes), n)
            for group, n in enumerate(self.block.groups)
        ]

    def _row_step(self, node: Step, group: int) -> Value:
        """A step on what is known of rows; a sum by a constant is rounded once, as a mean is, and a
        constant by a sum too."""
        f, operands = self.f, operands_of(node)
        operator = {"arith.divf": "fdiv", "arith.mulf": "fmul"}.get(node.op.kind.name)
        wide = [operand for operand in operands if operand in self._wide]
        if operator and len(wide) == 1:
            (total,) = wide
            kind = self._wide[total][group].type
            pair = [self._wide_operand(operand, group, kind) for operand in operands]
            if pair[0] is not None and pair[1] is not None:
                scaled = f.float_binary(operator, pair[0], pair[1], "scaled")
                return f.emit(self._row_type, "rounded", f"fptrunc {scaled} to {self._row_type}")
        values = [self._row_value(operand, group) for operand in operands]
        return write_step(f, self.lanes, self._op(node), values)

    def _wide_operand(self, number: int, group: int, kind: str) -> Value | None:
        """A sum that is not rounded yet, or a constant, in a type; None of anything else."""
        node = self.program.nodes[number]
        if isinstance(node, Number):
            return constant(node.value, kind)
        return self._wide[number][group] if number in self._wide else None

    @property
    def _row_type(self) -> str:
        return self.lanes.scalar if self._along else self.lanes.type

    def _row_value(self, node: int, group: int) -> Value:
        found = self.program.nodes[node]
        if isinstance(found, Number):
            return constant(found.value, self._row_type)
        return self._rows[node][group]

    def _reduced_rows(self, number: int, totals: Sequence[Value]) -> None:
        """What a reduction gives for each row."""
        f, node = self.f, self.program.reduction(number)
        values = [
            across(self.f, node.combiner, total) if self._along else total for total in totals
        ]
        init = self.program.nodes[node.init]
        is_neutral = isinstance(init, Number) and init.value.value.data == NEUTRAL[node.combiner]
        if not is_neutral:
            values = [
                combine(
                    self.f,
                    node.combiner,
                    widened(self.f, self._row_value(node.init, group), value.type),
                    value,
                )
                for group, value in enumerate(values)
            ]
        kind = self._row_type
        if values[0].type != kind:
            self._wide[number] = values
            values = [f.emit(kind, "total", f"fptrunc {value} to {kind}") for value in values]
        self._rows[number] = values

    def _store_row(self, number: int, store: Store) -> None:
        base, storage = self._bases["store", number], self._storage(store.target)
        for group, active in enumerate(self.block.groups):
            value = self._row_value(store.node, group)
            if self._along:
                storage.store_scalar(self.f, value, base)
            else:
                place = self.f.offset(base, group * self.lanes.count * storage.bytes)
                storage.store(self.f, value, place, active)

    # Arithmetic.

    def _wide_type(self, number: int) -> str:
        """Of the accumulators of a whole row."""
        is_sum = self.program.reduction(number).combiner == SUM
        return vector("double" if is_sum else self.lanes.scalar, self.lanes.count)

    def _op(self, node: Step) -> Operation:
        """An op that says what a step computes."""
        block = IrBlock(arg_types=[self.program.kind(operand) for operand in operands_of(node)])
        return node.op.kind.create(
            operands=list(block.args),
            result_types=[node.op.result],
            properties=dict(node.op.properties),
            attributes=dict(node.op.attributes),
        )
