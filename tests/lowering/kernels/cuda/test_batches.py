"""The batch is an argument of a launch: one cubin computes every batch.

Which families that holds for is written down here; the others have the batch in their code.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from conv_lines import CUBES, NHWC, NWC, THREE
from cuda_contractions import contraction_of_line
from plan_runs import check_config

from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer, Scalar
from convir.lowering.kernels.registry import FAMILIES, plan_on
from convir.lowering.kernels.target import DEFAULT_TARGET

DEPTHWISE = f"convfp16 -c 64 -H 12 -W 10 -k 64 {THREE} -g 64"
FIRST = f"convfp16 -c 3 -H 20 -W 24 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 1 {NHWC}"
LAST = f"convbfp16 -c 3 -H 20 -W 24 -k 32 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}"
GROUPS = f"convbfp16 -c 256 -H 14 -W 14 -k 256 {THREE} -g 8 {NHWC}"
PLANES = f"convbfp16 -c 256 -H 14 -W 14 -k 256 {THREE} -g 32"
MERGED = f"convfp16 -c 512 -H 14 -W 14 -k 512 {THREE} -g 64 {NHWC}"
DENSE = f"convfp16 -c 64 -H 16 -W 16 -k 64 -y 3 -x 1 -p 1 {NHWC}"
WIDE = f"convfp16 -c 64 -H 6 -W 16 -k 64 -y 1 -x 4 -q 1 -v 2 {NHWC}"
POINTS = f"convbfp16 -c 64 -H 12 -W 14 -k 128 -y 1 -x 1 {NHWC}"
LINE = f"convfp16 -c 32 -W 512 -k 64 -x 4 -q 1 -v 2 -F 2 {NWC}"
VOLUME = (
    f"convfp16 --spatial_dim 3 -c 64 --in_d 4 -k 64 {CUBES}"
    " --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
)
# By family lines without a batch, each with a config that every batch below is legal for.
ONE_CUBIN: dict[str, dict[str, str]] = {
    "few_channels_wgrad": {
        FIRST.replace("-F 1", "-F 4"): "1x16 channels=64 jobs=4 stages=4 warps=8 blocks=80x1",
    },
    "few_input_channels": {FIRST: "4x64 tiles=2 warps=4 blocks=132x3"},
    "few_output_channels": {
        LAST: "12 k_warps=1 tiles=1 stages=3 warps=8 producer_warps=1 blocks=132x2",
    },
    "grouped_direct": {
        f"{GROUPS} -F 1": "32x14 warp_channels=32 rows=2 outputs=2 tiles=1 stages=2 warps=12"
        " producer_warps=4 copies=tma instruction=wgmma blocks=132x1",
        f"{MERGED} -F 2": "64x14 warp_channels=32 rows=2 outputs=2 tiles=1 stages=2 warps=4"
        " producer_warps=0 copies=async instruction=mma blocks=132x2",
    },
    "grouped_planes": {
        f"{PLANES} -F 1": "14x2 segments=1 groups=1 images=1 channels=8 unroll=2 warps=7 stages=2"
        " resident=2",
        f"{PLANES} -F 4": "14x2 segments=1 groups=2 images=1 channels=8 unroll=1 warps=4 stages=2"
        " resident=2",
    },
    "grouped_wgrad": {
        f"{MERGED} -F 4": "64x14 warp_channels=16 rows=2 tiles=1 stages=5 warps=8"
        " producer_warps=4 copies=tma blocks=132x1",
    },
    "halo_implicit_gemm": {
        f"convbfp16 -c 32 -H 12 -W 14 -k 64 {THREE} -F 1 {NHWC}": "1x16x8 channels=64 stages=4"
        " warps=4 resident=2",
        f"{VOLUME} -H 7 -W 6 -F 2": "2x8x8 channels=64 stages=3 warps=4 resident=1",
    },
    "pointwise": {f"{POINTS} -F 1": "32 warps=4 blocks=132x2"},
    "sm90_grouped_direct": {
        f"{GROUPS} -F 2": "7 stages=3 group_blocks=16 blocks=132x1",
        f"{VOLUME} -H 7 -W 6 -g 8 -F 1": "4 stages=3 group_blocks=64 blocks=132x1",
    },
    "sm90_grouped_wgrad": {f"{GROUPS} -F 4": "8 stages=3 blocks=132x1"},
    "sm90_halo_implicit_gemm": {
        f"{DENSE} -F 1": "8x8 chunk=64 columns=64 stages=2 consumers=4 store=64 blocks=132",
        f"{DENSE} -u 2 -F 1": "8x8 chunk=64 columns=64 stages=2 consumers=4 store=64 blocks=132",
        f"{DENSE} -u 2 -F 2": "8x8 chunk=64 columns=64 stages=3 consumers=2 store=64 blocks=132",
    },
    "sm90_halo_wgrad": {
        f"{DENSE} -F 4": "1x1x16 channels=64x64 stages=4 consumers=1 parts=1 blocks=132"
    },
    "sm90_fused_dgrad": {LINE: "stages=8 store=32 blocks=132"},
    "sm90_implicit_gemm": {
        f"{DENSE} -F 1": "128x64 stages=6 schedule=pingpong store=64 blocks=132",
        f"{POINTS} -F 1": "64x64 stages=8 schedule=pingpong store=64 blocks=132",
        f"{POINTS} -u 2 -v 2 -F 2": "128x64 stages=6 schedule=cooperative store=64 blocks=132",
        f"{WIDE} -F 2": "128x64 stages=6 schedule=cooperative store=32 blocks=132",
    },
    "sm90_wgrad": {
        f"{DENSE} -F 4": "64x64 stages=8 roles=1:4 cluster=8 partition=split-k:8:reduce-scatter"
        " blocks=132",
        f"{DENSE} -F 4 -u 2": "128x64 stages=8 roles=4:8 cluster=1 partition=data-parallel"
        " blocks=132",
        f"{DENSE} -F 4 -v 2": "64x128 stages=6 roles=0:4 cluster=1 partition=split-k:6:tree"
        " blocks=132",
    },
    "simt_direct": {
        f"{DEPTHWISE} -F 1 {NHWC}": "2x1 warps=8 blocks=132x2",
        f"{DEPTHWISE} -F 2": "1x1 warps=2 blocks=132x8",
        f"{VOLUME} -H 5 -W 6 -g 64 -F 1": "1x1 warps=2 blocks=132x8",
    },
}
OTHERS = {
    "block_diagonal",
    "col2im",
    "depthwise",
    "layout_conversion",
    "multi_tap_wgrad",
    "simt_wgrad",
    "sm80_implicit_gemm",
    "sm90_row_packed_wgrad",
}
"""Families with the batch in their code, or that launch copies and another family's kernels, as
`block_diagonal` and `layout_conversion` do."""
BATCHES = (1, 2, 9, 48, 200)
FEWEST = {
    **{"few_channels_wgrad": 9, "grouped_planes": 48, "grouped_wgrad": 9, "sm90_grouped_wgrad": 9},
    **{"sm90_halo_wgrad": 9, "sm90_wgrad": 9},
}
"""The least batch of those that share a cubin: fewer have fewer splits, or leave something out."""


def batches_of(family: str) -> tuple[int, ...]:
    return tuple(batch for batch in BATCHES if batch >= FEWEST.get(family, 1))


CASES = [(family, *case) for family, cases in ONE_CUBIN.items() for case in cases.items()]


def launch_of(family: str, line: str, config: str, batch: int) -> CudaKernel:
    problem = contraction_of_line(f"{line} -n {batch}")
    plan = plan_on(DEFAULT_TARGET, problem, f"{family} {config}")
    assert isinstance(plan, KernelPlan), plan
    return plan.kernels[-1]


@pytest.mark.parametrize(("family", "line", "config"), CASES)
def test_one_cubin_computes_every_batch(family: str, line: str, config: str) -> None:
    batches = batches_of(family)
    launches = [launch_of(family, line, config, batch) for batch in batches]
    assert len({launch.source for launch in launches}) == 1
    scalars = [[x for x in launch.arguments if isinstance(x, Scalar)] for launch in launches]
    assert len(set(map(tuple, scalars))) == len(batches)
    pointers = [[x for x in launch.arguments if isinstance(x, Pointer)] for launch in launches]
    assert pointers.count(pointers[0]) == len(batches)
    first = launches[0]
    for other in launches:
        varied = replace(other, arguments=first.arguments, grid=first.grid)
        assert varied == first


def test_more_units_than_32_bits_count_are_other_code() -> None:
    config = "1x1 warps=8 blocks=132x2"
    line = f"convfp16 -c 64 -H 28 -W 28 -k 64 {THREE} -g 64 -F 1"
    small, large = (launch_of("simt_direct", line, config, batch) for batch in (48, 43_000))
    assert "is_counted_in_32_bits = 1;" in small.source
    assert "is_counted_in_32_bits = 0;" in large.source


def test_few_tiles_of_unlike_phases_are_in_the_code() -> None:
    config = "128x64 stages=6 schedule=cooperative store=64 blocks=132"
    line = f"convfp16 -c 64 -H 56 -W 56 -k 64 {THREE} -u 2 -v 2 -F 2 {NHWC}"
    launches = [launch_of("sm90_implicit_gemm", line, config, n) for n in (8, 16, 200, 400)]
    few, more, many, most = (launch.source for launch in launches)
    assert few != more
    assert many == most


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("family", "line", "config", "batch"),
    [(*case, batch) for case in CASES for batch in batches_of(case[0])],
)
def test_results_of_every_batch(family: str, line: str, config: str, batch: int) -> None:
    check_config(f"{line} -n {batch}", f"{family} {config}")


def test_other_families_have_the_batch_in_their_code() -> None:
    assert {family.name for family in FAMILIES} - ONE_CUBIN.keys() == OTHERS
