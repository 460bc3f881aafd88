"""Direct convolution templates on a GPU: tails, holes, odd windows and poisoned memory."""

from __future__ import annotations

import numpy as np
import pytest
from conv_lines import CUBES, NCHW, NHWC, NWC, PLANES, SLICES, TIME
from gpu import cupy_or_skip
from poisoned_memory import check_template
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line

pytestmark = pytest.mark.gpu

DIRECT = {"grouped", "grouped-pairs", "narrow", "scalar"}

VOLUME = (
    "--spatial_dim 3 -n 2 --in_d 5 -H 11 -W 10 -c 64 -k 64"
    " --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
)
GROUPED = "-n 2 -c 64 -H 13 -W 11 -k 64"
NARROW = "-n 2 -H 13 -W 12 -c 3 -k 32 -F 2"

LINES = {
    "8-channels": f"{GROUPED} -y 3 -x 3 -p 1 -q 1 -g 8",
    "16-channels": f"{GROUPED} -y 3 -x 3 -p 1 -q 1 -g 4",
    "32-channels": f"{GROUPED} -y 3 -x 3 -p 1 -q 1 -g 2",
    "4-channels": f"{GROUPED} -y 3 -x 3 -p 1 -q 1 -g 16",
    "uneven": "-n 2 -c 32 -H 10 -W 9 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 4",
    "part-of-a-block": "-n 1 -c 96 -H 7 -W 7 -k 96 -y 3 -x 3 -p 1 -q 1 -g 12",
    "stride-2": f"{GROUPED} -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 8",
    "stride-3": f"{GROUPED} -y 3 -x 3 -p 1 -q 1 -u 3 -v 3 -g 8",
    "holes": f"{GROUPED} -y 1 -x 1 -u 2 -v 2 -g 8",
    "uneven-strides": f"{GROUPED} -y 3 -x 2 -p 1 -u 2 -v 3 -g 8",
    "even-filter": f"{GROUPED} -y 4 -x 2 -p 1 -q 1 -u 2 -v 2 -g 8",
    "padding-beyond-the-filter": f"{GROUPED} -y 3 -x 3 -p 3 -q 4 -g 8",
    "dilated": f"{GROUPED} -y 3 -x 3 -p 2 -q 3 -l 2 -j 3 -g 8",
    "one-pixel": "-n 300 -c 64 -H 1 -W 1 -k 64 -y 3 -x 3 -p 1 -q 1 -g 8",
    "small-images": "-n 70 -c 64 -H 2 -W 3 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 2",
    "wide": "-n 1 -c 64 -H 3 -W 300 -k 64 -y 3 -x 3 -p 1 -q 1 -g 8",
    "depthwise": "-n 2 -c 40 -H 13 -W 11 -k 40 -y 3 -x 3 -p 1 -q 1 -g 40",
    "strided-depthwise": "-n 2 -c 33 -H 13 -W 11 -k 33 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 33",
    "planes": f"-n 2 -c 40 -H 13 -W 11 -k 40 -y 3 -x 3 -p 1 -q 1 -g 40 {NCHW}",
    "large-planes": f"-n 2 -c 64 -H 113 -W 131 -k 64 -y 3 -x 3 -p 1 -q 1 -g 64 {NCHW}",
    "strided-planes": f"-n 2 -c 33 -H 13 -W 11 -k 33 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 33 {NCHW}",
    "planes-with-holes": f"-n 2 -c 33 -H 13 -W 11 -k 33 -y 1 -x 1 -u 2 -v 2 -g 33 {NCHW}",
    "planes-of-a-line": "--spatial_dim 1 -n 3 -c 40 -W 333 -k 40 -x 4 -q 3 -v 2 -g 40",
    "line": f"{NWC} -n 3 -c 64 -W 333 -k 64 -x 3 -q 2 -j 2 -g 8",
    "strided-line": f"{NWC} -n 2 -c 64 -W 333 -k 64 -x 16 -q 4 -v 8 -g 8",
    "slices": f"{VOLUME} -g 8 {SLICES}",
    "depthwise-slices": f"{VOLUME} -g 64 {SLICES}",
    "time": f"{VOLUME} -g 8 {TIME}",
    "depthwise-time": f"{VOLUME} -g 64 {TIME}",
    "depthwise-cubes": f"{VOLUME} -g 64 {CUBES} -F 1",
    "narrow": f"{NARROW} -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "narrow-odd": "-n 3 -H 13 -W 41 -c 3 -k 32 -F 2 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "narrow-1": "-n 2 -H 12 -W 15 -c 1 -k 64 -F 2 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "narrow-2": "-n 2 -H 12 -W 15 -c 2 -k 64 -F 2 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "narrow-4": "-n 2 -H 13 -W 15 -c 4 -k 64 -F 2 -y 5 -x 5 -p 2 -q 2 -u 3 -v 3",
    "narrow-deep": "-n 2 -H 12 -W 12 -c 3 -k 128 -F 2 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2",
    "narrow-dense": f"{NARROW} -y 3 -x 3 -p 1 -q 1",
}
PAIRS = {
    "one-strip": "-n 7 -c 128 -H 14 -W 14 -k 128 -y 3 -x 3 -p 1 -q 1 -g 4",
    "16-channels": "-n 3 -c 128 -H 14 -W 14 -k 128 -y 3 -x 3 -p 1 -q 1 -g 8",
    "8-channels": "-n 3 -c 128 -H 14 -W 14 -k 128 -y 3 -x 3 -p 1 -q 1 -g 16",
    "odd": "-n 5 -c 64 -H 25 -W 25 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2",
    "strips": "-n 3 -c 64 -H 17 -W 50 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2",
    "many-strips": "-n 700 -c 64 -H 7 -W 31 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2",
    "many-uneven-strips": "-n 200 -c 64 -H 17 -W 50 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2",
    "four-rows": "-n 9 -c 64 -H 4 -W 31 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2",
    "wide": "-n 2 -c 64 -H 5 -W 95 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2",
    "even": "-n 5 -c 64 -H 15 -W 28 -k 64 -y 2 -x 2 -p 1 -q 1 -g 2",
    "flat": "-n 5 -c 64 -H 16 -W 31 -k 64 -y 1 -x 3 -q 1 -g 2",
    "upright": "-n 5 -c 64 -H 16 -W 31 -k 64 -y 3 -x 1 -p 1 -g 2",
    "dilated": "-n 3 -c 64 -H 16 -W 31 -k 64 -y 2 -x 2 -p 1 -q 1 -l 2 -j 2 -g 2",
    "padding-beyond-the-filter": "-n 2 -c 64 -H 11 -W 27 -k 64 -y 3 -x 3 -p 3 -q 4 -g 2",
    "without-padding": "-n 3 -c 64 -H 18 -W 32 -k 64 -y 3 -x 3 -g 2",
}
SHALLOW = {
    "first-layer": "-n 2 -c 3 -H 30 -W 32 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2",
    "uneven": "-n 3 -c 3 -H 13 -W 12 -k 72 -y 3 -x 2 -p 1 -u 1 -v 2",
    "odd-line": "-n 2 -c 2 -H 11 -W 13 -k 32 -y 3 -x 3 -p 1 -q 1",
    "four-byte-copies": "-n 2 -c 1 -H 7 -W 18 -k 40 -y 5 -x 5 -p 2 -q 2 -u 2 -v 2",
    "eight-byte-copies": "-n 2 -c 4 -H 7 -W 9 -k 96 -y 3 -x 3 -p 1 -q 1",
    "no-padding": "-n 2 -c 4 -H 9 -W 9 -k 24 -y 2 -x 2",
    "padding-beyond-the-filter": "-n 1 -c 4 -H 6 -W 6 -k 32 -y 3 -x 3 -p 4 -q 5",
    "dilated-rows": "-n 2 -c 4 -H 12 -W 10 -k 32 -y 3 -x 3 -p 2 -q 1 -l 3",
    "one-pixel": "-n 300 -c 8 -H 1 -W 1 -k 64 -y 3 -x 3 -p 1 -q 1",
    "one-tap": "-n 3 -c 16 -H 5 -W 7 -k 64",
    "sixteen": "-n 2 -c 16 -H 9 -W 11 -k 136 -y 3 -x 3 -p 1 -q 1",
    "backward": "-n 2 -c 64 -H 9 -W 11 -k 16 -y 3 -x 3 -p 1 -q 1 -F 2",
    "wide": "-n 1 -c 3 -H 5 -W 400 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2",
    "line": f"{NWC} -n 2 -c 2 -W 333 -k 32 -x 16 -q 4 -v 2",
    "planes": f"-n 2 -c 3 -H 30 -W 32 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 {PLANES}",
    "sixteen-planes": f"-n 3 -c 16 -H 9 -W 11 -k 40 -y 3 -x 3 -p 1 -q 1 {PLANES}",
}
F32 = {
    "f32-line": f"{NWC} -n 1 -c 16 -W 300 -k 16 -x 3 -q 2 -j 2 -g 4",
    "f32-dense": f"{NWC} -n 1 -c 8 -W 300 -k 8 -x 3 -q 2 -j 2",
    "f32-planes": "--spatial_dim 1 -n 1 -c 16 -W 300 -k 16 -x 3 -q 2 -j 2 -g 4",
    "f32-planes-2d": f"{NCHW} -n 2 -c 6 -H 9 -W 7 -k 9 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 3",
    "f32-groups": f"{NHWC} -n 2 -c 6 -H 9 -W 7 -k 9 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 3",
}


