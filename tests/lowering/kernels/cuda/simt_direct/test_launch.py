"""The batch is an argument of `simt_direct`'s launches, and no constant of its code."""

from __future__ import annotations

import pytest
from cuda_contractions import contraction_of_line

from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Scalar
from convir.lowering.kernels.registry import plan_on
from convir.lowering.kernels.target import DEFAULT_TARGET

LAYOUTS = {
    "channels last": "--in_layout NHWC --fil_layout NHWC --out_layout NHWC",
    "channels first": "",
}
LINE = "convfp16 -n {n} -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -g 64 -F {direction}"


def launch_of(line: str, tile: str = "2x1") -> CudaKernel:
    config = f"simt_direct {tile} warps=8 blocks=132x2"
    plan = plan_on(DEFAULT_TARGET, contraction_of_line(line), config)
    assert isinstance(plan, KernelPlan)
    (kernel,) = plan.kernels
    return kernel


@pytest.mark.parametrize("direction", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_cubin_computes_every_batch(layout: str, direction: int) -> None:
    few, many = (
        launch_of(f"{LINE.format(n=n, direction=direction)} {LAYOUTS[layout]}") for n in (2, 48)
    )
    assert few.source == many.source
    assert [few.arguments[-1], many.arguments[-1]] == [Scalar(2), Scalar(48)]
    assert few.arguments[:-1] == many.arguments[:-1]
    assert few.grid < many.grid


def test_more_units_than_32_bits_count_are_other_code() -> None:
    small, large = (launch_of(LINE.format(n=n, direction=1), "1x1") for n in (48, 43_000))
    assert "is_counted_in_32_bits = 1;" in small.source
    assert "is_counted_in_32_bits = 0;" in large.source
