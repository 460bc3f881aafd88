"""Loops over memrefs become CUDA C++: one thread per iteration of the outermost loop.

The text is a translation of the IR, statement by statement; what it calls is in
`templates/scalars.cuh`. Indices are 32-bit where every index that is computed is proved to stay
below 2^31, with a grid's stride to spare, and 64-bit elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
)
from xdsl.ir import SSAValue

from convir.lowering.cuda.index_range import fits
from convir.lowering.cuda.scalars import ScalarPrinter
from convir.lowering.loops.nests import range_size

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Block, Operation

INDEX_LIMIT = (1 << 31) - (1 << 22)
"""Positions below this, and a grid's stride beyond it, are exact in 32 bits."""


def print_kernel(loops: func.FuncOp, *, restrict: bool) -> str:
    """The CUDA C++ source of a loop function, as one `extern "C"` kernel of the same name.

    Args:
        loops: a function of scf, memref, arith and math ops, from `lower_kernel(…, 1)`. Its
            range is fixed: thread i of the grid does the iterations i, i + grid, … of all.
        restrict: whether no two buffers overlap.

    Raises:
        PassFailedException: an op has no CUDA code.
    """
    block = loops.body.block
    printer = _Printer("int" if fits(loops, range_size(loops), INDEX_LIMIT) else "long long")
    *buffers, begin, end = block.args
    parameters = [printer.parameter(buffer, restrict) for buffer in buffers]
    printer.names[end] = str(range_size(loops))
    printer.grid_start = begin
    printer.block(block)
    body = "\n".join(printer.lines)
    signature = f"{symbol_of(loops)}({', '.join(parameters)})"
    return f'#include "scalars.cuh"\n\nextern "C" __global__ void {signature} {{\n{body}\n}}\n'


def symbol_of(loops: func.FuncOp) -> str:
    """The name of the kernel of a loop function, which may hold what no C++ name does."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", loops.sym_name.data)
    return f"_{name}" if name[:1].isdigit() else name


@dataclass
class _Printer:
    index: str
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    grid_start: SSAValue | None = None
    scalars: ScalarPrinter = field(init=False)

    def __post_init__(self) -> None:
        self.scalars = ScalarPrinter(self.index, self.names)

    def parameter(self, argument: SSAValue, restrict: bool) -> str:
        name = self._name(argument, "p")
        argument_type = argument.type
        if not isinstance(argument_type, MemRefType):
            return f"const {self.scalars.type_name(argument_type)} {name}"
        element = self.scalars.stored_type(
            cast("MemRefType[Attribute]", argument_type).element_type
        )
        is_written = any(
            isinstance(use.operation, memref.StoreOp) and use.operation.memref is argument
            for use in argument.uses
        )
        const = "" if is_written else "const "
        return f"{const}{element} *{'__restrict__ ' if restrict else ''}{name}"

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        match op:
            case func.ReturnOp():
                pass
            case scf.ForOp():
                self.loop(op)
            case scf.IfOp():
                self.branch(op)
            case memref.LoadOp():
                self.define(op.res, self.element(op.memref, op.indices))
            case memref.StoreOp():
                self.line(f"{self.element(op.memref, op.indices)} = {self.names[op.value]};")
            case arith.ConstantOp(value=IntegerAttr() as value):
                self.names[op.result] = self.scalars.constant(value)
            case _:
                self.define(op.results[0], self.scalars.expression(op))

    def loop(self, op: scf.ForOp) -> None:
        carried: list[str] = []
        for result, init in zip(op.res, op.iter_args, strict=True):
            name = self._name(result, "acc")
            carried.append(name)
            self.line(f"{self.scalars.type_name(result.type)} {name} = {self.names[init]};")
        induction, *arguments = op.body.block.args
        i = self._name(induction, "i")
        self.names.update(zip(arguments, carried, strict=True))
        stop = self.names[op.ub]
        if op.lb is self.grid_start:
            first = "blockIdx.x * blockDim.x + threadIdx.x"
            stride = "gridDim.x * blockDim.x"
            self.line(
                f"for ({self.index} {i} = ({self.index}){first}; {i} < {stop}; {i} += {stride}) {{"
            )
        else:
            start, step = self.names[op.lb], self.names[op.step]
            self.line(f"for ({self.index} {i} = {start}; {i} < {stop}; {i} += {step}) {{")
        self.nested(op.body.block, carried)

    def branch(self, op: scf.IfOp) -> None:
        results = [self._name(result, "v") for result in op.output]
        for name, result in zip(results, op.output, strict=True):
            self.line(f"{self.scalars.type_name(result.type)} {name};")
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
            values = [self.names[value] for value in op.arguments]
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
        fresh = f"next{len(self.lines)}_{name}"
        self.line(f"const {self.scalars.type_name(value.type)} {fresh} = {name};")
        return fresh

    def element(self, buffer: SSAValue, indices: object) -> str:
        shape = cast("MemRefType[Attribute]", buffer.type).get_shape()
        position = ""
        for index, size in zip(cast("tuple[SSAValue, ...]", indices), shape, strict=True):
            name = self.names[index]
            position = f"({position}) * {size} + {name}" if position else name
        return f"{self.names[buffer]}[{position or 0}]"

    def define(self, value: SSAValue, expression: str) -> None:
        self.line(
            f"const {self.scalars.type_name(value.type)} {self._name(value, 'v')} = {expression};"
        )

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _name(self, value: SSAValue, prefix: str) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[value] = name
        return name
