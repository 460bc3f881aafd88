"""Depthwise convolutions of 16-bit floats, channels last: tiles widen rows as they read them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host_contractions import BFLOAT, TARGETS, Case, run, window

from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import X86_64, X86_64_V3, target

CASE = Case(2, 70, 70, (9, 8), (window(3, 1, 1), window(3, 2, 1)), groups=70)
HALF = ("f16", "f16", "f16")


@pytest.mark.parametrize("types", [BFLOAT, HALF])
@pytest.mark.parametrize("kind", ["fprop", "dgrad"])
@pytest.mark.parametrize("cpu", TARGETS)
def test_sums_of_small_integers_are_exact(cpu: str, kind: str, types: tuple[str, str, str]) -> None:
    run(replace(CASE, types=types), kind, cpu)  # type: ignore[arg-type]


@pytest.mark.fast
def test_nothing_is_copied() -> None:
    spec = replace(CASE, types=BFLOAT).spec("fprop")
    assert "a_copy" not in plan_contraction(spec, target(X86_64)).workspace


@pytest.mark.fast
def test_f16_is_copied_where_no_instruction_widens_it() -> None:
    spec = replace(CASE, types=HALF).spec("fprop")
    assert "a_copy" in plan_contraction(spec, target(X86_64)).workspace
    assert "a_copy" not in plan_contraction(spec, target(X86_64_V3)).workspace
