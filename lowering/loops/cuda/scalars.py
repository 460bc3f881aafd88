"""Scalar arith and math ops as C++ expressions over `arith/scalars.cuh`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    f32,
    i1,
)
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.rounding import is_rounded_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from xdsl.ir import Attribute, SSAValue

_FLOATS: dict[type, str] = {
    Float16Type: "__half",
    BFloat16Type: "__nv_bfloat16",
    Float32Type: "float",
    Float64Type: "double",
}
_INTEGERS = {1: "bool", 8: "signed char", 16: "short", 32: "int", 64: "long long"}
# Index arithmetic stays within its type; integers wrap.
_INDEX_INFIX = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.shli": "<<"}
_WRAPPING = {"arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.shli": "shl"}
_INFIX = {
    "arith.divsi": "/",
    "arith.remsi": "%",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.xori": "^",
    "arith.shrsi": ">>",
}
_UNSIGNED_INFIX = {"arith.divui": "/", "arith.remui": "%", "arith.shrui": ">>"}
_ROUNDED_DIVISIONS = {"arith.floordivsi": "floor_div", "arith.ceildivsi": "ceil_div"}
# A signed i1 is 0 or -1, so that the larger of two is the one that is false.
_BOOLEAN = {
    "arith.addi": "{a} != {b}",
    "arith.subi": "{a} != {b}",
    "arith.muli": "{a} && {b}",
    "arith.andi": "{a} && {b}",
    "arith.ori": "{a} || {b}",
    "arith.xori": "{a} != {b}",
    "arith.maxsi": "{a} && {b}",
    "arith.minsi": "{a} || {b}",
    "arith.maxui": "{a} || {b}",
    "arith.minui": "{a} && {b}",
}
_CHOICES = {
    "arith.maxsi": (">", False),
    "arith.minsi": ("<", False),
    "arith.maxui": (">", True),
    "arith.minui": ("<", True),
}
_FLOAT_INFIX = {"arith.addf": "+", "arith.subf": "-", "arith.mulf": "*", "arith.divf": "/"}
_CALLS = {
    "arith.maxnumf": "fmax",
    "arith.minnumf": "fmin",
    "math.absf": "fabs",
    "math.fma": "fma",
    "math.powf": "pow",
    "math.roundeven": "rint",
    **{
        f"math.{name}": name
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil"),
            *("cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log", "log10"),
            *("log1p", "log2", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        )
    },
}
# These give back an operand, which needs no wider type.
_SELECTING = {"arith.maximumf": "convir::maximum", "arith.minimumf": "convir::minimum"}
_BIT_COUNTS = {
    "math.ctlz": "convir::leading_zeros<{width}>",
    "math.ctpop": "convir::count_ones",
    "math.cttz": "convir::trailing_zeros<{width}>",
}
_COMPARE_INTEGERS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_FIRST_ORDER, _FIRST_UNSIGNED = 2, 6
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
_LEAST_I64 = -(1 << 63)
_F32_EXACT_BITS, _F64_EXACT_BITS = 24, 53


WIDE_INDEX = "long long"
"""The C++ type of an index that 32 bits may not hold, and of one in memory or in a vector."""


def scalar_type(value: SSAValue) -> Attribute:
    """The type of a scalar, or of a lane of a vector."""
    value_type: Attribute = value.type
    if isinstance(value_type, VectorType):
        return cast("VectorType[Attribute]", value_type).element_type
    return value_type


def lane_count(value: SSAValue) -> int:
    """How many lanes a vector has; a scalar has one."""
    value_type: Attribute = value.type
    if isinstance(value_type, VectorType):
        return cast("VectorType[Attribute]", value_type).element_count()
    return 1


@dataclass(frozen=True)
class Function:
    """A function of `arith/functions.cuh`."""

    name: str
    argument: SSAValue


def function_of(op: Operation) -> Function | None:
    """The function that `op` computes with the ops that make its operands, which would branch or
    take several times as many instructions alone; None if there is none.

    It is 1 / (1 + exp(x)) of 1 + exp(x), or of x where 16 bits are kept of it, and 1 + erf(z) of z.
    """
    if not isinstance(op, arith.DivfOp | arith.AddfOp) or scalar_type(op.results[0]) != f32:
        return None
    if isinstance(op, arith.DivfOp):
        x = _operand_of(_added_to_one(op.rhs), "math.exp") if _is_one(op.lhs) else None
        if x is not None and is_rounded_to(op.result, (Float16Type, BFloat16Type)):
            return Function("logistic_to_16_bits", x)
        return None if x is None else Function("inverse_from_one", op.rhs)
    z = _operand_of(_added_to_one(op.result), "math.erf")
    return None if z is None else Function("one_plus_erf", z)


def _added_to_one(value: SSAValue) -> SSAValue | None:
    """What `value` is the sum of 1 and; None if it is no such sum."""
    op = value.owner
    if not isinstance(op, arith.AddfOp):
        return None
    if _is_one(op.lhs):
        return op.rhs
    return op.lhs if _is_one(op.rhs) else None


def _operand_of(value: SSAValue | None, name: str) -> SSAValue | None:
    """The operand of the op `name` that gives a value."""
    owner = None if value is None else value.owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.name == name else None


def _is_one(value: SSAValue) -> bool:
    """Whether a scalar, or each lane of a vector, is the constant 1."""
    owner = value.owner
    while isinstance(owner, vector.BroadcastOp):
        owner = owner.source.owner
    if not isinstance(owner, arith.ConstantOp):
        return False
    number = owner.value
    if isinstance(number, DenseIntOrFPElementsAttr) and number.is_splat():
        return number.get_values()[0] == 1
    return isinstance(number, FloatAttr) and number.value.data == 1


@dataclass
class ScalarPrinter:
    """Writes the expression of a scalar op, given the names of its operands.

    An op on vectors is written for one lane, which is what the names stand for then.
    """

    index: str
    """The C++ type of an index."""
    names: Mapping[SSAValue, str]
    wide: Set[SSAValue] = field(default_factory=frozenset["SSAValue"])
    """The indices that are of type `WIDE_INDEX` although `index` is a narrower one."""

    def type_of(self, value: SSAValue) -> str:
        """The C++ type of a scalar value, or of a lane of a vector.

        Raises:
            PassFailedException: there is none.
        """
        is_wide = value in self.wide or isinstance(value.type, VectorType)
        if is_wide and isinstance(scalar_type(value), IndexType):
            return WIDE_INDEX
        return self.type_name(scalar_type(value))

    def type_name(self, scalar_type: Attribute) -> str:
        """The C++ type of a scalar.

        Raises:
            PassFailedException: there is none.
        """
        if isinstance(scalar_type, IndexType):
            return self.index
        if isinstance(scalar_type, IntegerType):
            name = _INTEGERS.get(scalar_type.bitwidth)
        else:
            name = _FLOATS.get(type(scalar_type))
        if name is None:
            raise PassFailedException(f"scalars of type {scalar_type} have no CUDA code")
        return name

    def stored_type(self, scalar_type: Attribute) -> str:
        """The C++ type of an element of a buffer; an index takes 64 bits there.

        Raises:
            PassFailedException: there is none.
        """
        return WIDE_INDEX if isinstance(scalar_type, IndexType) else self.type_name(scalar_type)

    def expression(self, op: Operation) -> str:
        """The value of the only result of `op`.

        Raises:
            PassFailedException: the op has no CUDA code.
        """
        if isinstance(op, arith.ConstantOp):
            return self.constant(op.value)
        operands = [self.names[operand] for operand in op.operands]
        if op.name == "arith.select":
            return f"{operands[0]} ? {operands[1]} : {operands[2]}"
        if isinstance(op, arith.CmpiOp):
            return self._compare_integers(op)
        if isinstance(op, arith.CmpfOp):
            return self._compare_floats(op)
        found = self._integer(op, operands) or self._cast(op, operands[0]) or self._together(op)
        return found or self._float(op, operands)

    def constant(self, value: Attribute) -> str:
        """A literal.

        Raises:
            PassFailedException: the constant is not a scalar.
        """
        if isinstance(value, IntegerAttr):
            literal = value.value.data
            if cast("IntegerAttr[IntegerType]", value).type == i1:
                return "true" if literal else "false"
            if literal == _LEAST_I64:
                return f"({literal + 1}ll - 1)"
            literal_type = cast("IntegerAttr[IntegerType | IndexType]", value).type
            is_wide = not -(1 << 31) < literal < 1 << 31 or _is_integer(literal_type, 64)
            text = f"{literal}{'ll' if is_wide else ''}"
            if _is_integer(literal_type, 8) or _is_integer(literal_type, 16):
                return f"({self.type_name(literal_type)}){text}"  # Not an int, which C++ adds in.
            return text if literal >= 0 else f"({text})"
        if not isinstance(value, FloatAttr):
            raise PassFailedException(f"a scalar constant {value} has no CUDA code")
        attr = cast("FloatAttr[AnyFloat]", value)
        bits = int.from_bytes(attr.type.pack([attr.value.data]), "little")
        return f"convir::from_bits<{self.type_name(attr.type)}>({bits:#x}ull)"

    def _integer(self, op: Operation, operands: list[str]) -> str | None:
        """An op on integers; None if `op` is none."""
        name, result, result_type = op.name, op.results[0], scalar_type(op.results[0])
        if result_type == i1 and name in _BOOLEAN:
            return _BOOLEAN[name].format(a=operands[0], b=operands[1])
        if name in _WRAPPING:
            if isinstance(result_type, IndexType):
                first = operands[0]
                if any(self.type_of(x) != self.type_of(result) for x in op.operands):
                    first = f"({self.type_of(result)}){first}"
                return f"{first} {_INDEX_INFIX[name]} {operands[1]}"
            return f"convir::{_WRAPPING[name]}({', '.join(operands)})"
        if name in _INFIX:
            return self._converted(result, f"{operands[0]} {_INFIX[name]} {operands[1]}")
        if name in _UNSIGNED_INFIX:
            a, b = map(self._unsigned, op.operands)
            return self._converted(result, f"{a} {_UNSIGNED_INFIX[name]} {b}")
        if name in _ROUNDED_DIVISIONS:
            widest = max(map(self.type_of, (result, *op.operands)), key=len)
            return f"convir::{_ROUNDED_DIVISIONS[name]}<{widest}>({', '.join(operands)})"
        if name == "arith.ceildivui":
            a, b = map(self._unsigned, op.operands)
            return self._converted(result, f"{a} / {b} + ({a} % {b} != 0)")
        if name in _CHOICES:
            sign, is_unsigned = _CHOICES[name]
            a, b = map(self._compared_unsigned, op.operands) if is_unsigned else operands
            return f"{a} {sign} {b} ? {operands[0]} : {operands[1]}"
        if name == "math.absi":
            return f"convir::absolute({operands[0]})"
        if name in _BIT_COUNTS:
            width = _width(result_type)
            function = _BIT_COUNTS[name].format(width=width)
            return self._converted(result, f"{function}({self._unsigned(op.operands[0])})")
        return None

    def _cast(self, op: Operation, operand: str) -> str | None:
        """A conversion; None if `op` is none."""
        result, source = op.results[0], op.operands[0]
        match op.name:
            case "arith.extsi" | "arith.trunci" | "arith.index_cast":
                return self._converted(result, self._signed(source))
            case "arith.extui":
                return self._converted(result, self._unsigned(source))
            case "arith.bitcast":
                return f"convir::bit_cast<{self.type_of(result)}>({operand})"
            case "arith.sitofp":
                return self._from_integer(source, result, self._signed(source), "long long")
            case "arith.uitofp":
                text = self._unsigned(source)
                return self._from_integer(source, result, text, "unsigned long long")
            case "arith.fptosi":
                return self._converted(result, f"(long long)convir::widen({operand})")
            case "arith.fptoui":
                wide = f"(unsigned long long)convir::widen({operand})"
                return self._converted(result, wide)
            case "arith.extf" | "arith.truncf":
                return self._narrow(result, f"convir::widen({operand})")
            case _:
                return None

    def _from_integer(self, source: SSAValue, target: SSAValue, text: str, widest: str) -> str:
        """An integer rounded once."""
        width = _width(scalar_type(source))
        is_half = isinstance(scalar_type(target), Float16Type | BFloat16Type)
        if is_half and width > _F64_EXACT_BITS:
            return self._narrow(target, f"convir::odd_double(({widest}){text})")
        computed = self.type_of(target)
        if is_half:
            computed = "float" if width < _F32_EXACT_BITS else "double"
        return self._narrow(target, f"({computed}){text}")

    def _together(self, op: Operation) -> str | None:
        """What `op` and what makes its operands are one function of; None if they are none."""
        found = function_of(op)
        if found is None or found.argument not in self.names:
            return None
        return f"convir::{found.name}({self.names[found.argument]})"

    def _float(self, op: Operation, operands: list[str]) -> str:
        name, result, result_type = op.name, op.results[0], scalar_type(op.results[0])
        wide = [f"convir::widen({operand})" for operand in operands]
        if name == "math.fma" and isinstance(result_type, Float16Type | BFloat16Type):
            doubles = ", ".join(f"(double){operand}" for operand in wide)
            return self._narrow(result, f"convir::odd_multiply_add({doubles})")
        if name in _SELECTING:
            return f"{_SELECTING[name]}({', '.join(operands)})"
        if name == "math.copysign":
            return f"convir::copy_sign({', '.join(operands)})"
        if name == "math.rsqrt":
            return self._narrow(result, f"1.0 / sqrt((double){wide[0]})")
        if name in _FLOAT_INFIX:
            return self._narrow(result, f"{wide[0]} {_FLOAT_INFIX[name]} {wide[1]}")
        if name == "arith.negf":
            return self._narrow(result, f"-{wide[0]}")
        if name in _CALLS:
            return self._narrow(result, f"{_CALLS[name]}({', '.join(wide)})")
        raise PassFailedException(f"{name} has no CUDA code")

    def _compare_integers(self, op: arith.CmpiOp) -> str:
        predicate = op.predicate.value.data
        a, b = (self.names[operand] for operand in op.operands)
        if predicate >= _FIRST_UNSIGNED:
            a, b = map(self._compared_unsigned, op.operands)
        elif predicate >= _FIRST_ORDER and scalar_type(op.lhs) == i1:
            a, b = b, a  # true is -1, the smaller one
        return f"{a} {_COMPARE_INTEGERS[predicate]} {b}"

    def _compare_floats(self, op: arith.CmpfOp) -> str:
        predicate = op.predicate.value.data
        template = _COMPARE_FLOATS.get(predicate)
        if template is None:
            return "true" if predicate else "false"
        a, b = (f"convir::widen({self.names[operand]})" for operand in op.operands)
        return template.format(a=a, b=b)

    def _converted(self, result: SSAValue, expression: str) -> str:
        """An integer cut to the type of `result`; an i1 is its lowest bit."""
        if scalar_type(result) == i1:
            return f"(({expression}) & 1) != 0"
        return f"({self.type_of(result)})({expression})"

    def _narrow(self, result: SSAValue, expression: str) -> str:
        return f"convir::narrow<{self.type_of(result)}>({expression})"

    def _signed(self, value: SSAValue) -> str:
        name = self.names[value]
        return f"-(int){name}" if scalar_type(value) == i1 else name

    def _compared_unsigned(self, value: SSAValue) -> str:
        """An operand of an unsigned comparison, whose other operand may be a wider index."""
        if isinstance(scalar_type(value), IndexType):
            return f"(unsigned {WIDE_INDEX}){self.names[value]}"
        return self._unsigned(value)

    def _unsigned(self, value: SSAValue) -> str:
        name = self.type_of(value)
        if name == "bool":
            return f"(unsigned){self.names[value]}"
        return f"(unsigned {name.removeprefix('signed ')}){self.names[value]}"


def _is_integer(scalar_type: Attribute, width: int) -> bool:
    return isinstance(scalar_type, IntegerType) and scalar_type.bitwidth == width


def _width(scalar_type: Attribute) -> int:
    return scalar_type.bitwidth if isinstance(scalar_type, IntegerType) else 64
