"""Loops over flat memrefs become CUDA C++: one thread per iteration of the outermost loop.

The text is a translation of the IR, statement by statement; what it calls is in
`arith/scalars.cuh` and `load/vectors.cuh`. Indices are 32-bit where every value that they
take is proved to stay below 2^31, with a block's threads to spare, and 64-bit elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, func, memref, scf, ub, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, VectorType, i1
from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from convir.lowering.loops.cuda.index_range import wide_indices
from convir.lowering.loops.cuda.scalars import ScalarPrinter, function_of, lane_count
from convir.lowering.loops.cuda.teams import THREADS
from convir.lowering.loops.nests import range_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Block, Operation

    from convir.lowering.loops.cuda.teams import Team

INDEX_LIMIT = (1 << 31) - (1 << 22)
"""Positions below this, and those of the threads and teams beyond the range, fit in 32 bits."""

LOOP_THREADS = 128
"""Threads of a block that do not wait for each other, an iteration each: measured faster than
larger blocks, and than fewer threads that stride over the range."""

SHARED_UNROLL = 4
"""Iterations of a team's member whose loads are in flight together."""

NAMED_OPS = 5
"""Operations that the name of a kernel lists."""

UNROLLED_TRIPS = 16
"""Inner loops of at most so many iterations are unrolled, so that their loads are in flight."""


def print_kernel(
    loops: func.FuncOp, symbol: str, *, restrict: bool, team: Team | None = None
) -> str:
    """The CUDA C++ source of a loop function, as one `extern "C"` kernel.

    Neither the range's size nor the function's name is in it, so that loops which differ in
    nothing else, as those over one image or many, are one source.

    Args:
        loops: a function of scf, memref, vector, arith and math ops over flat memrefs. Thread i
            of the grid does iteration i of its range, whose size is the kernel's last argument.
        symbol: the kernel's name, `symbol_of(loops)`.
        restrict: whether no two buffers overlap.
        team: the threads that do an iteration of the range together; None for one alone.

    Raises:
        PassFailedException: an op has no CUDA code.
    """
    block = loops.body.block
    printer = _Printer(wide_indices(loops, range_size(loops), INDEX_LIMIT), team)
    *buffers, begin, end = block.args
    parameters = [printer.parameter(buffer, restrict) for buffer in buffers]
    printer.names[end] = "range"
    printer.line(f"const {printer.type_of(end)} range = size;")
    printer.grid_start = begin
    printer.block(block)
    body = "\n".join(printer.lines)
    signature = f"{symbol}({', '.join([*parameters, 'const long long size'])})"
    headers = [
        "arith/scalars.cuh",
        "load/vectors.cuh",
        *(["reduce/teams.cuh"] if team is not None else []),
    ]
    includes = "".join(f'#include "{header}"\n' for header in headers)
    return f'{includes}\nextern "C" __global__ void {signature} {{\n{body}\n}}\n'


def symbol_of(loops: func.FuncOp) -> str:
    """The name of the kernel of a loop function, by what it computes: `loops_addf_rsqrt`."""
    names = dict.fromkeys(op.name.partition(".")[2] for op in loops.walk() if _computes(op))
    return "_".join(["loops", *list(names)[:NAMED_OPS]])


def _computes(op: Operation) -> bool:
    """Whether an operation is arithmetic on elements, and no mere change of their type."""
    dialect, _, name = op.name.partition(".")
    if dialect not in ("arith", "math") or name.startswith(("constant", "ext", "trunc")):
        return False
    return get_element_type_or_self(op.results[0].type) not in (IndexType(), i1)


