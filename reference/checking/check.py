"""Checking a rewrite by running it: a function before and after, on the same random inputs.

Bits must agree (-0 is 0) where the reference proves both runs exact, which small-integer inputs
give for all convolutions. Elsewhere `after` must be within CK's tolerance of `before` evaluated in
f64: |error| <= rtol * (|value| + max |value|), rtol counting the roundings of `before`.

Elements that are NaN before, because they read memory that nothing wrote or a hole of a scatter
met an infinity, may be anything after; a report says how many there were. Elements that overflow
before, and would not in f64, may be infinite or NaN after; they set no tolerance for others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp

from convir.analysis.cost import cost_of, peak_bytes
from convir.reference import EvaluationError, FloatFormat, evaluate, find_function
from convir.reference.checking.compare import largest_error
from convir.reference.checking.inputs import DYNAMIC_SIZE, Distribution, random_arguments
from convir.reference.exactness.facts import EXACT
from convir.reference.exactness.tracker import ExactnessTracker
from convir.reference.limits import DEFAULT_MAX_STEPS
from convir.reference.ops.programs import is_program, tensor_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from convir.reference.dtypes import Array
    from convir.reference.exactness.facts import Fact

_WIDENING = 4
"""How much larger tensors of 16-bit floats are in f64."""


@dataclass(frozen=True)
class Budget:
    """How much a check may take; past it a function is not checked."""

    bytes: int = 4 << 30
    """Peak memory of one evaluation."""
    flops: int = 10**12
    """FLOPs of one evaluation, zeros included."""
    steps: int = field(default=DEFAULT_MAX_STEPS, kw_only=True)
    """How many blocks of loops, branches and calls one evaluation runs."""


@dataclass(frozen=True)
class Report:
    """What checking one module against another found."""

    checked: bool
    """False if nothing was compared: `reason` says why."""
    passed: bool
    """True if everything was compared and agrees."""
    exact: bool = False
    """Whether agreement in every bit was demanded."""
    max_error: float = 0.0
    """The largest |after - before| where it is worst against its tolerance."""
    tolerance: float = 0.0
    """What was allowed there; 0 if exact."""
    where: str = ""
    """The place of `max_error`: `@function result #i [index]`; empty if there is no error."""
    reason: str = ""
    """Why nothing was compared, or why agreement in every bit was not demanded; one clause."""
    failure: str = ""
    """Why it failed without a comparison: `after` has another type, or does not evaluate."""
    undefined: int = 0
    """Elements left out because they are NaN before."""

    def __str__(self) -> str:
        if not self.checked:
            return f"not checked: {self.reason}"
        if self.failure:
            return f"differs at {self.where}: {self.failure}"
        how = "bit for bit" if self.exact else f"not bit for bit: {self.reason}"
        left_out = f", {self.undefined} undefined elements left out" if self.undefined else ""
        error = f"largest error {self.max_error:.3g}, allowed {self.tolerance:.3g}"
        verdict = "agrees" if self.passed else f"differs at {self.where}"
        return f"{verdict}: {error} ({how}{left_out})"


@dataclass(frozen=True)
class _Run:
    """The results of one function on its random arguments."""

    arguments: tuple[Array, ...]
    results: tuple[Array, ...]
    facts: tuple[Fact, ...]
    wide: tuple[Array, ...] | None
    """The results in f64, where some result is not exact and f64 can be had."""


class Checker:
    """Compares modules with what the functions of `before` gave, which is computed once.

    `before` may be rewritten in place afterwards. `function` is the one to check, by default every
    function with a body; they are called with `arguments`, by default random ones.

    Raises:
        ValueError: there is no such function.
    """

    def __init__(
        self,
        before: ModuleOp,
        function: str | None = None,
        *,
        seed: int = 0,
        budget: Budget | None = None,
        distribution: Distribution = Distribution.INTEGERS,
        arguments: Sequence[Array] | None = None,
    ):
        self._arguments = None if arguments is None else tuple(arguments)
        self._budget = budget or Budget()
        self._seed = seed
        self._distribution = distribution
        names = _functions(before) if function is None else [function]
        self._runs = {name: self._run(before, find_function(before, name)) for name in names}

    def check(self, after: ModuleOp) -> Report:
        """Run `after` on the same arguments and compare."""
        reports = [self._check(after, name, run) for name, run in self._runs.items()]
        if not reports:
            return Report(False, False, reason="there is no function with a body")
        return _worst(reports)

    def check_function(self, after: ModuleOp, function: str) -> Report:
        """Run one function of `after` on the same arguments and compare.

        Raises:
            KeyError: `function` is not one that this checker ran.
        """
        return self._check(after, function, self._runs[function])

    def check_results(
        self, function: str, results: Sequence[Array], facts: Sequence[Fact] | None = None
    ) -> Report:
        """Compare results that were computed elsewhere.

        `facts` say what is known of them; by default they must be exact where `before` is.

        Raises:
            KeyError: `function` is not one that this checker ran.
        """
        run = self._runs[function]
        if isinstance(run, str):
            return Report(False, False, reason=run)
        return _compare_all(function, run, results, facts or (EXACT,) * len(results))

    def _arguments_of(self, function: FuncOp) -> tuple[Array, ...]:
        if self._arguments is not None:
            return self._arguments
        types, _ = tensor_types(function)
        return random_arguments(types, self._seed, self._distribution)

    def _run(self, module: ModuleOp, function: FuncOp) -> _Run | str:
        """Run a function of `before`, or say why not."""
        refusal = self._over_budget(function)
        if refusal is not None:
            return refusal
        try:
            arguments = self._arguments_of(function)
            results, facts = evaluate_tracked(
                module, function.sym_name.data, arguments, self._budget.steps
            )
        except (EvaluationError, ValueError) as error:
            return f"before: {error}"
        if all(fact.inexact is None for fact in facts):
            return _Run(arguments, results, facts, None)
        return _Run(arguments, results, facts, self._wide(module, function, arguments))

    def _wide(
        self, module: ModuleOp, function: FuncOp, arguments: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """The results in f64; None if that exceeds the budget or the bits of floats are read."""
        peak = peak_bytes(function.body.blocks[0], DYNAMIC_SIZE)
        if peak * _WIDENING > self._budget.bytes:
            return None
        name = function.sym_name.data
        try:
            return evaluate(
                module,
                name,
                arguments,
                float_format=FloatFormat.WIDE,
                max_steps=self._budget.steps,
            )
        except EvaluationError:
            return None

    def _check(self, after: ModuleOp, name: str, run: _Run | str) -> Report:
        if isinstance(run, str):
            return Report(False, False, reason=run)
        function = _functions(after).get(name)
        if function is None:
            return Report(True, False, where=f"@{name}", failure="the function is gone")
        refusal = self._over_budget(function)
        if refusal is not None:
            return Report(False, False, reason=refusal)
        try:
            results, facts = evaluate_tracked(after, name, run.arguments, self._budget.steps)
        except (EvaluationError, ValueError) as error:
            return Report(True, False, where=f"@{name}", failure=f"after: {error}")
        return _compare_all(name, run, results, facts)

    def _over_budget(self, function: FuncOp) -> str | None:
        flops = cost_of(function, DYNAMIC_SIZE).flops
        if flops > self._budget.flops:
            return f"{flops:.3g} FLOPs exceed the budget of {self._budget.flops:.3g}"
        peak = peak_bytes(function.body.blocks[0], DYNAMIC_SIZE)
        if peak > self._budget.bytes:
            return f"{peak:.3g} bytes exceed the budget of {self._budget.bytes:.3g}"
        return None


def check(
    before: ModuleOp,
    after: ModuleOp,
    function: str | None = None,
    seed: int = 0,
    budget: Budget | None = None,
    distribution: Distribution = Distribution.INTEGERS,
) -> Report:
    """Compare two modules on the same random inputs.

    Raises:
        ValueError: `before` has no such function.
    """
    checker = Checker(before, function, seed=seed, budget=budget, distribution=distribution)
    return checker.check(after)


def _functions(module: ModuleOp) -> dict[str, FuncOp]:
    """The functions of `module` that have a body."""
    functions = (op for op in module.walk() if isinstance(op, FuncOp))
    return {op.sym_name.data: op for op in functions if op.body.blocks}


def evaluate_tracked(
    module: ModuleOp,
    function: str,
    arguments: Sequence[Array],
    max_steps: int = DEFAULT_MAX_STEPS,
) -> tuple[tuple[Array, ...], tuple[Fact, ...]]:
    """As `evaluate`, with what is known of how exact each result is.

    Nothing is known of an `rt` program: it must be exact where what it was lowered from is.

    Raises:
        ValueError: there is no such function, or an argument does not match its type.
        EvaluationError: an operation is unknown to the reference, or undefined on its operands.
    """
    tracker = ExactnessTracker()
    results = evaluate(module, function, arguments, observer=tracker, max_steps=max_steps)
    func = find_function(module, function)
    returned = func.get_return_op()
    if is_program(func) or returned is None:
        return results, (EXACT,) * len(results)
    return results, tuple(tracker.fact(value) for value in returned.operands)


def _compare_all(
    function: str, run: _Run, results: Sequence[Array], facts: Sequence[Fact]
) -> Report:
    if len(results) != len(run.results):
        return Report(True, False, where=f"@{function}", failure="the number of results differs")
    if not results:
        return Report(True, True, exact=True)
    return _worst(
        [
            _compare(f"@{function} result #{i}", run, i, result, fact)
            for i, (result, fact) in enumerate(zip(results, facts, strict=True))
        ]
    )


def _compare(name: str, run: _Run, position: int, after: Array, after_fact: Fact) -> Report:
    """Compare one result with what it was before."""
    before, before_fact = run.results[position], run.facts[position]
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        found = f"{after.dtype} of shape {after.shape}"
        expected = f"{before.dtype} of shape {before.shape}"
        return Report(True, False, where=name, failure=f"{found} where {expected} was")
    reason = before_fact.inexact or after_fact.inexact
    use_wide = run.wide is not None and before_fact.inexact is not None
    expected = run.wide[position] if use_wide and run.wide is not None else before
    fact = before_fact if before_fact.inexact is not None else after_fact
    if reason is None:
        worst = largest_error(expected, after, 0.0)
    else:
        declared = before if expected is not before else None
        worst = largest_error(expected, after, fact.relative_error, fact.absolute_error, declared)
    if worst.undefined == expected.size and expected.size:
        return Report(False, False, reason=f"{name} is undefined everywhere before")
    index: list[int] = []
    if expected.size:
        index = [int(i) for i in np.unravel_index(worst.position, expected.shape)]
    return Report(
        checked=True,
        passed=worst.error <= worst.allowed,
        exact=reason is None,
        max_error=worst.error,
        tolerance=worst.allowed,
        where=f"{name} {index}" if worst.error > 0 else "",
        reason=reason or "",
        undefined=worst.undefined,
    )


def _worst(reports: Sequence[Report]) -> Report:
    """The one report of several: not checked before failed before largest error."""
    first = next((r for r in reports if not r.checked), None)
    first = first or next((r for r in reports if not r.passed), None)
    if first is not None:
        return first
    return max(reports, key=lambda r: (not r.exact, r.max_error))
