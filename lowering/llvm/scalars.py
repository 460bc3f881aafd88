"""Scalar arith and math ops in the LLVM dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    f32,
    f64,
    i16,
    i32,
    i64,
)
from xdsl.utils.exceptions import PassFailedException

from convir.lowering.llvm.half import HalfConverter, icmp_predicate, is_half

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
# instruction does become calls of the C library's function.
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
F32_EXACT_BITS = 24
"""Integers of so many bits are exact in f32."""
# The integer comparisons and float comparisons in the order of the arith dialect's numbers.
_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    *("_false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "_true"),
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
    half: HalfConverter = field(init=False)

    def __post_init__(self) -> None:
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
        if name == "arith.cmpi":
            predicate = _CMPI[cast("arith.CmpiOp", op).predicate.value.data]
            return self.emit(llvm.ICmpOp(operands[0], operands[1], icmp_predicate(predicate)))
        if name == "arith.select":
            return self.emit(llvm.SelectOp(*operands))
        if name in _FLOAT or name in _INTRINSICS or name == "arith.cmpf":
            return self._float(op, operands)
        return self._cast(op, operands[0])

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
        half_type = operand_type if is_half(operand_type) else None
        if half_type is not None:
            operands = [self.half.to_f32(operand, half_type) for operand in operands]
        if op.name == "arith.cmpf":
            predicate = _CMPF[cast("arith.CmpfOp", op).predicate.value.data]
            return self.emit(llvm.FCmpOp(operands[0], operands[1], predicate))
        result = self._wide_float(op.name, operands)
        return result if half_type is None else self.half.from_f32(result, half_type)

    def _wide_float(self, name: str, operands: Sequence[SSAValue]) -> SSAValue:
        if name in _FLOAT:
            return self.emit(_FLOAT[name](*operands))
        suffix = "f64" if isinstance(operands[0].type, Float64Type) else "f32"
        intrinsic = f"llvm.{_INTRINSICS[name]}.{suffix}"
        return self.emit(llvm.CallIntrinsicOp(intrinsic, operands, [operands[0].type]))

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
            if source == f64:
                raise PassFailedException("f64 to half precision would round twice")
            return self.half.from_f32(operand, target)
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
        width = cast("IntegerType", operand.type).bitwidth
        if not signed and width >= i64.bitwidth:
            raise PassFailedException("an unsigned 64-bit integer to float has no LLVM code")
        if not signed:
            wider = i32 if width < i32.bitwidth else i64
            operand = self.emit(llvm.ZExtOp(operand, wider))
        if isinstance(target, BFloat16Type) and width > F32_EXACT_BITS:
            raise PassFailedException(f"a {width}-bit integer to bf16 would round twice")
        # f16 overflows long before f32 has to round an integer.
        wide_type = f32 if is_half(target) else target
        wide = self.emit(llvm.SIToFPOp(operand, wide_type))
        return self.half.from_f32(wide, target) if is_half(target) else wide

    def _to_integer(
        self, operand: SSAValue, source: Attribute, target: Attribute, name: str
    ) -> SSAValue:
        if is_half(source):
            operand, source = self.half.to_f32(operand, source), f32
        integer = cast("IntegerType", storage_type(target))
        suffix = "f64" if source == f64 else "f32"
        intrinsic = f"llvm.{name}.sat.i{integer.bitwidth}.{suffix}"
        return self.emit(llvm.CallIntrinsicOp(intrinsic, [operand], [integer]))
