"""Roundings to odd in f64: an odd last bit where anything is lost keeps the next rounding right.

Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, IEEE TC 57 (2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f64, i64

from convir.lowering.loops.llvm.half import icmp_predicate

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

F64_EXACT_BITS = 53
"""Integers of so many bits are exact in f64."""


@dataclass
class OddRounding:
    """Emits what keeps a later rounding from being a second one."""

    emit: Callable[[Operation], SSAValue]

    def multiply_add(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a · b + c in f64, the last bit odd if it is not exact; a · b is exact.

        Source: Knuth's TwoSum, The Art of Computer Programming 2, 4.2.2.
        """
        product = self.emit(llvm.FMulOp(a, b))
        total = self.emit(llvm.FAddOp(product, c))
        tail = self.emit(llvm.FSubOp(total, product))
        head = self.emit(llvm.FSubOp(total, tail))
        lost = self.emit(
            llvm.FAddOp(self.emit(llvm.FSubOp(product, head)), self.emit(llvm.FSubOp(c, tail)))
        )
        zero = self.emit(llvm.ConstantOp(FloatAttr(0.0, f64), f64))
        inexact = self.emit(llvm.FCmpOp(lost, zero, "one"))
        bits, lost_bits = (self.emit(llvm.BitcastOp(value, i64)) for value in (total, lost))
        # One step away from zero if what is lost has the sum's sign, else one step towards it.
        signs = self.emit(llvm.XOrOp(bits, lost_bits))
        same_sign = self.emit(llvm.ICmpOp(signs, self._integer(0, bits), icmp_predicate("sge")))
        step = self.emit(llvm.SelectOp(same_sign, self._integer(1, bits), self._integer(-1, bits)))
        even = self.emit(llvm.AndOp(bits, self._integer(1, bits)))
        is_even = self.emit(llvm.ICmpOp(even, self._integer(0, bits), icmp_predicate("eq")))
        moved = self.emit(llvm.AddOp(bits, step))
        moves = self.emit(llvm.AndOp(inexact, is_even))
        return self.emit(llvm.BitcastOp(self.emit(llvm.SelectOp(moves, moved, bits)), f64))

    def in_53_bits(self, operand: SSAValue, *, signed: bool) -> SSAValue:
        """A 64-bit integer with its lowest bits, where it has too many, made one odd bit."""
        excess = i64.bitwidth - F64_EXACT_BITS
        low = self._integer((1 << excess) - 1, operand)
        lost = self.emit(llvm.AndOp(operand, low))
        carry = self.emit(llvm.AddOp(lost, low))  # reaches the next bit if anything is lost
        kept = self.emit(llvm.OrOp(operand, carry))
        odd = self.emit(llvm.AndOp(kept, self._integer(-(1 << excess), operand)))
        shift = self._integer(F64_EXACT_BITS - (1 if signed else 0), operand)
        top = self.emit((llvm.AShrOp if signed else llvm.LShrOp)(operand, shift))
        fits = self.emit(llvm.ICmpOp(top, self._integer(0, operand), icmp_predicate("eq")))
        if signed:
            ones = self._integer(-1, operand)
            negative = self.emit(llvm.ICmpOp(top, ones, icmp_predicate("eq")))
            fits = self.emit(llvm.OrOp(fits, negative))
        return self.emit(llvm.SelectOp(fits, operand, odd))

    def from_unsigned(self, operand: SSAValue) -> SSAValue:
        """An unsigned 64-bit integer as f64, rounded once: its halves are exact."""
        halves = [
            self.emit(llvm.LShrOp(operand, self._integer(32, operand))),
            self.emit(llvm.AndOp(operand, self._integer((1 << 32) - 1, operand))),
        ]
        high, low = (self.emit(llvm.SIToFPOp(part, f64)) for part in halves)
        scale = self.emit(llvm.ConstantOp(FloatAttr(2.0**32, f64), f64))
        return self.emit(llvm.FAddOp(self.emit(llvm.FMulOp(high, scale)), low))

    def _integer(self, value: int, like: SSAValue) -> SSAValue:
        integer = cast("IntegerType", like.type)
        return self.emit(llvm.ConstantOp(IntegerAttr(value, integer), integer))
