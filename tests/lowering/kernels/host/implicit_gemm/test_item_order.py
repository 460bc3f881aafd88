"""Which items of a contraction follow each other, and which of their weights are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from host_kernels import kernel_of

from convir.dialects.conv.windows import Window
from convir.lowering.bodies.contraction.convolution import Convolution, Layouts
from convir.lowering.kernels.host.implicit_gemm.kernel import RowKernel
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import target

if TYPE_CHECKING:
    from convir.lowering.kernels.host.launch import HostLaunch

CPU = target("x86-64-v3")


def plan(n: int, c: int, k: int, size: int, taps: int) -> HostLaunch:
    window = Window(taps, pad_low=taps // 2, pad_high=taps // 2)
    layouts = Layouts("NHWC", "KRSC", "NHWC")
    sizes = (size, size)
    return plan_contraction(
        Convolution(n, c, k, sizes, sizes, (window, window), layouts).fprop(), CPU
    )


@pytest.mark.parametrize(
    ("problem", "first"),
    [((1, 512, 192, 7, 3), True), ((1, 512, 480, 7, 3), False), ((8, 256, 1024, 14, 1), False)],
)
def test_pieces_of_few_positions_follow_each_other_on_a_panel(
    problem: tuple[int, int, int, int, int], first: bool
):
    assert kernel_of(plan(*problem), RowKernel).cuts.panels_first == first


@pytest.mark.parametrize(
    ("problem", "asks"),
    [((1, 512, 192, 7, 3), True), ((8, 512, 480, 14, 3), True), ((8, 64, 256, 56, 1), False)],
)
def test_weights_that_stay_in_no_cache_are_asked_for(
    problem: tuple[int, int, int, int, int], asks: bool
):
    assert ("@llvm.prefetch" in plan(*problem).ir) == asks
