"""Every element of the gradients of weights that the wgmma template stores where pixels are
contiguous, on a GPU: small integers, whose sums are exact, on poisoned memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conv_cases import small_integers, torch_answer
from conv_lines import NCHW
from family_problems import module_of, problem_of, reading_of
from gpu import cupy_or_skip
from plan_runs import assert_computes

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_wgrad.family import SM90_WGRAD
from convir.runtime.cuda import toolkit

pytestmark = pytest.mark.gpu

FILTER_LAST = "--in_layout NCHW --fil_layout NHWC --out_layout NCHW"
PIXELS = "--in_layout NHWC --fil_layout NCHW --out_layout NCHW"
PIXELS_FILTER_LAST = "--in_layout NHWC --fil_layout NHWC --out_layout NCHW"
VOLUME = "--in_layout NCDHW --fil_layout NCDHW --out_layout NCDHW"
TIME = "--in_layout NCW --fil_layout NCW --out_layout NCW"

WHOLE = f"-n 3 -c 64 -H 8 -W 8 -k 64 -y 1 -x 1 -F 4 {NCHW}"
"""A step is an image."""
TAIL = f"-n 5 -c 72 -H 12 -W 10 -k 136 -y 1 -x 1 -F 4 {NCHW}"
ODD_CHANNELS = f"-n 2 -c 67 -H 16 -W 13 -k 35 -y 1 -x 1 -F 4 {NCHW}"
"""Results whose rows begin anywhere."""
MANY = f"-n 32 -c 256 -H 28 -W 28 -k 320 -y 1 -x 1 -F 4 {NCHW}"
COLUMN = f"-n 3 -c 72 -H 16 -W 24 -k 136 -y 3 -x 1 -p 1 -F 4 {NCHW}"
COLUMN_FILTER_LAST = COLUMN.replace(NCHW, FILTER_LAST)
BEYOND = f"-n 3 -c 40 -H 6 -W 64 -k 72 -y 2 -x 1 -p 3 -q 0 -F 4 {NCHW}"
"""Padding beyond an even filter."""
STRIDED_COLUMN = f"-n 3 -c 40 -H 15 -W 16 -k 72 -y 3 -x 1 -p 1 -u 2 -F 4 {NCHW}"
DILATED = f"--spatial_dim 1 -n 4 -c 40 -W 128 -k 24 -x 3 -q 8 -v 1 -j 8 -F 4 {TIME}"
SLICES = (
    "--spatial_dim 3 -n 2 -c 64 --in_d 9 -H 16 -W 8 -k 64 --fil_d 3 -y 3 -x 1 --pad_d 1 -p 1 -q 0 "
    f"--conv_stride_d 2 -u 1 -v 1 --dilation_d 1 -l 1 -j 1 -F 4 {VOLUME}"
)
WINDOW = f"-n 5 -c 72 -H 12 -W 10 -k 136 -y 3 -x 3 -p 1 -q 1 -F 4 {PIXELS}"
WINDOW_FILTER_LAST = WINDOW.replace(PIXELS, PIXELS_FILTER_LAST)
STRIDED_WINDOW = f"-n 3 -c 64 -H 32 -W 16 -k 200 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -F 4 {PIXELS}"
POINTS = f"-n 5 -c 72 -H 12 -W 10 -k 136 -y 1 -x 1 -F 4 {PIXELS}"
"""A plain matrix of A beside planes of C."""

HALF = [
    (WHOLE, "64x64 4 1 data-parallel 1:4"),
    (WHOLE, "64x64 4 1 split-k:3:reduce-scatter 1:4"),
    (TAIL, "128x64 4 1 data-parallel"),
    (TAIL, "128x128 4 1 split-k:3:reduce-scatter"),
    (TAIL, "64x128 4 1 split-k:4:linear"),
    (TAIL, "128x160 4 1 split-k:2:tree"),
    (TAIL, "128x128 4 2 split-k:2:reduce-scatter"),
    (TAIL, "128x128 4 1 split-k:3:reduce-scatter 0:8"),
    (ODD_CHANNELS, "64x64 4 1 split-k:4:reduce-scatter 1:4"),
    (ODD_CHANNELS, "64x128 4 1 data-parallel"),
    (ODD_CHANNELS, "128x64 4 4 split-k:4:reduce-scatter"),
    (MANY, "128x128 6 1 split-k:14:reduce-scatter"),
    (MANY, "256x128 4 1 stream-k:linear"),
    (MANY, "128x256 4 1 split-k:8:reduce-scatter"),
    (MANY, "64x64 8 1 data-parallel 1:4"),
    (COLUMN, "128x128 4 1 split-k:3:reduce-scatter"),
    (COLUMN, "64x192 4 1 stream-k:tree 1:4"),
    (COLUMN, "256x64 4 1 data-parallel"),
    (COLUMN_FILTER_LAST, "128x128 4 1 split-k:3:linear"),
    (BEYOND, "128x64 4 1 split-k:2:reduce-scatter"),
    (STRIDED_COLUMN, "128x64 4 1 split-k:5:reduce-scatter"),
    (STRIDED_COLUMN, "64x128 4 1 data-parallel"),
    (DILATED, "64x64 4 1 split-k:2:reduce-scatter 1:4"),
    (SLICES, "64x128 4 1 split-k:3:reduce-scatter"),
    (SLICES, "64x256 4 1 data-parallel"),
    (WINDOW, "128x128 4 1 split-k:3:reduce-scatter"),
    (WINDOW, "128x192 4 1 data-parallel"),
    (WINDOW, "128x64 7 3 split-k:3:reduce-scatter"),
    (WINDOW, "128x160 4 1 stream-k:linear"),
    (WINDOW_FILTER_LAST, "128x128 4 1 split-k:3:tree"),
    (STRIDED_WINDOW, "256x128 4 1 data-parallel"),
    (STRIDED_WINDOW, "128x128 6 3 split-k:3:reduce-scatter"),
    (POINTS, "128x64 4 1 split-k:4:reduce-scatter"),
]
TF32 = [
    (WHOLE, "64x64 4 1 split-k:2:reduce-scatter 1:4"),
    (TAIL, "128x128 4 1 split-k:3:reduce-scatter"),
    (TAIL, "128x128 4 1 data-parallel"),
    (ODD_CHANNELS, "64x64 4 1 split-k:4:linear 1:4"),
    (MANY, "128x128 6 1 split-k:14:reduce-scatter"),
    (MANY, "256x128 4 1 stream-k:linear"),
    (COLUMN, "64x192 4 1 split-k:5:reduce-scatter 1:4"),
    (COLUMN_FILTER_LAST, "128x128 4 1 split-k:3:linear"),
    (STRIDED_COLUMN, "64x128 4 1 data-parallel"),
    (DILATED, "64x64 4 1 split-k:3:reduce-scatter 1:4"),
]


def check(line: str, config: str) -> None:
    """A config stores every element; f32 may be rounded to TF32, which small integers are."""
    cupy_or_skip()
    tile, stages, cluster, partition, *roles = config.split()
    text = (
        f"sm90_wgrad {tile} stages={stages} roles={roles[0] if roles else '4:8'} "
        f"cluster={cluster} partition={partition} blocks=132"
    )
    problem, gpu = problem_of(line), toolkit.gpu()
    reading = reading_of(module_of(problem))
    assert not isinstance(reading, Refusal), reading.reason
    asked = reading.problem.problem
    if problem.dtype == "f32":
        asked = replace(asked, contraction=replace(asked.contraction, tf32=True))
    if not gpu.is_hopper:
        pytest.skip("it has no wgmma")
    plan = SM90_WGRAD.launch(asked, SM90_WGRAD.parse(text), gpu)
    assert not isinstance(plan, Refusal), plan.reason
    lhs, rhs = (
        small_integers(shape, problem.dtype, i) for i, shape in enumerate(problem.shapes[:2], 1)
    )
    expected = torch_answer(problem, lhs, rhs)
    assert_computes(reading, plan, [lhs, rhs], expected, problem.dtype)


@pytest.mark.parametrize("dtype", ["convfp16", "convbfp16"])
@pytest.mark.parametrize(("line", "config"), HALF)
def test_kernel(line: str, config: str, dtype: str) -> None:
    check(f"{dtype} {line}", config)


@pytest.mark.parametrize(("line", "config"), TF32)
def test_tf32(line: str, config: str) -> None:
    check(f"conv {line}", config)