@pytest.mark.parametrize("direction", [1, 2])
@pytest.mark.parametrize("command", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("name", LINES)
def test_16_bits(name: str, command: str, direction: int) -> None:
    is_whole = "layout" in LINES[name] or "spatial_dim" in LINES[name]
    line = LINES[name] if is_whole else f"{LINES[name]} {NHWC}"
    if "-F" in line and direction == 1:
        pytest.skip("narrow outputs are those of a backward pass")
    check_template(
        f"{command} {line}" if "-F" in line else f"{command} {line} -F {direction}", DIRECT
    )


@pytest.mark.parametrize("direction", [1, 2])
@pytest.mark.parametrize("command", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_rows(name: str, command: str, direction: int) -> None:
    check_template(f"{command} {PAIRS[name]} {NHWC} -F {direction}", {"grouped-pairs"})


@pytest.mark.parametrize("command", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("name", SHALLOW)
def test_few_channels(name: str, command: str) -> None:
    line = SHALLOW[name]
    line = line if "layout" in line or "spatial_dim" in line else f"{line} {NHWC}"
    check_template(f"{command} {line}" if "-F" in line else f"{command} {line} -F 1", {"shallow"})


def test_what_lies_beside_a_window_does_not_reach_its_output() -> None:
    cupy = cupy_or_skip()
    line = f"convfp16 -n 1 -c 3 -H 8 -W 16 -k 32 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 1 {NHWC}"
    (problem,) = parse_line(line).problems.values()
    x, w = (cupy.ones(shape, "f2") for shape in problem.shapes[:2])
    x[0, :, 9] = cupy.inf
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    y = cupy.asnumpy(executable(x, w))
    reached = [column for column in range(8) if np.isinf(y[0, :, column]).all()]
    assert reached == [3, 4, 5, 6]
    assert np.isfinite(np.delete(y, reached, axis=2)).all()


@pytest.mark.parametrize("direction", [1, 2])
@pytest.mark.parametrize("name", F32)
def test_f32(name: str, direction: int) -> None:
    check_template(f"conv {F32[name]} -F {direction}", DIRECT)
