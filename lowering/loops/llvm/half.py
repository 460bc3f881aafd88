"""f16 and bf16 on machines that only know f32.

Half-precision scalars live in 16-bit integer registers. They are widened to f32 to compute and
rounded back to nearest even, which is exact for + − × ÷ √: f32 has more than twice the bits of
either format plus two. Where the target converts f16 in hardware its instructions are used;
everywhere else the conversions are integer arithmetic, so that no helper function is ever called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f16,
    f32,
    f64,
    i16,
    i32,
    i64,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Attribute, Operation, SSAValue

    Emit = Callable[[Operation], SSAValue]


def is_half(scalar_type: Attribute) -> bool:
    """Whether scalars of this type are kept as 16-bit integers."""
    return isinstance(scalar_type, Float16Type | BFloat16Type)


class HalfConverter:
    """Emits conversions between half-precision bit patterns (i16) and f32."""

    def __init__(self, emit: Emit, *, f16_in_hardware: bool) -> None:
        self._emit = emit
        self._f16_in_hardware = f16_in_hardware

    def to_f32(self, bits: SSAValue, half_type: Attribute) -> SSAValue:
        """The f32 value of a half-precision bit pattern; exact."""
        if isinstance(half_type, BFloat16Type):
            wide = self._emit(llvm.ZExtOp(bits, i32))
            return self._f32(self._shl(wide, 16))
        if self._f16_in_hardware:
            return self._emit(llvm.FPExtOp(self._emit(llvm.BitcastOp(bits, f16)), f32))
        return self._f16_to_f32(bits)

    def from_f32(self, value: SSAValue, half_type: Attribute) -> SSAValue:
        """The half-precision bit pattern nearest to an f32 value, ties to even."""
        if isinstance(half_type, BFloat16Type):
            return self._f32_to_bf16(value)
        if self._f16_in_hardware:
            return self._emit(llvm.BitcastOp(self._emit(llvm.FPTruncOp(value, f16)), i16))
        return self._f32_to_f16(value)

    def from_exact_f32(self, value: SSAValue, half_type: Attribute) -> SSAValue:
        """The half-precision bit pattern of an f32 value that has one."""
        if isinstance(half_type, BFloat16Type):
            return self._emit(llvm.TruncOp(self._lshr(self._bits(value), 16), i16))
        return self.from_f32(value, half_type)

    def from_f64(self, value: SSAValue, half_type: Attribute) -> SSAValue:
        """The half-precision bit pattern nearest to an f64 value, ties to even, rounded once.

        On the way through f32 what is lost makes the last bit odd, so that no tie is invented.
        Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, IEEE TC 57 (2008).
        """
        nearest = self._emit(llvm.FPTruncOp(value, f32))
        back = self._emit(llvm.FPExtOp(nearest, f64))
        inexact = self._emit(llvm.FCmpOp(back, value, "one"))
        magnitudes = [
            self._emit(llvm.CallIntrinsicOp("llvm.fabs.f64", [x], [f64])) for x in (back, value)
        ]
        above = self._emit(
            llvm.ZExtOp(self._emit(llvm.FCmpOp(magnitudes[0], magnitudes[1], "ogt")), i32)
        )
        truncated = self._emit(llvm.SubOp(self._bits(nearest), above))
        odd = self._select(inexact, self._or(truncated, self._int(1)), self._bits(nearest))
        return self.from_f32(self._f32(odd), half_type)

    def _f16_to_f32(self, bits: SSAValue) -> SSAValue:
        wide = self._emit(llvm.ZExtOp(bits, i32))
        magnitude = self._and(wide, 0x7FFF)
        # Placed as an f32 exponent and mantissa the value is 2^112 too small: subnormals too.
        scaled = self._emit(llvm.FMulOp(self._f32(self._shl(magnitude, 13)), self._float(2.0**112)))
        is_special = self._icmp("sge", magnitude, self._int(0x7C00))
        special = self._or(self._shl(magnitude, 13), self._int(0x7F800000))
        result = self._select(is_special, special, self._bits(scaled))
        sign = self._shl(self._and(wide, 0x8000), 16)
        return self._f32(self._or(result, sign))

    def _f32_to_f16(self, value: SSAValue) -> SSAValue:
        bits = self._bits(value)
        sign = self._and(bits, 0x80000000)
        magnitude = self._and(bits, 0x7FFFFFFF)
        # Normal results: rebias the exponent and round the 13 dropped bits to nearest even.
        odd = self._and(self._lshr(magnitude, 13), 1)
        rebias = self._int(((15 - 127) << 23) + 0xFFF)
        normal = self._lshr(self._add(self._add(magnitude, rebias), odd), 13)
        # Results below 2^-14: adding 0.5 makes the f32 adder align and round the mantissa.
        half = self._float(0.5)
        aligned = self._emit(llvm.FAddOp(self._f32(magnitude), half))
        subnormal = self._emit(llvm.SubOp(self._bits(aligned), self._bits(half)))
        is_subnormal = self._icmp("slt", magnitude, self._int(113 << 23))
        finite = self._select(is_subnormal, subnormal, normal)
        # 65520 and above round to infinity; a NaN keeps the top of its payload and stays quiet.
        payload = self._or(self._and(self._lshr(magnitude, 13), 0x3FF), self._int(0x7E00))
        is_nan = self._icmp("sgt", magnitude, self._int(0x7F800000))
        overflow = self._select(is_nan, payload, self._int(0x7C00))
        is_large = self._icmp("sge", magnitude, self._int(0x477FF000))
        result = self._or(self._select(is_large, overflow, finite), self._lshr(sign, 16))
        return self._emit(llvm.TruncOp(result, i16))

    def _f32_to_bf16(self, value: SSAValue) -> SSAValue:
        bits = self._bits(value)
        odd = self._and(self._lshr(bits, 16), 1)
        rounded = self._lshr(self._add(self._add(bits, self._int(0x7FFF)), odd), 16)
        quiet = self._or(self._lshr(bits, 16), self._int(0x40))
        is_nan = self._emit(llvm.FCmpOp(value, value, "uno"))
        return self._emit(llvm.TruncOp(self._select(is_nan, quiet, rounded), i16))

    def _int(self, value: int) -> SSAValue:
        signed = value - (1 << 32) if value >= 1 << 31 else value
        return self._emit(llvm.ConstantOp(IntegerAttr(signed, i32), i32))

    def _float(self, value: float) -> SSAValue:
        return self._emit(llvm.ConstantOp(FloatAttr(value, f32), f32))

    def _bits(self, value: SSAValue) -> SSAValue:
        return self._emit(llvm.BitcastOp(value, i32))

    def _f32(self, bits: SSAValue) -> SSAValue:
        return self._emit(llvm.BitcastOp(bits, f32))

    def _and(self, a: SSAValue, mask: int) -> SSAValue:
        return self._emit(llvm.AndOp(a, self._int(mask)))

    def _or(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._emit(llvm.OrOp(a, b))

    def _add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._emit(llvm.AddOp(a, b))

    def _shl(self, a: SSAValue, bits: int) -> SSAValue:
        return self._emit(llvm.ShlOp(a, self._int(bits)))

    def _lshr(self, a: SSAValue, bits: int) -> SSAValue:
        return self._emit(llvm.LShrOp(a, self._int(bits)))

    def _icmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._emit(llvm.ICmpOp(a, b, icmp_predicate(predicate)))

    def _select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._emit(llvm.SelectOp(condition, a, b))


def icmp_predicate(name: str) -> IntegerAttr[IntegerType]:
    """The LLVM dialect's number of an integer comparison, e.g. `slt`."""
    return IntegerAttr(llvm.ICmpPredicateFlag(name).to_int(), i64)
