"""Loops over memrefs become CUDA C++: one thread per iteration of the outermost loop.

The text is a translation of the IR, statement by statement; what it calls is in
`templates/scalars.cuh`. Indices are 32-bit where every buffer and the range, with a grid's stride
to spare, stay below 2^31, and 64-bit elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    i1,
)
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

from convir.lowering.loops.nests import range_size

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Block, Operation

INDEX_LIMIT = (1 << 31) - (1 << 22)
"""Positions below this, and a grid's stride beyond it, are exact in 32 bits."""

_FLOATS: dict[type, str] = {
    Float16Type: "__half",
    BFloat16Type: "__nv_bfloat16",
    Float32Type: "float",
    Float64Type: "double",
}
_INTEGERS = {1: "bool", 8: "signed char", 16: "short", 32: "int", 64: "long long"}
_INFIX = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.divsi": "/",
    "arith.remsi": "%",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.xori": "^",
    "arith.shli": "<<",
    "arith.shrsi": ">>",
}
_UNSIGNED_INFIX = {
    "arith.divui": "/",
    "arith.remui": "%",
    "arith.shrui": ">>",
}
_FLOAT_INFIX = {"arith.addf": "+", "arith.subf": "-", "arith.mulf": "*", "arith.divf": "/"}
_CALLS = {
    "arith.maximumf": "convir::maximum",
    "arith.minimumf": "convir::minimum",
    "arith.maxnumf": "fmax",
    "arith.minnumf": "fmin",
    "math.absf": "fabs",
    "math.ceil": "ceil",
    "math.copysign": "copysign",
    "math.cos": "cos",
    "math.erf": "erf",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.floor": "floor",
    "math.fma": "fma",
    "math.log": "log",
    "math.log2": "log2",
    "math.powf": "pow",
    "math.roundeven": "rint",
    "math.rsqrt": "rsqrt",
    "math.sin": "sin",
    "math.sqrt": "sqrt",
    "math.tanh": "tanh",
    "math.trunc": "trunc",
}
_CHOICES = {
    "arith.maxsi": (">", ""),
    "arith.minsi": ("<", ""),
    "arith.maxui": (">", "unsigned "),
    "arith.minui": ("<", "unsigned "),
}
_COMPARE_INTEGERS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_FIRST_UNSIGNED_COMPARISON = 6
# Ordered comparisons are C's own; an unordered one is the negation of its ordered opposite.
_COMPARE_FLOATS = {
    1: "{a} == {b}",
    2: "{a} > {b}",
    3: "{a} >= {b}",
    4: "{a} < {b}",
    5: "{a} <= {b}",
    6: "({a} < {b} || {a} > {b})",
    7: "({a} == {a} && {b} == {b})",
    8: "!({a} < {b} || {a} > {b})",
    9: "!({a} <= {b})",
    10: "!({a} < {b})",
    11: "!({a} >= {b})",
    12: "!({a} > {b})",
    13: "{a} != {b}",
    14: "!({a} == {a} && {b} == {b})",
}


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
    wide = any(_elements(argument.type) >= INDEX_LIMIT for argument in block.args)
    index = "long long" if wide or range_size(loops) >= INDEX_LIMIT else "int"
    printer = _Printer(index)
    *buffers, begin, end = block.args
    parameters = [printer.parameter(buffer, restrict) for buffer in buffers]
    printer.names[end] = str(range_size(loops))
    printer.grid_start = begin
    printer.block(block)
    body = "\n".join(printer.lines)
    signature = f"{loops.sym_name.data}({', '.join(parameters)})"
    return f'#include "scalars.cuh"\n\nextern "C" __global__ void {signature} {{\n{body}\n}}\n'


def _elements(argument_type: Attribute) -> int:
    if not isinstance(argument_type, MemRefType):
        return 1
    return prod(cast("MemRefType[Attribute]", argument_type).get_shape())


