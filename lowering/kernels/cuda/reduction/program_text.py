"""A program of passes over rows as the structs that `kernel.cuh` is a template of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir import Block

from convir.lowering.bodies.contraction.scalar_program import Result
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.bodies.rows.moments import DEVIATIONS
from convir.lowering.bodies.rows.program import COMBINERS, SUM, Load, Number, Reduction, Step
from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.reduction.totals import (
    alignment,
    largest_bytes,
    region_bytes,
    total_bytes,
    totals_of,
)
from convir.lowering.loops.cuda.scalars import ScalarPrinter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.ir import SSAValue

    from convir.lowering.bodies.rows.program import Access, RowProgram, Store
    from convir.lowering.kernels.cuda.reduction.problem import Rows
    from convir.lowering.kernels.cuda.reduction.totals import Total

_BOTH = {
    SUM: "{a} + {b}",
    "arith.mulf": "{a} * {b}",
    "arith.maximumf": "maximum({a}, {b})",
    "arith.minimumf": "minimum({a}, {b})",
}
_WIDE_OFFSET = 1 << 31


@dataclass(frozen=True)
class ProgramText:
    """Writes the structs."""

    rows: Rows

    @property
    def text(self) -> str:
        """The structs `Program` and `Pass<Program, …>`, in the namespace `convir`."""
        passes = range(1, self._program.passes + 1)
        lines = ["namespace convir {", *self._struct(), *self._places()]
        for number in passes:
            lines += self._pass(number)
        return "\n".join([*lines, *self._ends(), "}  // namespace convir"]) + "\n"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The pointers of a kernel, those that are read before those that are written."""
        reads = [f"const {CPP_TYPES[a.type]}* __restrict__ i{i}" for i, a in self.sources.items()]
        writes = [f"{CPP_TYPES[a.type]}* __restrict__ o{i}" for i, a in self.targets.items()]
        return (*reads, *writes)

    @cached_property
    def sources(self) -> dict[int, Access]:
        """What is read, by argument."""
        nodes = self._program.nodes
        accesses = [node.source for node in nodes if isinstance(node, Load)]
        return {a.index: a for a in sorted(accesses, key=lambda access: access.index)}

    @cached_property
    def targets(self) -> dict[int, Access]:
        """What is written, by result."""
        return {store.target.index: store.target for store in self._program.stores}

    @property
    def _program(self) -> RowProgram:
        return self.rows.program

    @property
    def _element(self) -> str:
        return CPP_TYPES[self._program.element]

    @cached_property
    def _printer(self) -> ScalarPrinter:
        return ScalarPrinter("int", {})

    # The program.

    def _struct(self) -> Iterator[str]:
        rows, program = self.rows, self._program
        passes = range(1, program.passes + 1)
        size = 8 if program.element == "f64" else 4
        words = largest_bytes(program) // size
        yield "struct Program {"
        yield f"  using Element = {self._element};"
        yield f"  static constexpr int kWidth = {rows.width}, kPasses = {program.passes};"
        yield f"  static constexpr int kParts = {rows.parts}, kRun = {rows.run};"
        yield f"  static constexpr unsigned kPositions = {rows.positions};"
        yield f"  static constexpr unsigned kColumns = {rows.columns};"
        yield f"  static constexpr bool kHolds = {'true' if self._held else 'false'};"
        aligned = max(alignment(total_bytes(program, number)) for number in passes)
        yield f"  struct alignas({aligned}) Largest {{ {self._element} words[{words}]; }};"
        yield "  struct Pointers {"
        yield from (f"    {parameter};" for parameter in self.parameters)
        yield "  };"
        yield "  struct Row {"
        yield from (f"    {self._kind(i)} n{i};" for i in self._row_nodes())
        yield "  };"
        yield "  struct Base {"
        for i in self._element_loads():
            yield f"    {self._fixed_type(i) if i in self._fixed else self._pointer_type(i)} x{i};"
        for number, store in enumerate(program.stores):
            if not program.of_rows[store.node]:
                yield f"    {CPP_TYPES[store.target.type]}* y{number};"
        yield "  };"
        yield "  struct Held {"
        yield from (f"    {self._fixed_type(i)} x{i};" for i in self._held)
        yield "  };"
        yield "  template <int kPass>"
        yield "  static constexpr long long before() {"
        yield "    if constexpr (kPass == 1) return 0;"
        yield "    else return before<kPass - 1>() + Pass<Program, kPass - 1>::kRegion;"
        yield "  }"
        signature = "const Pointers& p, unsigned image, unsigned column"
        yield f"  static __device__ __forceinline__ Base base({signature});"
        yield "  static __device__ __forceinline__ void load(Held& h, const Base& b, unsigned at);"
        yield f"  static __device__ __forceinline__ void begin(Row& r, {signature}, int part);"
        yield "  static __device__ __forceinline__ void end(const Row (&known)[kParts],"
        yield f"                                             {signature});"
        yield "};"

    def _places(self) -> Iterator[str]:
        """Where elements of a vector lie, from those of the first one of its row or column on."""
        rows, sizes = self.rows, self._program.sizes
        for number, strides in enumerate(self._strides):
            axes = rows.position_axes
            reach = sum((sizes[a] - 1) * s for a, s in zip(axes, strides, strict=True))
            kind = "long long" if reach >= _WIDE_OFFSET else "int"
            yield f"__device__ __forceinline__ {kind} place{number}(unsigned at) {{"
            scale = f" * {rows.width}" if rows.is_along and rows.width > 1 else ""
            yield f"  unsigned rest = at{scale};"
            yield f"  {kind} place = 0;"
            for i in reversed(range(len(axes))):
                index = f"rest % {sizes[axes[i]]}u" if i else "rest"
                if strides[i]:
                    yield f"  place += static_cast<{kind}>({index}) * {strides[i]};"
                if i:
                    yield f"  rest /= {sizes[axes[i]]}u;"
            yield "  return place;"
            yield "}"

    @cached_property
    def _strides(self) -> tuple[tuple[int, ...], ...]:
        """Those of accesses along the positions of a row, each once."""
        return tuple(dict.fromkeys(self._along(access) for access in self.rows.accesses))

    def _along(self, access: Access) -> tuple[int, ...]:
        return tuple(access.strides[axis] for axis in self.rows.position_axes)

    def _place(self, access: Access) -> str:
        strides = self._along(access)
        return f"place{self._strides.index(strides)}(at)" if any(strides) else "0"

    def _base(self, access: Access) -> str:
        """Where the first element of a row or a column lies."""
        rows = self.rows
        terms = [
            f"a{axis} * {access.strides[axis]}" for axis in rows.outer_axes if access.strides[axis]
        ]
        terms += [
            f"c{axis} * {access.strides[axis]}" for axis in rows.inner_axes if access.strides[axis]
        ]
        return " + ".join(terms) or "0"

    def _indices(self, lane: str = "") -> Iterator[str]:
        """Statements that name the index of a row, and of a column, along each axis."""
        rows, sizes = self.rows, self._program.sizes
        yield from _apart("image", "a", rows.outer_axes, sizes)
        if rows.inner_axes:
            scale = f" * {rows.width}" if rows.width > 1 else ""
            yield f"  const unsigned element = column{scale}{lane};"
            yield from _apart("element", "c", rows.inner_axes, sizes)

    def _ends(self) -> Iterator[str]:
        program = self._program
        signature = "const Pointers& p, unsigned image, unsigned column"
        yield f"__device__ __forceinline__ Program::Base Program::base({signature}) {{"
        yield from self._indices()
        yield "  Base b;"
        for i in self._element_loads():
            access = self._access(i)
            at = f"p.i{access.index} + {self._base(access)}"
            yield f"  b.x{i} = {self._loaded(i, at) if i in self._fixed else at};"
        for number, store in enumerate(program.stores):
            if not program.of_rows[store.node]:
                yield f"  b.y{number} = p.o{store.target.index} + {self._base(store.target)};"
        yield "  return b;"
        yield "}"
        yield (
            "__device__ __forceinline__ void Program::load(Held& h, const Base& b, unsigned at) {"
        )
        for i in self._held:
            yield f"  h.x{i} = {self._loaded(i, f'b.x{i} + {self._place(self._access(i))}')};"
        yield "}"
        yield f"__device__ __forceinline__ void Program::begin(Row& r, {signature}, int part) {{"
        yield from self._indices(f" + part * {self.rows.width // self.rows.parts}")
        for i in self._row_nodes():
            node = program.nodes[i]
            if isinstance(node, Load):
                yield f"  r.n{i} = p.i{node.source.index}[{self._base(node.source)}];"
            elif isinstance(node, Step) and program.levels[i] == 0:
                yield f"  r.n{i} = {self._step(node)};"
        yield "}"
        yield (
            "__device__ __forceinline__ void Program::end(const Row (&known)[kParts], "
            f"{signature}) {{"
        )
        yield from self._row_stores()
        yield "}"

    def _row_stores(self) -> Iterator[str]:
        program, rows = self._program, self.rows
        stores = [store for store in program.stores if program.of_rows[store.node]]
        if not stores:
            return
        yield "  for (int part = 0; part < kParts; ++part) {"
        yield "    const Row& r = known[part];"
        yield from (
            f"  {line}" for line in self._indices(f" + part * {self.rows.width // self.rows.parts}")
        )
        if rows.run > 1 and rows.inner_axes:
            yield f"    if (element % {rows.run} != 0) continue;"
        for store in stores:
            at = self._base(store.target)
            yield f"    p.o{store.target.index}[{at}] = {self._name(store.node)};"
        yield "  }"

    # A pass.

    def _pass(self, number: int) -> Iterator[str]:
        program, rows = self._program, self.rows
        totals = totals_of(program, number)
        row = "Program::Row"
        yield "template <>"
        yield f"struct Pass<Program, {number}> {{"
        yield f"  static constexpr int kOperands = {len(totals)};"
        nbytes = total_bytes(program, number)
        yield f"  static constexpr long long kRegion = {region_bytes(program, number)};"
        yield f"  struct alignas({alignment(nbytes)}) Totals {{"
        yield from (f"    {t.kind}<{self._element}> t{i};" for i, t in enumerate(totals))
        for name, parameter, argument in (
            ("start", "", "{}"),
            ("merge", "const Totals& other", "other.t{}"),
        ):
            calls = " ".join(
                f"t{i}.{name}({argument.format(i if parameter else '')});"
                for i in range(len(totals))
            )
            yield f"    __device__ __forceinline__ void {name}({parameter}) {{ {calls} }}"
        if totals:
            calls = " ".join(f"t{i}.add(x[{i}]);" for i in range(len(totals)))
            yield "    template <int kCount>"
            yield (
                f"    __device__ __forceinline__ void add(const {self._element} "
                f"(&x)[{len(totals)}][kCount]) {{ {calls} }}"
            )
        yield "  };"
        arguments = (
            f"const Program::Held& h, const Program::Base& b, "
            f"const {row} (&known)[{rows.parts}], unsigned at"
        )
        if totals:
            yield (
                f"  static __device__ __forceinline__ void operands({self._element} "
                f"(&x)[{len(totals)}][{rows.width}], {arguments}) {{"
            )
            ends = [
                f"      x[{i}][lane] = convir::widen({self._name(t.operand)});"
                for i, t in enumerate(totals)
            ]
            yield from self._lanes([t.operand for t in totals], ends)
            yield "  }"
        stores = program.stores_of(number)
        yield f"  static __device__ __forceinline__ void store({arguments}) {{"
        if stores:
            numbers = [program.stores.index(store) for store in stores]
            for n, store in zip(numbers, stores, strict=True):
                yield f"    Vector<{CPP_TYPES[store.target.type]}, {rows.width}> s{n};"
            ends = [
                f"      s{n}[lane] = {self._name(s.node)};"
                for n, s in zip(numbers, stores, strict=True)
            ]
            yield from self._lanes([store.node for store in stores], ends)
            yield from (self._store(n, s) for n, s in zip(numbers, stores, strict=True))
        yield "  }"
        yield f"  static __device__ __forceinline__ void finish({row}& r, const Totals& t) {{"
        yield from self._finish(number, totals)
        yield "  }"
        yield "};"

    def _store(self, number: int, store: Store) -> str:
        at = f"b.y{number} + {self._place(store.target)}"
        return f"    store_lanes({at}, s{number});"

    def _finish(self, number: int, totals: Sequence[Total]) -> Iterator[str]:
        program = self._program
        of = {i: f"t.t{k}" for k, total in enumerate(totals) for i in total.reductions}
        for i in self._row_nodes():
            node = program.nodes[i]
            if program.levels[i] != number:
                continue
            if isinstance(node, Reduction):
                yield f"    r.n{i} = {self._reduced(node, of[i])};"
            elif isinstance(node, Step):
                yield f"    r.n{i} = {self._step(node)};"

    def _reduced(self, node: Reduction, total: str) -> str:
        if node.combiner == DEVIATIONS:
            return f"{total}.squares"
        both, init = f"{total}.total()", self._program.nodes[node.init]
        if not isinstance(init, Number) or init.value.value.data != COMBINERS[node.combiner]:
            start = f"convir::widen({self._name(node.init)})"
            both = _BOTH[node.combiner].format(a=start, b=both)
        return f"convir::narrow<{self._printer.type_name(node.kind)}>({both})"

    def _lanes(self, wanted: Sequence[int], ends: Sequence[str]) -> Iterator[str]:
        """What lanes compute of a vector for the nodes `wanted`, and what is done with them."""
        nodes = self._needed(wanted)
        loads = [i for i in nodes if isinstance(self._program.nodes[i], Load)]
        for i in loads:
            if i not in self._held and i not in self._fixed:
                found = self._loaded(i, f"b.x{i} + {self._place(self._access(i))}")
                yield f"    const {self._fixed_type(i)} l{i} = {found};"
        yield "#pragma unroll"
        yield f"    for (int lane = 0; lane < {self.rows.width}; ++lane) {{"
        lanes = self.rows.width // self.rows.parts
        part = "0" if self.rows.parts == 1 else "lane" if lanes == 1 else f"lane / {lanes}"
        yield f"      const Program::Row& r = known[{part}];"
        for i in nodes:
            node = self._program.nodes[i]
            if isinstance(node, Load):
                home = f"h.x{i}" if i in self._held else f"b.x{i}" if i in self._fixed else f"l{i}"
                lane = "" if self.rows.is_uniform(node.source) else "[lane]"
                yield f"      const {self._kind(i)} n{i} = {home}{lane};"
            elif isinstance(node, Step):
                yield f"      const {self._kind(i)} n{i} = {self._step(node)};"
        yield from ends
        yield "    }"

    def _needed(self, wanted: Sequence[int]) -> list[int]:
        """The nodes of elements that others are computed of, in order, those included."""
        program = self._program
        found: set[int] = set()
        pending = list(wanted)
        while pending:
            i = pending.pop()
            if i in found or program.of_rows[i]:
                continue
            found.add(i)
            node = program.nodes[i]
            if isinstance(node, Step):
                pending += [term.step for term in node.op.operands if isinstance(term, Result)]
        return sorted(found)

    # Nodes.

    def _access(self, number: int) -> Access:
        node = self._program.nodes[number]
        assert isinstance(node, Load)
        return node.source

    def _element_loads(self) -> list[int]:
        program = self._program
        nodes = enumerate(program.nodes)
        return [i for i, n in nodes if isinstance(n, Load) and not program.of_rows[i]]

    @cached_property
    def _fixed(self) -> frozenset[int]:
        """The loads that are the same at all positions of a column."""
        found = (i for i in self._element_loads() if not any(self._along(self._access(i))))
        return frozenset(found)

    @cached_property
    def _held(self) -> tuple[int, ...]:
        """The loads that several passes read."""
        program = self._program
        passes = [set(program.elements_of(n)) for n in range(1, program.passes + 1)]
        loads = [i for i in self._element_loads() if i not in self._fixed]
        return tuple(i for i in loads if sum(i in each for each in passes) > 1)

    @property
    def held_bytes(self) -> int:
        """Of what a thread keeps of a position."""
        accesses = [self._access(i) for i in self._held]
        width = self.rows.width
        return sum(
            STORAGE_BYTES[a.type] * (1 if self.rows.is_uniform(a) else width) for a in accesses
        )

    def _row_nodes(self) -> list[int]:
        program = self._program
        nodes = enumerate(program.nodes)
        return [i for i, n in nodes if program.of_rows[i] and not isinstance(n, Number)]

    def _kind(self, number: int) -> str:
        return self._printer.type_name(self._program.kind(number))

    def _pointer_type(self, number: int) -> str:
        return f"const {CPP_TYPES[self._access(number).type]}*"

    def _fixed_type(self, number: int) -> str:
        access = self._access(number)
        element = CPP_TYPES[access.type]
        return element if self.rows.is_uniform(access) else f"Vector<{element}, {self.rows.width}>"

    def _loaded(self, number: int, at: str) -> str:
        uniform = self.rows.is_uniform(self._access(number))
        return f"*({at})" if uniform else f"load_lanes<{self.rows.width}>({at})"

    def _name(self, number: int) -> str:
        node = self._program.nodes[number]
        if isinstance(node, Number):
            return self._printer.constant(node.value)
        return f"r.n{number}" if self._program.of_rows[number] else f"n{number}"

    def _step(self, node: Step) -> str:
        numbers = [term.step for term in node.op.operands if isinstance(term, Result)]
        block = Block(arg_types=[self._program.kind(i) for i in numbers])
        op = node.op.kind.create(
            operands=list(block.args),
            result_types=[node.op.result],
            properties=dict(node.op.properties),
            attributes=dict(node.op.attributes),
        )
        block.add_op(op)
        names: dict[SSAValue, str] = dict(zip(block.args, map(self._name, numbers), strict=True))
        return ScalarPrinter("int", names).expression(op)


def _apart(source: str, name: str, axes: Sequence[int], sizes: Sequence[int]) -> Iterator[str]:
    """Statements that take an index apart: one along each axis, the last one innermost."""
    for place, axis in enumerate(axes):
        inside = prod(sizes[each] for each in axes[place + 1 :])
        index = f"{source} / {inside}u" if inside > 1 else source
        if place:
            index = f"({index}) % {sizes[axis]}u" if sizes[axis] > 1 else "0u"
        yield f"  const long long {name}{axis} = {index};"
