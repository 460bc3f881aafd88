"""`arith` and `math`, mostly of scalars: constants, identities and casts, exact in every bit.

    rewrite:
      op on constants                                    -->  constant
      constant first in a commutative integer op         -->  constant second
      x + 0, x * 1, x & -1, x / 1, x << 0, …             -->  x
      x * 0, x & 0, x | -1, x % 1, x - x, x ^ x          -->  constant
      x == x, x < x, …, for integers, tensors of them too  -->  constant
      (x + 1) - 3, (x * 2) * 3                           -->  x + -2, x * 6
      x + -0.0, x - 0.0, x * 1.0, x / 1.0, -(-x)         -->  x
      (x * 2.0) * 3.0, both fastmath<reassoc>            -->  x * 6.0
      extsi (extsi x), trunci (trunci x), extf (extf x)  -->  one cast of x
      trunci (extsi x), truncf (extf x), back to its type  -->  x

Floats round as their type does at every step: `x + 0.0` stays, since it turns -0.0 into 0.0, and so
does `extf (truncf x)`. An operation whose result is NaN, poison or undefined stays as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, TensorType, i1
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import OpResult
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.values import integers
from convir.analysis.values.scalars import (
    EVALUATED,
    bit_width,
    combine,
    constant_of,
    fold,
    scalar_constant,
)
from convir.passes.canonicalize.patterns.uniform import constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.pattern_rewriter import PatternRewriter

_COMMUTATIVE = frozenset(
    f"arith.{name}"
    for name in ("addi", "muli", "andi", "ori", "xori", "maxsi", "maxui", "minsi", "minui")
)
_UNIT_ZERO = frozenset(
    f"arith.{name}" for name in ("addi", "subi", "ori", "xori", "shli", "shrsi", "shrui")
)
_UNIT_ONE = frozenset(
    f"arith.{name}" for name in ("muli", "divsi", "divui", "ceildivsi", "ceildivui", "floordivsi")
)
_SAME_IS_ZERO = frozenset(("arith.subi", "arith.xori"))
_SAME_IS_OPERAND = frozenset(
    f"arith.{name}"
    for name in ("andi", "ori", "maxsi", "maxui", "minsi", "minui", "maximumf", "minimumf")
)
_REFLEXIVE = frozenset(("eq", "sle", "sge", "ule", "uge"))
_FLOAT_UNITS: Mapping[str, tuple[float, bool]] = {
    "arith.addf": (-0.0, True),
    "arith.subf": (0.0, False),
    "arith.mulf": (1.0, True),
    "arith.divf": (1.0, False),
}
"""The unit on the right, and whether it is one on the left as well."""

_ONE_CAST: Mapping[tuple[str, str], str] = {
    ("arith.extsi", "arith.extsi"): "arith.extsi",
    ("arith.extui", "arith.extui"): "arith.extui",
    ("arith.extui", "arith.extsi"): "arith.extui",
    ("arith.trunci", "arith.trunci"): "arith.trunci",
    ("arith.extf", "arith.extf"): "arith.extf",
}
"""The cast that two are, the first to be applied first."""

_ROUND_TRIPS = frozenset(
    (
        ("arith.extsi", "arith.trunci"),
        ("arith.extui", "arith.trunci"),
        ("arith.extf", "arith.truncf"),
        ("arith.negf", "arith.negf"),
        ("arith.bitcast", "arith.bitcast"),
        ("arith.index_cast", "arith.index_cast"),
        ("arith.index_castui", "arith.index_castui"),
    )
)
"""Operations of which the second undoes the first, if it also leads back to the type."""


class FoldConstants(RewritePattern):
    """An operation on constants is a constant."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match what `convir.analysis.values.scalars` evaluates."""
        for operand in op.operands:
            if not isinstance(operand, OpResult) or not isinstance(operand.op, arith.ConstantOp):
                return
        if (folded := fold(op)) is not None:
            rewriter.replace(op, arith.ConstantOp(folded))