@dataclass
class _Printer:
    wide: set[SSAValue]
    team: Team | None = None
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    grid_start: SSAValue | None = None
    scalars: ScalarPrinter = field(init=False)

    def __post_init__(self) -> None:
        self.scalars = ScalarPrinter("int", self.names, self.wide)

    def parameter(self, argument: SSAValue, restrict: bool) -> str:
        name = self._name(argument, "p")
        argument_type = argument.type
        if not isinstance(argument_type, MemRefType):
            return f"const {self.scalars.type_name(argument_type)} {name}"
        element = self.scalars.stored_type(
            cast("MemRefType[Attribute]", argument_type).element_type
        )
        is_written = any(
            isinstance(use.operation, memref.StoreOp | vector.StoreOp) for use in argument.uses
        )
        const = "" if is_written else "const "
        return f"{const}{element} *{'__restrict__ ' if restrict else ''}{name}"

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        match op:
            case func.ReturnOp() | ub.PoisonOp():
                pass
            case scf.ForOp():
                self.loop(op)
            case scf.IfOp():
                self.branch(op)
            case scf.ParallelOp():
                self.share(op)
            case memref.LoadOp():
                self.define(op.res, self.element(op.memref, op.indices))
            case memref.StoreOp():
                self.write(f"{self.element(op.memref, op.indices)} = {self.names[op.value]};")
            case vector.LoadOp():
                address = self.address(op.base, op.indices)
                self.define(op.result, f"convir::load<{lane_count(op.result)}>({address})")
            case vector.StoreOp():
                address = self.address(op.base, op.indices)
                self.write(f"convir::store({address}, {self.vector(op.vector)});")
            case vector.ExtractOp():
                self.names[op.result] = f"{self.names[op.vector]}[{_position(op)}]"
            case vector.InsertOp():
                self.insert(op)
            case vector.BroadcastOp():
                self.names[op.vector] = self.names[op.source]
            case arith.ConstantOp(value=IntegerAttr() as value):
                self.names[op.result] = self.scalars.constant(value)
            case _ if isinstance(op.results[0].type, VectorType):
                self.each_lane(op)
            case _:
                self.define(op.results[0], self.scalars.expression(op))

    def loop(self, op: scf.ForOp) -> None:
        carried: list[str] = []
        for result, init in zip(op.res, op.iter_args, strict=True):
            name = self._name(result, "acc")
            carried.append(name)
            self.line(f"{self.type_of(result)} {name} = {self.vector(init)};")
        induction, *arguments = op.body.block.args
        i = self._name(induction, "i")
        self.names.update(zip(arguments, carried, strict=True))
        stop = self.names[op.ub]
        index = self.type_of(induction)
        if op.lb is self.grid_start and self.team is not None:
            self.share_range(self.team, i, stop, index)
        elif op.lb is self.grid_start:
            first = f"({index})blockIdx.x * {LOOP_THREADS} + (int)threadIdx.x"
            self.line(f"if (const {index} {i} = {first}; {i} < {stop}) {{")
        else:
            trips = self.ranges_trips(op)
            if trips is not None and trips <= UNROLLED_TRIPS:
                self.line("#pragma unroll")
            start, step = self.names[op.lb], self.names[op.step]
            self.line(f"for ({index} {i} = {start}; {i} < {stop}; {i} += {step}) {{")
        self.nested(op.body.block, carried)

    def ranges_trips(self, op: scf.ForOp) -> int | None:
        """The number of iterations of a loop from 0, if it is known."""
        bound = op.ub.owner
        if isinstance(bound, arith.ConstantOp) and isinstance(bound.value, IntegerAttr):
            return bound.value.value.data
        return None

    def share_range(self, team: Team, i: str, stop: str, index: str) -> None:
        """The range, a team an iteration; all threads stay together to its end."""
        members, teams = team.members, team.teams
        own = f"threadIdx.x / {members}" if team.adjacent else f"threadIdx.x % {teams}"
        member = f"threadIdx.x % {members}" if team.adjacent else f"threadIdx.x / {teams}"
        self.line(f"const int team = {own}, member = {member};")
        first, stride = f"({index})blockIdx.x * {teams}", f"({index})gridDim.x * {teams}"
        self.line(f"for ({index} first = {first}; first < {stop}; first += {stride}) {{")
        self.line(f"  const bool writes = member == 0 && first + team < {stop};")
        self.line(f"  const {index} {i} = writes || first + team < {stop} ? first + team : first;")

    def share(self, op: scf.ParallelOp) -> None:
        """A loop whose iterations the members of a team take in turn, and then join."""
        team = self.team
        assert team is not None
        reduce = op.body.block.last_op
        assert isinstance(reduce, scf.ReduceOp)
        results: list[str] = []
        combiners: list[str] = []
        for result, init, region in zip(op.res, op.initVals, reduce.reductions, strict=True):
            combiners.append(self.combiner(region.block))
            results.append(self._name(result, "acc"))
            self.line(f"{self.type_of(result)} {results[-1]} = {self.vector(init)};")
        (induction,) = op.body.block.args
        i = self._name(induction, "i")
        begin, end = self.names[op.lowerBound[0]], self.names[op.upperBound[0]]
        index = self.type_of(induction)
        self.line(f"#pragma unroll {SHARED_UNROLL}")
        self.line(f"for ({index} {i} = {begin} + member; {i} < {end}; {i} += {team.members}) {{")
        self.depth += 1
        for inner in op.body.block.ops:
            if inner is not reduce:
                self.op(inner)
        for name, combiner, value in zip(results, combiners, reduce.args, strict=True):
            self.line(f"{name} = {combiner}({name}, {self.vector(value)});")
        self.depth -= 1
        self.line("}")
        arguments = f"{THREADS}, {team.members}, {str(team.adjacent).lower()}"
        for name, combiner in zip(results, combiners, strict=True):
            self.line(f"{name} = convir::join<{arguments}>({name}, member, {combiner});")

    def combiner(self, block: Block) -> str:
        """A function of two values, as a local one."""
        name = f"combine{len(self.names)}"
        for argument in block.args:
            self._name(argument, "v")
        a, b = (self.names[argument] for argument in block.args)
        kind = self.type_of(block.args[0])
        self.line(f"const auto {name} = [](const {kind} &{a}, const {kind} &{b}) {{")
        self.depth += 1
        for op in block.ops:
            if isinstance(op, scf.ReduceReturnOp):
                self.line(f"return {self.names[op.result]};")
            else:
                self.op(op)
        self.depth -= 1
        self.line("};")
        return name

    def branch(self, op: scf.IfOp) -> None:
        results = [self._name(result, "v") for result in op.output]
        for name, result in zip(results, op.output, strict=True):
            self.line(f"{self.type_of(result)} {name};")
        self.line(f"if ({self.names[op.cond]}) {{")
        self.nested(op.true_region.block, results, close=not op.false_region.blocks)
        if op.false_region.blocks:
            self.line("} else {")
            self.nested(op.false_region.block, results)

    def nested(self, block: Block, targets: list[str], *, close: bool = True) -> None:
        """Print a body; what it yields is assigned to `targets` after all of it is computed."""
        self.depth += 1
        for op in block.ops:
            if not isinstance(op, scf.YieldOp):
                self.op(op)
                continue
            values = [self.vector(value) for value in op.arguments]
            if len(values) > 1:
                values = [
                    self.copy(value, v) for value, v in zip(values, op.arguments, strict=True)
                ]
            for name, value in zip(targets, values, strict=True):
                self.line(f"{name} = {value};")
        self.depth -= 1
        if close:
            self.line("}")

    def copy(self, name: str, value: SSAValue) -> str:
        fresh = f"next{len(self.lines)}"
        self.line(f"const {self.type_of(value)} {fresh} = {name};")
        return fresh

    def insert(self, op: vector.InsertOp) -> None:
        """Set one lane: in place where nobody else asks for the vector as it was."""
        is_new = isinstance(op.dest.owner, ub.PoisonOp)
        if is_new or not op.dest.has_one_use():
            name = self._name(op.result, "v")
            initial = "" if is_new else f" = {self.names[op.dest]}"
            self.line(f"{self.type_of(op.result)} {name}{initial};")
        else:
            self.names[op.result] = self.names[op.dest]
        self.line(f"{self.names[op.result]}[{_position(op)}] = {self.names[op.source]};")

    def each_lane(self, op: Operation) -> None:
        """Compute an op on vectors lane by lane."""
        result = op.results[0]
        lane_names = dict(self.names)
        function = function_of(op)
        read = op.operands if function is None else (*op.operands, function.argument)
        for operand in read:
            if isinstance(operand.type, VectorType) and not _is_broadcast(operand):
                lane_names[operand] = f"{self.names[operand]}[l]"
        name = self._name(result, "v")
        expression = ScalarPrinter("int", lane_names, self.wide).expression(op)
        self.line(f"{self.type_of(result)} {name};")
        self.line("#pragma unroll")
        self.line(f"for (int l = 0; l < {lane_count(result)}; ++l) {name}[l] = {expression};")

    def vector(self, value: SSAValue) -> str:
        """A value where all of it is asked for: a vector of equal lanes is spelled out."""
        name = self.names[value]
        if not _is_broadcast(value):
            return name
        return f"{self.type_of(value)}{{{', '.join([name] * lane_count(value))}}}"

    def type_of(self, value: SSAValue) -> str:
        """The C++ type of a scalar or a vector."""
        scalar = self.scalars.type_of(value)
        if not isinstance(value.type, VectorType):
            return scalar
        return f"convir::Vector<{scalar}, {lane_count(value)}>"

    def element(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        return f"{self.names[buffer]}[{self.names[indices[0]]}]"

    def address(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        return f"{self.names[buffer]} + {self.names[indices[0]]}"

    def write(self, statement: str) -> None:
        """A store, which one member of a team does."""
        self.line(statement if self.team is None else f"if (writes) {statement}")

    def define(self, value: SSAValue, expression: str) -> None:
        self.line(f"const {self.type_of(value)} {self._name(value, 'v')} = {expression};")

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _name(self, value: SSAValue, prefix: str) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[value] = name
        return name


def _is_broadcast(value: SSAValue) -> bool:
    return isinstance(value.owner, vector.BroadcastOp)


def _position(op: vector.ExtractOp | vector.InsertOp) -> int:
    return op.static_position.get_values()[0]
