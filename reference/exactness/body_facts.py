"""Exactness of scalar operations: grids carried through a body, one operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from convir.dialects.diagnostics import error_at
from convir.reference.dtypes import BOOL, FLOAT64, DType, is_float
from convir.reference.exactness.facts import Fact
from convir.reference.exactness.grid import Grid

if TYPE_CHECKING:
    from xdsl.ir import Block, Operation, SSAValue


def no_grid() -> Grid | None:
    """The grid of a value of which none is known."""
    return None


@dataclass(frozen=True)
class Scalar:
    """A value of a body: what is known of it, and how to find the grid it lies on."""

    fact: Fact
    grid: Callable[[], Grid | None] = no_grid
    """Asked only where it decides something, as measuring a tensor takes time."""


Lookup = Callable[["SSAValue"], Scalar]
"""What is known of a value from outside a body, or of a body's argument."""
DTypeOf = Callable[["SSAValue"], DType]

_SELECTIONS = frozenset(
    {
        "arith.select",
        "arith.maximumf",
        "arith.minimumf",
        "arith.maxnumf",
        "arith.minnumf",
        "arith.maxsi",
        "arith.minsi",
    }
)
"""Ops whose result is one of their operands."""
_SIGN_CHANGES = frozenset({"arith.negf", "math.absf", "math.copysign", "math.absi"})
_WIDENINGS = frozenset({"arith.extf", "arith.extsi", "arith.index_cast"})
_ROUND_TO_INTEGER = frozenset(
    {"math.ceil", "math.floor", "math.trunc", "math.round", "math.roundeven"}
)
_CONVERSIONS = frozenset({"arith.truncf", "arith.sitofp", "arith.uitofp"})
"""Ops of one operand that round correctly: the same number in gives the same number out."""
_SUMS = frozenset({"arith.addf", "arith.subf", "arith.addi", "arith.subi"})
_PRODUCTS = frozenset({"arith.mulf", "arith.muli"})
_CORRECTLY_ROUNDED = frozenset(
    {"arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "math.sqrt", "math.fma"}
)
ELEMENTARY_ROUNDINGS = 2
"""Half ulps between two results of an elementary function in f64, which nothing wider measures: C
libraries promise one ulp, not a rounding."""


def scalar_result(op: Operation, operands: tuple[Scalar, ...], dtype: DType) -> Scalar:
    """What is known of the result, of `dtype`, of a scalar or elementwise operation."""
    fact = Fact.merge(operand.fact for operand in operands)
    if op.name in _SELECTIONS:
        return Scalar(
            fact, partial(_joined, operands[1:] if op.name == "arith.select" else operands)
        )
    if op.name in _SIGN_CHANGES or op.name in _WIDENINGS:
        return Scalar(fact, operands[0].grid)
    if op.name in _ROUND_TO_INTEGER:
        return Scalar(fact, partial(_rounded_to_integer, operands[0]))
    if op.name in _CONVERSIONS:
        return _converted(op, fact, operands[0], dtype)
    if not is_float(dtype):
        return Scalar(fact, partial(_integer_arithmetic, op.name, operands, dtype))
    grid = _arithmetic(op.name, operands)
    if grid is not None and grid.fits(dtype):
        return Scalar(fact, lambda: grid)
    is_measured_in_its_own_type = dtype == FLOAT64 and op.name not in _CORRECTLY_ROUNDED
    times = ELEMENTARY_ROUNDINGS if is_measured_in_its_own_type else 1
    return Scalar(fact.rounded(dtype, times).because(f"{place(op)} may round"))


def place(op: Operation) -> str:
    """`arith.addf at file:line:col`, or the name alone where the place is unknown."""
    diagnostic = error_at(op, op.name)
    return f"{op.name} at {diagnostic.file}:{diagnostic.line}:{diagnostic.col}"


def _joined(operands: Sequence[Scalar]) -> Grid | None:
    result: Grid | None = None
    for operand in operands:
        grid = operand.grid()
        if grid is None:
            return None
        result = grid if result is None else result.join(grid)
    return result


def _rounded_to_integer(operand: Scalar) -> Grid | None:
    grid = operand.grid()
    return None if grid is None else Grid(0, grid.bound + 1)


def _converted(op: Operation, fact: Fact, operand: Scalar, dtype: DType) -> Scalar:
    grid = None if op.name == "arith.uitofp" else operand.grid()
    if grid is not None and grid.fits(dtype):
        return Scalar(fact, lambda: grid)
    return Scalar(fact.rounded(dtype))


def _arithmetic(name: str, operands: Sequence[Scalar]) -> Grid | None:
    if name not in _SUMS and name not in _PRODUCTS:
        return None
    lhs, rhs = (operand.grid() for operand in operands)
    if lhs is None or rhs is None:
        return None
    return lhs.plus(rhs) if name in _SUMS else lhs.times(rhs)


def _integer_arithmetic(name: str, operands: Sequence[Scalar], dtype: DType) -> Grid | None:
    """As `_arithmetic`, unless the result may wrap."""
    if dtype == BOOL:
        return None
    grid = _arithmetic(name, operands)
    return grid if grid is not None and grid.bound <= np.iinfo(dtype).max else None


class BodyFacts:
    """What is known of the values of one body, found in the order of its operations."""

    def __init__(self, outside: Lookup, dtype_of: DTypeOf):
        self._outside = outside
        self._dtype_of = dtype_of
        self._known: dict[SSAValue, Scalar] = {}

    def of(self, value: SSAValue) -> Scalar:
        """What is known of `value`: of the body once it ran, else of what it captures."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._outside(value)
        return known

    def run(self, block: Block, skipped: Collection[Operation] = ()) -> None:
        """Go through the operations of `block` but those in `skipped`."""
        for op in block.ops:
            if op in skipped:
                continue
            for result in op.results:
                self._known[result] = self._result(op, result)

    def _result(self, op: Operation, result: SSAValue) -> Scalar:
        if op.name == "tensor.extract":
            indices = Fact.merge(self.of(index).fact for index in op.operands[1:])
            source = self.of(op.operands[0])
            return Scalar(Fact.merge((indices, source.fact)), source.grid)
        if not op.operands or op.regions:
            return self._outside(result)
        return scalar_result(op, tuple(map(self.of, op.operands)), self._dtype_of(result))
