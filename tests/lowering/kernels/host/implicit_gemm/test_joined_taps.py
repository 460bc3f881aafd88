"""Rows of few odd channels of bf16: copied with their taps behind each other, exact on integers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cpu_instructions import emulated
from host_contractions import BFLOAT, Case, run, window

from convir.lowering.kernels.host.implicit_gemm.joined_taps import JoinedTaps
from convir.lowering.kernels.host.implicit_gemm.launch import launch
from convir.lowering.kernels.host.target import (
    HOST,
    X86_64_V4,
    X86_64_V4_BF16,
    CpuTarget,
    target,
)
from convir.runtime.host.contraction import HostKernel
from convir.runtime.host.jit import AS_EMITTED, compile_ir

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction

CASES = {
    "seven by seven": Case(2, 3, 50, (12, 13), (window(7, 2, 3), window(7, 2, 3))),
    "one channel": Case(1, 1, 40, (9, 40), (window(5, 1, 2), window(5, 1, 2))),
    "taps apart": Case(1, 3, 65, (11, 12), (window(3, 1, 2, 2), window(3, 1, 2, 2))),
    "one tap": Case(2, 45, 61, (5, 6), (window(1, 2), window(1, 2))),
    "one dimension": Case(2, 7, 70, (50,), (window(9, 1, 4),)),
    "rows of several lines": Case(1, 33, 30, (6, 7), (window(3, 1, 1), window(3, 1, 1))),
}


def modelled(spec: Contraction, cpu: CpuTarget) -> HostKernel:
    """The kernel for a CPU with AVX512-BF16, whose instruction is a model."""
    assert JoinedTaps.of(replace(spec, a=replace(spec.a, stride=1)), cpu) is not None
    plan, host = launch(spec, cpu), target(HOST)
    assert "join_taps" in plan.ir
    assert "dpbf16ps" in plan.ir
    ir = emulated(plan.ir)
    return HostKernel(plan, compile_ir(ir, exports=plan.entries, cpu=host, options=AS_EMITTED))


@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 1, 1), (0, 2, 1)])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_small_integers_are_exact(name: str, orders: tuple[int, int, int]) -> None:
    case = replace(CASES[name], types=BFLOAT, orders=orders)
    run(case, "fprop", X86_64_V4_BF16, compiled=modelled)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_stride_one_are_exact(name: str) -> None:
    case = CASES[name]
    if any(w.stride > 1 for w in case.windows):
        pytest.skip("its gradient has several phases")
    swapped = replace(case, c=case.k, k=case.c, types=BFLOAT)
    run(swapped, "dgrad", X86_64_V4_BF16, compiled=modelled)


def test_sums_are_added_to_results() -> None:
    case = replace(CASES["one channel"], types=("bf16", "bf16", "f32"), accumulate=True)
    run(case, "fprop", X86_64_V4_BF16, compiled=modelled)


def test_rows_of_other_cpus_and_of_whole_words_are_read_as_they_lie() -> None:
    odd = replace(CASES["one tap"], types=BFLOAT).spec("fprop")
    assert JoinedTaps.of(odd, target(X86_64_V4)) is None
    even = replace(CASES["one tap"], c=46, types=BFLOAT).spec("fprop")
    assert JoinedTaps.of(even, target(X86_64_V4_BF16)) is None
