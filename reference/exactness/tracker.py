"""Which values of an evaluation are exact, and how far the others may be off.

A value is *exact* if every operation on the way to it gave the number that real arithmetic gives,
whatever the order of its sums, or rounded such a number once, to nearest, in a conversion. Two
programs that mean the same then agree in every bit, so agreement in every bit may be demanded.

Proof is by `Grid`, measured on the operands of an operation and carried through its body: if all
sums that a reduction can form lie on a grid that its type holds, none of them rounds.

Where a value is not exact, the roundings on the way to it are counted by type. CK's tolerance is
their half ulps: rtol = max(e(compute), e(out), e(accumulate) * n), n the number of terms.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import BlockArgument, OpResult

from convir.dialects.conv.ops import ConvOp
from convir.reference.dtypes import Array, DType, constant, dtype_of, is_float
from convir.reference.exactness.body_facts import BodyFacts, Scalar, place, scalar_result
from convir.reference.exactness.facts import EXACT, Fact
from convir.reference.exactness.grid import Grid
from convir.reference.ops.convolution import terms_of
from convir.reference.ops.linalg import Combiner, combiners_of, nest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.reference.interpreter import Frame
    from convir.reference.ops.nest import Nest

_ARITHMETIC_DIALECTS = ("arith.", "math.")
_DECIDING_OPERANDS = {
    "func.call": 0,
    "kernel.call": 0,
    "kernel.region": 0,
    "scf.execute_region": 0,
    "scf.for": 3,
    "scf.if": 1,
    "scf.while": 0,
}
"""Ops whose results are what their regions yield; how many operands decide which that is."""


class ExactnessTracker:
    """An `Observer` that knows a `Fact` of every value that has been computed."""

    def __init__(self) -> None:
        self._facts: dict[SSAValue, Fact] = {}
        self._grids: dict[SSAValue, Grid] = {}

    def fact(self, value: SSAValue) -> Fact:
        """What is known of `value`; arguments are exact."""
        return self._facts.get(value, EXACT)

    def bind(self, values: Sequence[SSAValue], sources: Sequence[SSAValue]) -> None:
        """`values` now hold what `sources` hold."""
        facts = [self.fact(source) for source in sources]
        for value, fact in zip(values, facts, strict=False):
            self._facts[value] = fact
            self._grids.pop(value, None)

    def observe(self, op: Operation, results: Sequence[Array], frame: Frame) -> None:
        """`op` has given `results`; its operands are still in `frame`."""
        deciding = _DECIDING_OPERANDS.get(op.name)
        if deciding is not None:
            decided = Fact.merge(map(self.fact, op.operands[:deciding]))
            facts = [Fact.merge((self.fact(result), decided)) for result in op.results]
        else:
            facts = self._facts_of(op, frame)
        for result, fact in zip(op.results, facts, strict=True):
            self._facts[result] = fact
            self._grids.pop(result, None)

    def _facts_of(self, op: Operation, frame: Frame) -> Sequence[Fact]:
        operands = tuple(frame.get(op, operand) for operand in op.operands)
        nest = nest_of(op, operands, frame)
        if nest is not None:
            return self._facts_of_nest(nest)
        if op.name.startswith(_ARITHMETIC_DIALECTS) and op.operands:
            scalars = tuple(self._outside(op, frame, operand) for operand in op.operands)
            return [
                scalar_result(op, scalars, frame.dtype(op, result)).fact for result in op.results
            ]
        if isinstance(op, ConvOp):
            return [self._convolved(op, frame)]
        sources = [*op.operands, *(value for inner in op.walk() for value in inner.operands)]
        if not any(_computes(inner) for inner in op.walk() if inner is not op):
            return [Fact.merge(map(self.fact, sources))] * len(op.results)
        reason = f"{place(op)} computes in its region"
        return [Fact.merge(map(self.fact, sources)).because(reason)] * len(op.results)

    def _outside(self, op: Operation, frame: Frame, value: SSAValue) -> Scalar:
        """What is known of a value that `op`, or its body, reads from around it."""
        return Scalar(self.fact(value), partial(self._measured, value, frame.get(op, value)))

    def _measured(self, value: SSAValue, array: Array) -> Grid:
        grid = self._grids.get(value)
        if grid is None:
            grid = self._grids[value] = Grid.of(np.asarray(array))
        return grid

    def _facts_of_nest(self, nest: Nest) -> Sequence[Fact]:
        body = BodyFacts(partial(self._seen_from_body, nest), partial(nest.frame.dtype, nest.op))
        if not nest.sequential_loops():
            body.run(nest.body)
            return [body.of(value).fact for value in nest.yielded]
        combiners = combiners_of(nest)
        if combiners is None:
            body.run(nest.body)
            reason = f"{place(nest.op)} reduces with a body that is not recognised"
            return [body.of(value).fact.because(reason) for value in nest.yielded]
        body.run(nest.body, {combiner.op for combiner in combiners})
        return [
            self._reduced(nest, body, combiner, position)
            for position, combiner in enumerate(combiners)
        ]

    def _reduced(self, nest: Nest, body: BodyFacts, combiner: Combiner, position: int) -> Fact:
        """What is known of a result that combines one value for each iteration of a reduction."""
        init = body.of(nest.init_arguments[position])
        value = body.of(combiner.value)
        fact = Fact.merge((init.fact, value.fact))
        dtype = nest.inits[position].dtype
        if combiner.ufunc not in (np.add, np.multiply) or not is_float(dtype):
            return fact
        terms = prod(nest.bounds[loop] for loop in nest.sequential_loops())
        start, step = init.grid(), value.grid()
        if combiner.ufunc is np.add and _sum_fits(start, step, terms, dtype):
            return fact
        before = Fact.merge(map(self.fact, nest.op.operands)).rounded(dtype, terms)
        return Fact.merge((fact, before)).because(_may_round(nest.op, terms))

    def _convolved(self, op: ConvOp, frame: Frame) -> Fact:
        """What is known of the result of a convolution: one sum, then one rounding."""
        fact = Fact.merge(map(self.fact, op.operands))
        if op.accumulator == i32:
            return fact
        operands = [frame.get(op, value) for value in op.operands]
        lhs, rhs, init = map(self._measured, op.operands, operands)
        float_format = frame.interpreter.float_format
        accumulator = dtype_of(op.accumulator, float_format) or frame.dtype(op, op.result)
        terms = terms_of(op, operands)
        total = init.plus(lhs.times(rhs).repeated(terms))
        if not total.fits(accumulator):
            fact = fact.rounded(accumulator, terms).because(_may_round(op, terms))
        dtype = frame.dtype(op, op.result)
        return fact if total.fits(dtype) or dtype == accumulator else fact.rounded(dtype)

    def _seen_from_body(self, nest: Nest, value: SSAValue) -> Scalar:
        """What is known of a body's argument, of a constant in it, or of a value it captures."""
        if isinstance(value, BlockArgument) and value.block is nest.body:
            source = nest.op.operands[value.index]
            array = (*nest.inputs, *nest.inits)[value.index]
            return Scalar(self.fact(source), partial(self._measured, source, array))
        if not isinstance(value, OpResult) or value.op.parent is not nest.body:
            return self._outside(nest.op, nest.frame, value)
        if (attribute := value.op.properties.get("value")) is not None:
            array = constant(attribute, value.type, nest.frame.interpreter.float_format)
            return Scalar(EXACT) if array is None else Scalar(EXACT, partial(Grid.of, array))
        if value.op.regions:
            return Scalar(EXACT.because(f"{place(value.op)} computes in its region"))
        return Scalar(EXACT)


def _may_round(op: Operation, terms: int) -> str:
    return f"a sum of {terms} terms in {place(op)} may round"


def _sum_fits(start: Grid | None, step: Grid | None, terms: int, dtype: DType) -> bool:
    """Whether no partial sum of `start` and up to `terms` of `step`, in any order, rounds."""
    if start is None or step is None:
        return False
    return start.plus(step.repeated(terms)).fits(dtype)


def _computes(op: Operation) -> bool:
    return op.name.startswith(_ARITHMETIC_DIALECTS) and bool(op.operands)
