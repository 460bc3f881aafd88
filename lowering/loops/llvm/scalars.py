"""Scalar arith and math ops in the LLVM dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    f32,
    f64,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.rounding import EXACT
from convir.lowering.kernels.host.vector_functions.table import FUNCTIONS, symbol
from convir.lowering.loops.llvm.half import HalfConverter, icmp_predicate, is_half
from convir.lowering.loops.llvm.odd_rounding import F64_EXACT_BITS, OddRounding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

_INTEGER: dict[str, type[Operation]] = {
    "arith.addi": llvm.AddOp,
    "arith.subi": llvm.SubOp,
    "arith.muli": llvm.MulOp,
    "arith.divui": llvm.UDivOp,
    "arith.divsi": llvm.SDivOp,
    "arith.remui": llvm.URemOp,
    "arith.remsi": llvm.SRemOp,
    "arith.andi": llvm.AndOp,
    "arith.ori": llvm.OrOp,
    "arith.xori": llvm.XOrOp,
    "arith.shli": llvm.ShlOp,
    "arith.shrui": llvm.LShrOp,
    "arith.shrsi": llvm.AShrOp,
}
_INTEGER_CHOICE = {
    "arith.maxsi": "sgt",
    "arith.minsi": "slt",
    "arith.maxui": "ugt",
    "arith.minui": "ult",
}
_FLOAT: dict[str, type[Operation]] = {
    "arith.addf": llvm.FAddOp,
    "arith.subf": llvm.FSubOp,
    "arith.mulf": llvm.FMulOp,
    "arith.divf": llvm.FDivOp,
    "arith.negf": llvm.FNegOp,
}
# LLVM's intrinsics with the meaning of the op, each overloaded on its type. Those that no
# instruction does become calls of the C library's function, unless `vector_functions` has one.
_INTRINSICS = {
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
    "math.absf": "fabs",
    "math.ceil": "ceil",
    "math.copysign": "copysign",
    "math.cos": "cos",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.floor": "floor",
    "math.fma": "fma",
    "math.log": "log",
    "math.log10": "log10",
    "math.log2": "log2",
    "math.powf": "pow",
    "math.round": "round",
    "math.roundeven": "roundeven",
    "math.sin": "sin",
    "math.sqrt": "sqrt",
    "math.tanh": "tanh",
    "math.trunc": "trunc",
}
_BIT_INTRINSICS = {
    "math.absi": ("abs", True),
    "math.ctlz": ("ctlz", True),
    "math.ctpop": ("ctpop", False),
    "math.cttz": ("cttz", True),
}
"""Integer intrinsics; whether they ask if zero (or the least integer) is undefined: it is not."""
# Functions of the C library: the name for f64; that for f32 ends with an f.
_LIBRARY = {
    "math.acos": "acos",
    "math.acosh": "acosh",
    "math.asin": "asin",
    "math.asinh": "asinh",
    "math.atan": "atan",
    "math.atan2": "atan2",
    "math.atanh": "atanh",
    "math.cbrt": "cbrt",
    "math.cosh": "cosh",
    "math.erf": "erf",
    "math.expm1": "expm1",
    "math.log1p": "log1p",
    "math.sinh": "sinh",
    "math.tan": "tan",
}
F32_EXACT_BITS = 24
"""Integers of so many bits are exact in f32."""
# The integer comparisons and float comparisons in the order of the arith dialect's numbers.
_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def storage_type(scalar_type: Attribute) -> Attribute:
    """The type of a scalar in registers and in memory: i64 for index, i16 for f16 and bf16."""
    if isinstance(scalar_type, IndexType):
        return i64
    return i16 if is_half(scalar_type) else scalar_type


@dataclass
class ScalarConverter:
    """Emits the LLVM ops of scalar ops; values of f16 and bf16 are 16-bit patterns."""

    emit: Callable[[Operation], SSAValue]
    f16_in_hardware: bool
    library: dict[str, llvm.LLVMFunctionType] = field(
        default_factory=dict[str, llvm.LLVMFunctionType]
    )
    """The functions that are called, with their types: of the C library, or vector functions."""
    half: HalfConverter = field(init=False)
    odd: OddRounding = field(init=False)

    def __post_init__(self) -> None:
        self.odd = OddRounding(self.emit)
        self.half = HalfConverter(self.emit, f16_in_hardware=self.f16_in_hardware)

    def convert(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        """The LLVM value of `op`, whose operands are already converted.

        Raises:
            PassFailedException: the op has no conversion.
        """
        name = op.name
        if name == "arith.constant":
            return self._constant(cast("arith.ConstantOp", op).value)
        if name in _INTEGER:
            return self.emit(_INTEGER[name](*operands))
        if name in _INTEGER_CHOICE:
            predicate = icmp_predicate(_INTEGER_CHOICE[name])
            better = self.emit(llvm.ICmpOp(operands[0], operands[1], predicate))
            return self.emit(llvm.SelectOp(better, operands[0], operands[1]))
        if name in ("arith.floordivsi", "arith.ceildivsi"):
            return self._rounded_division(operands, up=name == "arith.ceildivsi")
        if name == "arith.ceildivui":
            return self._unsigned_ceiling_division(*operands)
        if name in _BIT_INTRINSICS:
            return self._bit_intrinsic(name, operands[0])
        if name == "arith.cmpi":
            predicate = _CMPI[cast("arith.CmpiOp", op).predicate.value.data]
            return self.emit(llvm.ICmpOp(operands[0], operands[1], icmp_predicate(predicate)))
        if name == "arith.select":
            return self.emit(llvm.SelectOp(*operands))
        is_float = name in _FLOAT or name in _INTRINSICS or name in _LIBRARY
        if is_float or name in ("arith.cmpf", "math.rsqrt"):
            return self._float(op, operands)
        return self._cast(op, operands[0])

    def vector_function(self, name: str, operands: Sequence[SSAValue]) -> SSAValue:
        """A function of the table of `vector_functions`, of LLVM values of f32."""
        function = symbol(name)
        self.library[function] = llvm.LLVMFunctionType([f32] * len(operands), f32)
        return self.emit(llvm.CallOp(function, *operands, return_type=f32))

    def _constant(self, value: Attribute) -> SSAValue:
        if isinstance(value, IntegerAttr):
            integer = cast("IntegerAttr[IntegerType | IndexType]", value)
            target = cast("IntegerType", storage_type(integer.type))
            return self.emit(llvm.ConstantOp(IntegerAttr(integer.value.data, target), target))
        if not isinstance(value, FloatAttr):
            raise PassFailedException(f"a scalar constant {value} has no LLVM value")
        attr = cast("FloatAttr[AnyFloat]", value)
        if is_half(attr.type):
            # The bits of the format itself: no rounding is left to be done at run time.
            bits = int.from_bytes(attr.type.pack([attr.value.data]), "little", signed=True)
            return self.emit(llvm.ConstantOp(IntegerAttr(bits, i16), i16))
        return self.emit(llvm.ConstantOp(attr, attr.type))

    def _float(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        operand_type = op.operands[0].type
        if op.name == "math.rsqrt" and operand_type != f64:
            root = self._wide_float(op.name, [self._float_cast(operands[0], operand_type, f64)])
            return self._float_cast(root, f64, operand_type)
        if op.name == "math.fma" and is_half(operand_type):
            wide = [self._float_cast(operand, operand_type, f64) for operand in operands]
            return self.half.from_f64(self.odd.multiply_add(*wide), operand_type)
        half_type = operand_type if is_half(operand_type) else None
        if half_type is not None:
            operands = [self.half.to_f32(operand, half_type) for operand in operands]
        if op.name == "arith.cmpf":
            return self._compare(cast("arith.CmpfOp", op).predicate.value.data, operands)
        result = self._wide_float(op.name, operands)
        if half_type is None:
            return result
        narrow = self.half.from_exact_f32 if op.name in EXACT else self.half.from_f32
        return narrow(result, half_type)

    def _compare(self, predicate: int, operands: Sequence[SSAValue]) -> SSAValue:
        name = _CMPF[predicate]
        if name in ("false", "true"):
            return self.emit(llvm.ConstantOp(IntegerAttr(int(name == "true"), i1), i1))
        return self.emit(llvm.FCmpOp(operands[0], operands[1], name))

    def _wide_float(self, name: str, operands: Sequence[SSAValue]) -> SSAValue:
        if name in _FLOAT:
            return self.emit(_FLOAT[name](*operands))
        float_type = operands[0].type
        if name == "math.rsqrt":
            one = self.emit(llvm.ConstantOp(FloatAttr(1.0, f64), f64))
            return self.emit(llvm.FDivOp(one, self._wide_float("math.sqrt", operands)))
        if name in FUNCTIONS and float_type == f32:
            return self.vector_function(name, operands)
        if name in _LIBRARY:
            function = _LIBRARY[name] + ("" if float_type == f64 else "f")
            self.library[function] = llvm.LLVMFunctionType([float_type] * len(operands), float_type)
            return self.emit(llvm.CallOp(function, *operands, return_type=float_type))
        suffix = "f64" if isinstance(float_type, Float64Type) else "f32"
        intrinsic = f"llvm.{_INTRINSICS[name]}.{suffix}"
        return self.emit(llvm.CallIntrinsicOp(intrinsic, operands, [float_type]))

    def _bit_intrinsic(self, name: str, operand: SSAValue) -> SSAValue:
        intrinsic, asks = _BIT_INTRINSICS[name]
        integer = cast("IntegerType", operand.type)
        operands = [operand]
        if asks:
            operands.append(self.emit(llvm.ConstantOp(IntegerAttr(0, i1), i1)))
        return self.emit(
            llvm.CallIntrinsicOp(f"llvm.{intrinsic}.i{integer.bitwidth}", operands, [integer])
        )

    def _unsigned_ceiling_division(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        remainder = self.emit(llvm.URemOp(lhs, rhs))
        inexact = self.emit(llvm.ICmpOp(remainder, self._integer(0, lhs), icmp_predicate("ne")))
        step = self.emit(llvm.SelectOp(inexact, self._integer(1, lhs), self._integer(0, lhs)))
        return self.emit(llvm.AddOp(self.emit(llvm.UDivOp(lhs, rhs)), step))

    def _integer(self, value: int, like: SSAValue) -> SSAValue:
        integer = cast("IntegerType", like.type)
        return self.emit(llvm.ConstantOp(IntegerAttr(value, integer), integer))

    def _rounded_division(self, operands: Sequence[SSAValue], *, up: bool) -> SSAValue:
        lhs, rhs = operands
        integer = cast("IntegerType", lhs.type)
        zero = self.emit(llvm.ConstantOp(IntegerAttr(0, integer), integer))
        step = self.emit(llvm.ConstantOp(IntegerAttr(1 if up else -1, integer), integer))
        quotient = self.emit(llvm.SDivOp(lhs, rhs))
        remainder = self.emit(llvm.SRemOp(lhs, rhs))
        inexact = self.emit(llvm.ICmpOp(remainder, zero, icmp_predicate("ne")))
        signs = self.emit(llvm.XOrOp(remainder, rhs))
        wrong_side = "sge" if up else "slt"
        truncated = self.emit(llvm.ICmpOp(signs, zero, icmp_predicate(wrong_side)))
        adjust = self.emit(llvm.AndOp(inexact, truncated))
        adjusted = self.emit(llvm.AddOp(quotient, step))
        return self.emit(llvm.SelectOp(adjust, adjusted, quotient))

    def _cast(self, op: Operation, operand: SSAValue) -> SSAValue:
        source, target = op.operands[0].type, op.results[0].type
        match op.name:
            case "arith.extf" | "arith.truncf":
                return self._float_cast(operand, source, target)
            case "arith.extsi" | "arith.index_cast":
                return self._resize(operand, storage_type(target), llvm.SExtOp)
            case "arith.extui":
                return self._resize(operand, storage_type(target), llvm.ZExtOp)
            case "arith.trunci":
                return self._resize(operand, storage_type(target), llvm.TruncOp)
            case "arith.bitcast":
                stored = storage_type(target)
                return (
                    operand
                    if operand.type == stored
                    else self.emit(llvm.BitcastOp(operand, stored))
                )
            case "arith.sitofp":
                return self._from_integer(operand, target, signed=True)
            case "arith.uitofp":
                return self._from_integer(operand, target, signed=False)
            case "arith.fptosi":
                return self._to_integer(operand, source, target, "fptosi")
            case "arith.fptoui":
                return self._to_integer(operand, source, target, "fptoui")
            case _:
                raise PassFailedException(f"{op.name} has no LLVM code")

    def _float_cast(self, operand: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        if is_half(source):
            wide = self.half.to_f32(operand, source)
            return self._float_cast(wide, f32, target)
        if is_half(target):
            narrow = self.half.from_f64 if source == f64 else self.half.from_f32
            return narrow(operand, target)
        if source == target:
            return operand
        widening = source == f32
        return self.emit((llvm.FPExtOp if widening else llvm.FPTruncOp)(operand, target))

    def _resize(
        self,
        operand: SSAValue,
        target: Attribute,
        widen: type[llvm.SExtOp | llvm.ZExtOp | llvm.TruncOp],
    ) -> SSAValue:
        source = cast("IntegerType", operand.type)
        wanted = cast("IntegerType", target)
        if source.bitwidth == wanted.bitwidth:
            return operand
        op_class = llvm.TruncOp if source.bitwidth > wanted.bitwidth else widen
        return self.emit(op_class(operand, target))

    def _from_integer(self, operand: SSAValue, target: Attribute, *, signed: bool) -> SSAValue:
        """An integer rounded once to a float type."""
        width = cast("IntegerType", operand.type).bitwidth
        if is_half(target):
            exact_type = f32 if width <= F32_EXACT_BITS - 1 else f64
            if width > F64_EXACT_BITS:
                operand = self.odd.in_53_bits(operand, signed=signed)
            exact = self._from_integer(operand, exact_type, signed=signed)
            return self._float_cast(exact, exact_type, target)
        if signed:
            return self.emit(llvm.SIToFPOp(operand, target))
        if width < i64.bitwidth:
            wider = i32 if width < i32.bitwidth else i64
            return self.emit(llvm.SIToFPOp(self.emit(llvm.ZExtOp(operand, wider)), target))
        if target != f64:
            odd = self.odd.in_53_bits(operand, signed=False)
            return self._float_cast(self._from_integer(odd, f64, signed=False), f64, target)
        return self.odd.from_unsigned(operand)

    def _to_integer(
        self, operand: SSAValue, source: Attribute, target: Attribute, name: str
    ) -> SSAValue:
        if is_half(source):
            operand, source = self.half.to_f32(operand, source), f32
        integer = cast("IntegerType", storage_type(target))
        suffix = "f64" if source == f64 else "f32"
        intrinsic = f"llvm.{name}.sat.i{integer.bitwidth}.{suffix}"
        return self.emit(llvm.CallIntrinsicOp(intrinsic, [operand], [integer]))