class FoldIntegers(RewritePattern):
    """Units, absorbing constants and equal operands of integer operations."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match binary operations on one integer or index type."""
        lhs, rhs = op.operands
        if lhs is rhs:
            if op.name in _SAME_IS_OPERAND:
                rewriter.replace(op, (), (lhs,))
            elif op.name in _SAME_IS_ZERO:
                _replace_by_integer(op, 0, rewriter)
            return
        constant = scalar_constant(rhs)
        if not isinstance(constant, IntegerAttr):
            if op.name in _COMMUTATIVE and isinstance(scalar_constant(lhs), IntegerAttr):
                op.operands = (rhs, lhs)
                rewriter.notify_op_modified(op)
            return
        bits = bit_width(constant.type)
        if bits is None:
            return
        all_ones = (1 << bits) - 1
        number = constant.value.data & all_ones
        if _is_unit(op.name, number, bits):
            rewriter.replace(op, (), (lhs,))
        elif (op.name in ("arith.muli", "arith.andi") and number == 0) or (
            op.name == "arith.ori" and number == all_ones
        ):
            rewriter.replace(op, (), (rhs,))
        elif op.name in ("arith.remsi", "arith.remui") and number == 1:
            _replace_by_integer(op, 0, rewriter)


class FoldEqualOperands(RewritePattern):
    """Any integer compares with itself in one known way, also element by element."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `arith.cmpi`."""
        assert isinstance(op, arith.CmpiOp)
        if op.lhs is not op.rhs:
            return
        number = int(arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data] in _REFLEXIVE)
        result_type: Attribute = op.result.type
        if not isinstance(result_type, TensorType):
            _replace_by_integer(op, number, rewriter)
        elif result_type.has_static_shape():
            data = i1.pack((-number,))  # as i1 stores true: its bit is its sign
            rewriter.replace(op, constant(data, cast("TensorType[Attribute]", result_type)))


class CombineConstants(RewritePattern):
    """Constants added to, or multiplied with, one value are combined; integers wrap."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `arith.addi`, `arith.subi` and `arith.muli`."""
        lhs, rhs = op.operands
        inner = lhs.op if isinstance(lhs, OpResult) else None
        if inner is None or scalar_constant(rhs) is None or len(inner.operands) != len(op.operands):
            return
        if op.name == "arith.muli" and inner.name == op.name:
            one, other = _integer(inner.operands[1]), _integer(rhs)
            number = None if one is None or other is None else one * other
        else:
            one, other = _addend(inner), _addend(op)
            number = None if one is None or other is None else one + other
        bits = bit_width(rhs.type)
        if number is None or bits is None:
            return
        combined = constant_of(integers.signed(number, bits), rhs.type)
        if combined is None:
            return
        constant = arith.ConstantOp(combined)
        replacement = arith.MuliOp if op.name == "arith.muli" else arith.AddiOp
        rewriter.replace(op, (constant, replacement(inner.operands[0], constant)))


class FoldFloats(RewritePattern):
    """Units that leave every float as it is, signed zeros too."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match binary operations on one float type."""
        lhs, rhs = op.operands
        if lhs is rhs and op.name in _SAME_IS_OPERAND:
            rewriter.replace(op, (), (lhs,))
            return
        if op.name not in _FLOAT_UNITS:
            return
        unit, commutes = _FLOAT_UNITS[op.name]
        if _is_float(rhs, unit):
            rewriter.replace(op, (), (lhs,))
        elif commutes and _is_float(lhs, unit):
            rewriter.replace(op, (), (rhs,))


class Reassociate(RewritePattern):
    """Constants added to, or multiplied with, one float are combined where both flags allow it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `arith.addf` and `arith.mulf`."""
        assert isinstance(op, arith.AddfOp | arith.MulfOp)
        if not _may_reassociate(op):
            return
        value, constant = _with_constant(op)
        inner = value.op if constant is not None and isinstance(value, OpResult) else None
        if not isinstance(inner, type(op)) or not _may_reassociate(inner):
            return
        value, first = _with_constant(inner)
        combined = None if constant is None or first is None else combine(op.name, first, constant)
        if combined is None:
            return
        flags = arith.FastMathFlagsAttr(set(op.fastmath.data) & set(inner.fastmath.data))
        factor = arith.ConstantOp(combined)
        rewriter.replace(op, (factor, type(op)(value, factor, flags)))


