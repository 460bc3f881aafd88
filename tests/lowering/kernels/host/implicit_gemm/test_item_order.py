"""Which items of a contraction follow each other, and which of their weights are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from host_kernels import kernel_of

from convir.dialects.conv.windows import Window
from convir.lowering.bodies.contraction.convolution import Convolution, Layouts
from convir.lowering.kernels.host.implicit_gemm.blocking import MIN_ITEMS
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
    [((1, 512, 192, 14, 3), True), ((1, 32, 192, 14, 3), False), ((8, 256, 1024, 14, 1), False)],
)
def test_few_pieces_follow_each_other_on_weights_that_stay_in_no_cache(
    problem: tuple[int, int, int, int, int], first: bool
):
    assert kernel_of(plan(*problem), RowKernel).cuts.panels_first == first


@pytest.mark.parametrize(
    ("problem", "units"),
    [((1, 512, 192, 7, 3), 1), ((1, 32, 192, 14, 3), 2), ((8, 256, 1024, 14, 1), 14)],
)
def test_one_thread_has_no_more_items_than_its_caches_need(
    problem: tuple[int, int, int, int, int], units: int
):
    cuts = kernel_of(plan(*problem), RowKernel).cuts
    together = cuts.chunks_together * cuts.parts_together
    assert cuts.items_per_group == units * together
    assert together > 1 or units + 2 >= MIN_ITEMS


@pytest.mark.parametrize("size", [14, 20, 24])
def test_threads_have_no_fewer_items_than_wanted(size: int):
    assert kernel_of(plan(1, 64, 64, size, 3), RowKernel).cuts.items_per_group >= MIN_ITEMS


@pytest.mark.parametrize(
    ("problem", "asks"),
    [((1, 512, 192, 7, 3), True), ((8, 512, 480, 14, 3), True), ((8, 64, 256, 56, 1), False)],
)
def test_weights_that_stay_in_no_cache_are_asked_for(
    problem: tuple[int, int, int, int, int], asks: bool
):
    assert ("@llvm.prefetch" in plan(*problem).ir) == asks
