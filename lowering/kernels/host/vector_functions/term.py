"""Formulas over floats: Python's operators append LLVM instructions to a function.

    square = x * x
    result = fma(square, term(0.5), x)

A term is an f32 or f64, or a vector of them; numbers are constants in every lane. Nothing branches,
so every lane costs the same, whatever its value.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from convir.lowering.kernels.host.code.builder import Value, float_constant, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.host.code.builder import Function

_SCALED_LANES = 16
"""Floats of the vectors that LLVM has a function for whose exponents are floats too."""
_SIGN = -(1 << 31)
"""The bit of an f32 that is its sign."""


@dataclass(frozen=True, eq=False)
class Term:
    """A value of a formula, and the function that computes it."""

    f: Function
    value: Value

    @property
    def kind(self) -> str:
        """Its LLVM type."""
        return self.value.type

    @property
    def _lanes(self) -> int | None:
        """How many lanes; None for a scalar."""
        return int(self.kind[1:].split(" x ", maxsplit=1)[0]) if self.kind[0] == "<" else None

    @property
    def is_f64(self) -> bool:
        """Whether it is made of f64."""
        return "double" in self.kind

    @property
    def integer(self) -> str:
        """The type of its bits."""
        return self._of("i64" if self.is_f64 else "i32")

    def number(self, number: float) -> Term:
        """A constant of the same type, in every lane."""
        if not self.is_f64:
            number = struct.unpack("f", struct.pack("f", number))[0]
        return Term(self.f, float_constant(number, self.kind))

    def __add__(self, other: Operand) -> Term:
        return self._binary("fadd", other)

    def __sub__(self, other: Operand) -> Term:
        return self._binary("fsub", other)

    def __rsub__(self, other: float) -> Term:
        return self.number(other) - self

    def __mul__(self, other: Operand) -> Term:
        return self._binary("fmul", other)

    def __truediv__(self, other: Operand) -> Term:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.number(other) / self

    def __neg__(self) -> Term:
        return self._emit(self.kind, f"fneg {self.value}")

    def __lt__(self, other: Operand) -> Mask:
        return self.compare("olt", other)

    def __gt__(self, other: Operand) -> Mask:
        return self.compare("ogt", other)

    def __le__(self, other: Operand) -> Mask:
        return self.compare("ole", other)

    def __ge__(self, other: Operand) -> Mask:
        return self.compare("oge", other)

    def compare(self, predicate: str, other: Operand) -> Mask:
        """In which lanes `fcmp predicate` holds."""
        text = f"fcmp {predicate} {self.value}, {self._term(other).value.text}"
        return Mask(self._emit(self._of("i1"), text))

    def magnitude(self) -> Term:
        """|self|."""
        return self._intrinsic("fabs")

    def with_sign_of(self, other: Term) -> Term:
        """|self| with the sign of `other`."""
        return self._intrinsic("copysign", other)

    def signed_as(self, other: Term) -> Term:
        """`self`, which is not negative, with the sign of `other`: one step less."""
        return self.bits().differing(other.bits() & _SIGN).floats()

    def at_least(self, bound: Operand) -> Term:
        """The larger one; NaN where `self` is."""
        return (self < bound).select(self._term(bound), self)

    def at_most(self, bound: Operand) -> Term:
        """The smaller one; NaN where `self` is."""
        return (self > bound).select(self._term(bound), self)

    def root(self) -> Term:
        """The square root."""
        return self._intrinsic("sqrt")

    def whole(self) -> Term:
        """The nearest integer, ties to even."""
        return self._intrinsic("roundeven")

    def floor(self) -> Term:
        """The largest integer that is not larger."""
        return self._intrinsic("floor")

    def times_plus(self, factor: Operand, addend: Operand) -> Term:
        """`self * factor + addend`, fused where the CPU has an instruction for that."""
        return self._intrinsic("fmuladd", self._term(factor), self._term(addend))

    def times_plus_once(self, factor: Operand, addend: Operand) -> Term:
        """`self * factor + addend`, rounded once on every CPU."""
        return self._intrinsic("fma", self._term(factor), self._term(addend))

    def times_power(self, whole: Term, exponent: Bits) -> Term:
        """The product with 2 to a power that is given as a float and as an integer; one instruction
        where vectors have 512 bits, and a call of the C library for each lane where they have
        fewer."""
        if self._lanes == _SCALED_LANES:
            kind = self.kind
            types = f"{kind}, {kind}, {kind}, i16, i32"
            declaration = f"declare {kind} @llvm.x86.avx512.mask.scalef.ps.512({types})"
            values = (self.value, whole.value, self.value, Value("i16", "-1"), Value("i32", "4"))
            return Term(self.f, self.f.intrinsic(declaration, kind, values, "term"))
        lanes = "" if self._lanes is None else f"v{self._lanes}"
        kinds = f"{self.kind}, {exponent.term.kind}"
        declaration = f"declare {self.kind} @llvm.ldexp.{lanes}f32.{lanes}i32({kinds})"
        values = (self.value, exponent.term.value)
        return Term(self.f, self.f.intrinsic(declaration, self.kind, values, "term"))

    def wide(self) -> Term:
        """As f64."""
        kind = self._of("double")
        return self._emit(kind, f"fpext {self.value} to {kind}")

    def narrow(self) -> Term:
        """Rounded to f32."""
        kind = self._of("float")
        return self._emit(kind, f"fptrunc {self.value} to {kind}")

    def bits(self) -> Bits:
        """Its bits as an integer."""
        return Bits(self._emit(self.integer, f"bitcast {self.value} to {self.integer}"), self)

    def _binary(self, operator: str, other: Operand) -> Term:
        return Term(
            self.f, self.f.float_binary(operator, self.value, self._term(other).value, "term")
        )

    def _term(self, operand: Operand) -> Term:
        return operand if isinstance(operand, Term) else self.number(operand)

    def _of(self, element: str) -> str:
        return element if self._lanes is None else vector(element, self._lanes)

    def _emit(self, kind: str, instruction: str) -> Term:
        return Term(self.f, self.f.emit(kind, "term", instruction))

    def _intrinsic(self, name: str, *others: Term) -> Term:
        lanes = "" if self._lanes is None else f"v{self._lanes}"
        types = ", ".join([self.kind] * (1 + len(others)))
        suffix = f"{lanes}{'f64' if self.is_f64 else 'f32'}"
        declaration = f"declare {self.kind} @llvm.{name}.{suffix}({types})"
        values = [self.value, *(other.value for other in others)]
        return Term(self.f, self.f.intrinsic(declaration, self.kind, values, "term"))


Operand: TypeAlias = Term | float


@dataclass(frozen=True)
class Mask:
    """Truths, one a lane."""

    term: Term

    def select(self, yes: Term, no: Operand) -> Term:
        """`yes` where it holds, else `no`."""
        other = no if isinstance(no, Term) else yes.number(no)
        return Term(yes.f, yes.f.select(self.term.value, yes.value, other.value, "term"))

    def __and__(self, other: Mask) -> Mask:
        return Mask(_combined("and", self.term, other.term.value.text))

    def __or__(self, other: Mask) -> Mask:
        return Mask(_combined("or", self.term, other.term.value.text))


@dataclass(frozen=True)
class Bits:
    """Integers as wide as floats, one a lane."""

    term: Term
    like: Term
    """Of the floats' type."""

    def __add__(self, number: int) -> Bits:
        return self._with("add", number)

    def __sub__(self, number: int) -> Bits:
        return self._with("sub", number)

    def __and__(self, number: int) -> Bits:
        return self._with("and", number)

    def __lshift__(self, count: int) -> Bits:
        return self._with("shl", count)

    def __rshift__(self, count: int) -> Bits:
        """The sign is kept."""
        return self._with("ashr", count)

    def plus(self, other: Bits) -> Bits:
        """The sum of two."""
        return Bits(_combined("add", self.term, other.term.value.text), self.like)

    def minus(self, other: Bits) -> Bits:
        """The difference of two."""
        return Bits(_combined("sub", self.term, other.term.value.text), self.like)

    def differing(self, other: Bits) -> Bits:
        """The bits in which two differ."""
        return Bits(_combined("xor", self.term, other.term.value.text), self.like)

    def low(self, like: Term) -> Bits:
        """The lower half of the bits, as wide as `like`, which is of f32."""
        kind = like.integer
        text = f"trunc {self.term.value} to {kind}"
        return Bits(Term(like.f, like.f.emit(kind, "bits", text)), like)

    def is_not(self, number: int) -> Mask:
        """Where they are another number."""
        truth = self.term.kind.replace("i32", "i1").replace("i64", "i1")
        text = f"icmp ne {self.term.value}, {self._constant(number)}"
        return Mask(Term(self.term.f, self.term.f.emit(truth, "truth", text)))

    def floats(self) -> Term:
        """The floats that have these bits."""
        kind = self.like.kind
        return Term(
            self.term.f, self.term.f.emit(kind, "term", f"bitcast {self.term.value} to {kind}")
        )

    def converted(self) -> Term:
        """The floats that are nearest to these integers."""
        kind = self.like.kind
        return Term(
            self.term.f, self.term.f.emit(kind, "term", f"sitofp {self.term.value} to {kind}")
        )

    def _constant(self, number: int) -> str:
        element = "i64" if "i64" in self.term.kind else "i32"
        return f"splat ({element} {number})" if self.term.kind[0] == "<" else str(number)

    def _with(self, operator: str, number: int) -> Bits:
        return Bits(_combined(operator, self.term, self._constant(number)), self.like)


def _combined(operator: str, left: Term, right: str) -> Term:
    return Term(left.f, left.f.emit(left.kind, "bits", f"{operator} {left.value}, {right}"))


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Σ coefficients[i] · x^i, by Horner's rule."""
    total = x.number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total.times_plus(x, coefficient)
    return total