class FoldCastOfCast(RewritePattern):
    """Two casts are one, or none."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match casts and negation."""
        middle = op.operands[0]
        if not isinstance(middle, OpResult) or len(middle.op.operands) != 1:
            return
        pair = (middle.op.name, op.name)
        source, result_type = middle.op.operands[0], op.results[0].type
        if pair in _ROUND_TRIPS and source.type == result_type and _is_undone(source, middle):
            rewriter.replace(op, (), (source,))
        elif (name := _ONE_CAST.get(pair)) is not None:
            cast_class = type(op) if name == op.name else type(middle.op)
            rewriter.replace(op, cast_class.create(operands=(source,), result_types=(result_type,)))


def _is_unit(name: str, number: int, bits: int) -> bool:
    """True if the constant on the right, read as unsigned, changes nothing."""
    if name in _UNIT_ZERO:
        return number == 0
    if name in _UNIT_ONE:
        # The only bit of an i1 is its sign: signed division reads 1 as -1.
        return number == 1 and (bits > 1 or name == "arith.muli")
    return name == "arith.andi" and number == (1 << bits) - 1


def _replace_by_integer(op: Operation, number: int, rewriter: PatternRewriter) -> None:
    constant = constant_of(number, op.results[0].type)
    if constant is not None:
        rewriter.replace(op, arith.ConstantOp(constant))


def _integer(value: SSAValue) -> int | None:
    constant = scalar_constant(value)
    return constant.value.data if isinstance(constant, IntegerAttr) else None


def _addend(op: Operation) -> int | None:
    """The constant that `op` adds to its first operand."""
    if op.name not in ("arith.addi", "arith.subi"):
        return None
    number = _integer(op.operands[1])
    return -number if number is not None and op.name == "arith.subi" else number


def _may_reassociate(op: arith.AddfOp | arith.MulfOp) -> bool:
    return FastMathFlag.REASSOC in op.fastmath.data


def _with_constant(op: arith.AddfOp | arith.MulfOp) -> tuple[SSAValue, FloatAttr | None]:
    """One operand, and the other if that is a constant."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        constant = scalar_constant(other)
        if isinstance(constant, FloatAttr):
            return value, constant
    return op.lhs, None


def _is_float(value: SSAValue, number: float) -> bool:
    """True if `value` is the constant `number`, of the same sign."""
    constant = scalar_constant(value)
    return isinstance(constant, FloatAttr) and constant == FloatAttr(number, constant.type)


def _is_undone(source: SSAValue, middle: SSAValue) -> bool:
    """True unless `middle` is an index, or comes from one, and one of the two is narrower."""
    if not isinstance(source.type, IndexType) and not isinstance(middle.type, IndexType):
        return True
    narrow, wide = bit_width(source.type), bit_width(middle.type)
    return narrow is not None and wide is not None and narrow <= wide


_INTEGERS: tuple[RewritePattern, ...] = (FoldConstants(), FoldIntegers())
_FLOATS: tuple[RewritePattern, ...] = (FoldConstants(), FoldFloats())
_CASTS: tuple[RewritePattern, ...] = (FoldConstants(), FoldCastOfCast())

PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    **dict.fromkeys(EVALUATED, (FoldConstants(),)),
    **dict.fromkeys(
        (*_COMMUTATIVE, *_UNIT_ZERO, *_UNIT_ONE, "arith.remsi", "arith.remui"), _INTEGERS
    ),
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.muli"), (*_INTEGERS, CombineConstants())),
    **dict.fromkeys((*_FLOAT_UNITS, "arith.maximumf", "arith.minimumf"), _FLOATS),
    **dict.fromkeys(("arith.addf", "arith.mulf"), (*_FLOATS, Reassociate())),
    "arith.cmpi": (FoldConstants(), FoldEqualOperands()),
    **dict.fromkeys({second for _, second in (*_ONE_CAST, *_ROUND_TRIPS)}, _CASTS),
}
"""Operation name to the patterns that rewrite it."""
