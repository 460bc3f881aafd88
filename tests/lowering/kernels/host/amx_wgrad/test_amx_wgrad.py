"""Gradients of weights on tile registers, exact on small integers.

Where the CPU of a test has no AMX, only models of its instructions run: the test's id says which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from host_contractions import Case, run, window
from tile_kernels import modelled, native

from convir.lowering.kernels.host.amx_wgrad.launch import joined_taps, refusal
from convir.lowering.kernels.host.target import X86_64_V4_AMX, target

if TYPE_CHECKING:
    from tile_kernels import Compiled

CASES = {
    "whole tiles": Case(2, 64, 32, (9, 8), (window(3, 1, 1), window(3, 1, 1))),
    "one register of either": Case(1, 16, 5, (9, 11), (window(3, 1, 1), window(1))),
    "a rest of one register": Case(1, 48, 40, (9, 11), (window(3, 2, 1), window(3, 1, 1))),
    "a rest of two registers": Case(1, 90, 61, (5, 7), (window(2), window(3, 1, 1))),
    "odd channels": Case(2, 3, 7, (12, 13), (window(7, 2, 3), window(7, 2, 3))),
    "several blocks": Case(2, 32, 32, (40, 41), (window(1), window(3, 1, 1))),
    "several items": Case(1, 640, 130, (5, 6), (window(3, 1, 1), window(3, 1, 1))),
    "one pixel": Case(1, 32, 33, (1,), (window(1),)),
    "groups": Case(1, 64, 96, (6, 7), (window(3, 1, 1), window(3, 2, 1)), groups=2),
    "narrow groups": Case(2, 128, 64, (6, 7), (window(3, 1, 1), window(3, 2, 1)), groups=16),
    "three dimensions": Case(1, 32, 6, (5, 6, 7), (window(3, 2, 1), window(2, 1, 1), window(1, 2))),
    "lines of taps": Case(2, 4, 20, (11, 14), (window(5, 1, 2), window(4, 3, 1))),
    "lines of taps, no padding": Case(1, 2, 9, (40,), (window(9, 2),)),
    "lines of taps in a volume": Case(
        1, 3, 6, (5, 6, 7), (window(2), window(3, 1, 1), window(3, 2, 1))
    ),
    "dilated": Case(1, 32, 9, (13, 12), (window(3, 1, 2, 2), window(3, 2, 3, 3))),
}

both = pytest.mark.parametrize("compiled", [modelled, native])


LINES = {
    *("a rest of one register", "odd channels", "lines of taps", "lines of taps, no padding"),
    "lines of taps in a volume",
}


@both
@pytest.mark.parametrize("name", CASES)
def test_sums_of_small_integers_are_exact(name: str, compiled: Compiled) -> None:
    case = replace(CASES[name], types=("bf16", "f32", "bf16"))
    run(case, "wgrad", X86_64_V4_AMX, compiled=compiled)


@both
@pytest.mark.parametrize("orders", [(1, 1, 1), (0, 2, 1)])
@pytest.mark.parametrize("name", ["a rest of one register", "odd channels"])
def test_any_layout_is_read_and_written(
    name: str, orders: tuple[int, int, int], compiled: Compiled
) -> None:
    case = replace(CASES[name], types=("bf16", "f32", "bf16"), orders=orders)
    run(case, "wgrad", X86_64_V4_AMX, compiled=compiled)


@pytest.mark.fast
@pytest.mark.parametrize("name", CASES)
def test_lines_of_taps_are_one_where_registers_would_be_empty(name: str) -> None:
    spec = replace(CASES[name], types=("bf16", "f32", "bf16")).spec("wgrad")
    assert (joined_taps(spec) is not None) == (name in LINES)


@pytest.mark.fast
def test_depthwise_gradients_are_refused() -> None:
    case = Case(2, 48, 48, (9, 8), (window(3, 1, 1), window(3, 1, 1)), groups=48)
    spec = replace(case, types=("bf16", "f32", "bf16")).spec("wgrad")
    reason = refusal(spec, target(X86_64_V4_AMX))
    assert reason is not None
    assert "depthwise" in reason.reason


@both
def test_sums_are_added_to_results(compiled: Compiled) -> None:
    case = replace(CASES["groups"], types=("bf16", "f32", "bf16"), accumulate=True)
    run(case, "wgrad", X86_64_V4_AMX, compiled=compiled)
