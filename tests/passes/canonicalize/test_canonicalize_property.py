"""`canonicalize`, `cse` and `dce` executed: a function computes the same bits before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from hypothesis import HealthCheck, given, settings
from random_programs.graphs import functions

from convir.dialects.context import new_context, read_module
from convir.passes.canonicalize.pass_ import CanonicalizePass
from convir.passes.cse import CsePass
from convir.passes.dce import DcePass
from convir.reference import evaluate

if TYPE_CHECKING:
    import numpy.typing as npt
    from xdsl.passes import ModulePass

    Case: TypeAlias = tuple[str, tuple[npt.NDArray[np.generic], ...]]

PIPELINES: tuple[tuple[ModulePass, ...], ...] = (
    (CanonicalizePass(),),
    (CsePass(),),
    (DcePass(),),
    (CanonicalizePass(), CsePass(), CanonicalizePass(), DcePass()),
)


def run(case: Case, passes: tuple[ModulePass, ...] = ()) -> tuple[bytes, ...]:
    """The bytes of every result after `passes`, NaN being one number."""
    text, arguments = case
    ctx = new_context()
    module = read_module(text, "random.mlir", ctx)
    for one in passes:
        one.apply(ctx, module)
        module.verify()
    with np.errstate(all="ignore"):
        results = evaluate(module, "main", arguments)
    return tuple(np.where(np.isnan(r), np.float32(np.nan), r).tobytes() for r in results)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=functions())
def test_every_bit_stays(case: Case) -> None:
    before = run(case)
    for passes in PIPELINES:
        assert run(case, passes) == before, passes


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=functions())
def test_canonicalizing_twice_changes_nothing_more(case: Case) -> None:
    ctx = new_context()
    module = read_module(case[0], "random.mlir", ctx)
    CanonicalizePass().apply(ctx, module)
    once = str(module)
    CanonicalizePass().apply(ctx, module)
    assert str(module) == once