@dataclass
class _Printer:
    index: str
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    grid_start: SSAValue | None = None

    def parameter(self, argument: SSAValue, restrict: bool) -> str:
        name = self._name(argument, "p")
        argument_type = argument.type
        if not isinstance(argument_type, MemRefType):
            return f"const {self.type_name(argument_type)} {name}"
        element = self.type_name(cast("MemRefType[Attribute]", argument_type).element_type)
        is_written = any(
            isinstance(use.operation, memref.StoreOp) and use.operation.memref is argument
            for use in argument.uses
        )
        const = "" if is_written else "const "
        return f"{const}{element} *{'__restrict__ ' if restrict else ''}{name}"

    def type_name(self, scalar_type: Attribute) -> str:
        if isinstance(scalar_type, IndexType):
            return self.index
        if isinstance(scalar_type, IntegerType):
            name = _INTEGERS.get(scalar_type.bitwidth)
        else:
            name = _FLOATS.get(type(scalar_type))
        if name is None:
            raise PassFailedException(f"scalars of type {scalar_type} have no CUDA code")
        return name

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
                self.names[op.result] = self.constant(value)
            case _:
                self.define(op.results[0], self.expression(op))

    def loop(self, op: scf.ForOp) -> None:
        carried: list[str] = []
        for result, init in zip(op.res, op.iter_args, strict=True):
            name = self._name(result, "acc")
            carried.append(name)
            self.line(f"{self.type_name(result.type)} {name} = {self.names[init]};")
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
            self.line(f"{self.type_name(result.type)} {name};")
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
        self.line(f"const {self.type_name(value.type)} {fresh} = {name};")
        return fresh

    def element(self, buffer: SSAValue, indices: object) -> str:
        shape = cast("MemRefType[Attribute]", buffer.type).get_shape()
        position = ""
        for index, size in zip(cast("tuple[SSAValue, ...]", indices), shape, strict=True):
            name = self.names[index]
            position = f"({position}) * {size} + {name}" if position else name
        return f"{self.names[buffer]}[{position or 0}]"

    def expression(self, op: Operation) -> str:
        name = op.name
        if isinstance(op, arith.ConstantOp):
            return self.constant(op.value)
        operands = [self.names[operand] for operand in op.operands]
        result_type = op.results[0].type
        if name in _INFIX:
            return self._cast(result_type, f"{operands[0]} {_INFIX[name]} {operands[1]}")
        if name in _UNSIGNED_INFIX:
            a, b = (self._unsigned(value) for value in op.operands)
            return self._cast(result_type, f"{a} {_UNSIGNED_INFIX[name]} {b}")
        if name in _CHOICES:
            sign, prefix = _CHOICES[name]
            a, b = (self._unsigned(v) for v in op.operands) if prefix else operands
            return f"{a} {sign} {b} ? {operands[0]} : {operands[1]}"
        if name in ("arith.floordivsi", "arith.ceildivsi"):
            function = "floor_div" if name == "arith.floordivsi" else "ceil_div"
            return f"convir::{function}({operands[0]}, {operands[1]})"
        if name == "arith.select":
            return f"{operands[0]} ? {operands[1]} : {operands[2]}"
        if isinstance(op, arith.CmpiOp):
            predicate = op.predicate.value.data
            a, b = operands
            if predicate >= _FIRST_UNSIGNED_COMPARISON:
                a, b = (self._unsigned(value) for value in op.operands)
            return f"{a} {_COMPARE_INTEGERS[predicate]} {b}"
        return self.float_expression(op, operands)

    def float_expression(self, op: Operation, operands: list[str]) -> str:
        name, result_type = op.name, op.results[0].type
        wide = [f"convir::widen({operand})" for operand in operands]
        if isinstance(op, arith.CmpfOp):
            template = _COMPARE_FLOATS.get(op.predicate.value.data)
            if template is None:
                return "true" if op.predicate.value.data else "false"
            return template.format(a=wide[0], b=wide[1])
        if name in _FLOAT_INFIX:
            return self._narrow(result_type, f"{wide[0]} {_FLOAT_INFIX[name]} {wide[1]}")
        if name == "arith.negf":
            return self._narrow(result_type, f"-{wide[0]}")
        if name in _CALLS:
            return self._narrow(result_type, f"{_CALLS[name]}({', '.join(wide)})")
        if name in ("arith.extf", "arith.truncf"):
            return self._narrow(result_type, wide[0])
        if name in ("arith.extsi", "arith.trunci", "arith.index_cast"):
            return self._cast(result_type, operands[0])
        if name == "arith.extui":
            return self._cast(result_type, self._unsigned(op.operands[0]))
        if name == "arith.sitofp":
            return self._narrow(result_type, f"({self._computed(result_type)}){operands[0]}")
        if name == "arith.uitofp":
            source = self._unsigned(op.operands[0])
            return self._narrow(result_type, f"({self._computed(result_type)}){source}")
        if name in ("arith.fptosi", "arith.fptoui"):
            return self._cast(result_type, wide[0])
        raise PassFailedException(f"{name} has no CUDA code")

    def constant(self, value: Attribute) -> str:
        if isinstance(value, IntegerAttr):
            literal = value.value.data
            if cast("IntegerAttr[IntegerType]", value).type == i1:
                return "true" if literal else "false"
            text = str(literal) if -(1 << 31) < literal < 1 << 31 else f"{literal}ll"
            return text if literal >= 0 else f"({text})"
        if not isinstance(value, FloatAttr):
            raise PassFailedException(f"a scalar constant {value} has no CUDA code")
        attr = cast("FloatAttr[AnyFloat]", value)
        bits = int.from_bytes(attr.type.pack([attr.value.data]), "little")
        return f"convir::from_bits<{self.type_name(attr.type)}>({bits:#x}ull)"

    def define(self, value: SSAValue, expression: str) -> None:
        self.line(f"const {self.type_name(value.type)} {self._name(value, 'v')} = {expression};")

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _name(self, value: SSAValue, prefix: str) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[value] = name
        return name

    def _cast(self, scalar_type: Attribute, expression: str) -> str:
        return f"({self.type_name(scalar_type)})({expression})"

    def _narrow(self, scalar_type: Attribute, expression: str) -> str:
        return f"convir::narrow<{self.type_name(scalar_type)}>({expression})"

    def _computed(self, scalar_type: Attribute) -> str:
        return "double" if isinstance(scalar_type, Float64Type) else "float"

    def _unsigned(self, value: SSAValue) -> str:
        name = self.type_name(value.type)
        if name == "bool":
            return self.names[value]
        unsigned = name.replace("signed ", "") if name.startswith("signed") else name
        return f"(unsigned {unsigned}){self.names[value]}"
