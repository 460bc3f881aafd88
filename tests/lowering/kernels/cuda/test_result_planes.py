"""Results whose channels are planes: which pixels an access stores, and where they are staged."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from contraction_readings import reading
from family_problems import folders, reading_of
from fused_epilogues import CASES, EPILOGUES
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.lowering.kernels.cuda.epilogue_operands import linear_operands, operands_source
from convir.lowering.kernels.cuda.launch import TensorMap
from convir.lowering.kernels.cuda.result_planes import NO_PLANES
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm import layout
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm import problem as halo
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import HaloConfig
from convir.lowering.kernels.cuda.sm90_implicit_gemm import problem as gemm
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import kernel_usage

pytestmark = pytest.mark.fast

FPROP = "-F 1 --in_layout NHWC --fil_layout NHWC --out_layout NCHW"
DGRAD = "-F 2 --in_layout NCHW --fil_layout NHWC --out_layout NHWC"
THREE = "-n 3 -c 64 -k 64 -y 3 -x 3 -p 1 -q 1"


def gemm_problem(line: str) -> gemm.Sm90ImplicitGemmProblem:
    found = gemm.problem_of(reading(f"convfp16 {line}").contraction)
    assert not isinstance(found, Refusal), found.reason
    return found


def halo_problem(line: str) -> halo.HaloProblem:
    found = halo.problem_of(reading(f"convfp16 {line}").contraction)
    assert not isinstance(found, Refusal), found.reason
    return found


@pytest.mark.parametrize(
    ("line", "width"),
    [
        # Images are runs of rows: 384 pixels, 196, 49.
        (f"{THREE} -H 16 -W 24 {FPROP}", 8),
        (f"{THREE} -H 14 -W 14 {FPROP}", 4),
        (f"{THREE} -H 7 -W 7 {FPROP}", 1),
        # Pixels of the phases of a stride are apart.
        (f"{THREE} -u 2 -v 2 -H 16 -W 24 {DGRAD}", 1),
        # A row of phases with a stride along the other axis.
        ("-n 3 -c 64 -k 64 -y 3 -x 1 -p 1 -u 2 -v 1 -H 16 -W 24 " + DGRAD, 8),
    ],
)
def test_accesses_of_runs(line: str, width: int) -> None:
    problem = gemm_problem(line)
    assert problem.planes.width == width
    for phase in problem.phases:
        places: dict[int, int] = {}
        for number, at in enumerate(product(*(range(size) for size in reversed(phase.sizes)))):
            steps = zip(reversed(at), phase.strides, strict=True)
            places[number] = phase.offset + sum(x * stride for x, stride in steps)
        for first in range(0, len(places), width):
            assert places[first] % width == 0
            run = [places.get(first + i) for i in range(width)]
            assert run == list(range(places[first], places[first] + width))
    assert problem.planes.channel_stride % width == 0


def test_channels_that_are_neighbours_have_no_planes() -> None:
    last = f"{THREE} -H 16 -W 24 -F 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    assert gemm_problem(last).planes == NO_PLANES


def config_of(text: str) -> HaloConfig:
    return HaloConfig.parse(f"sm90_halo_implicit_gemm {text} blocks=132")


@pytest.mark.parametrize(
    ("line", "config", "width", "pairs"),
    [
        (f"{THREE} -H 17 -W 24 {FPROP}", "8x8 chunk=64 columns=64 stages=2 consumers=2", 8, False),
        # Two lines of 30 pixels of a box, of which 28 are stored.
        (f"{THREE} -H 28 -W 28 {FPROP}", "2x28 chunk=64 columns=64 stages=2 consumers=2", 2, False),
        (f"{THREE} -H 28 -W 28 {FPROP}", "1x28 chunk=64 columns=64 stages=2 consumers=2", 4, False),
        (f"{THREE} -H 28 -W 25 {FPROP}", "8x8 chunk=64 columns=64 stages=2 consumers=2", 1, False),
        # Pixels of two phases alternate: two accesses become one.
        (
            f"{THREE} -u 2 -v 2 -H 16 -W 32 {DGRAD}",
            "8x8 chunk=64 columns=128 stages=2 consumers=2",
            4,
            True,
        ),
        # An odd line has a pixel more of one phase.
        (
            f"{THREE} -u 2 -v 2 -H 16 -W 31 {DGRAD}",
            "8x8 chunk=64 columns=64 stages=2 consumers=2",
            1,
            False,
        ),
    ],
)
def test_accesses_of_tiles(line: str, config: str, width: int, pairs: bool) -> None:
    problem = halo_problem(line)
    columns = config.split("columns=")[1].split(maxsplit=1)[0]
    planes = layout.planes_of(problem, config_of(f"{config} store={columns}"))
    assert (planes.width, planes.pairs) == (width, pairs)


def place_in_planes(channel: int, row: int) -> int:
    """As `epilogue/wgmma_store.cuh` has it."""
    return channel * 32 + ((row // 8 ^ channel // 4) & 1) * 16 + row % 8 * 2


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (f"{THREE} -H 16 -W 24 {FPROP}", 1),
        # Boxes of 16 rows would have pixels of two images.
        (f"{THREE} -H 7 -W 8 {FPROP}", 0),
        # Pixels of a phase are apart.
        (f"{THREE} -u 2 -v 2 -H 16 -W 32 {DGRAD}", 0),
        ("-n 2 -c 64 -k 32 -y 2 -x 2 -u 2 -v 2 -H 16 -W 32 " + DGRAD, 0),
    ],
)
def test_whole_images_are_stored_in_boxes(line: str, lines: int) -> None:
    assert gemm_problem(line).planes.lines == lines


@pytest.mark.parametrize(("width", "lines"), [(24, 2), (28, 0)])
def test_lines_of_patches_are_stored_in_boxes(width: int, lines: int) -> None:
    """Rows of C have to be multiples of 16 bytes."""
    problem = halo_problem(f"{THREE} -H 9 -W {width} {FPROP}")
    config = config_of("8x8 chunk=64 columns=64 stages=2 consumers=2 store=64")
    assert layout.planes_of(problem, config).lines == lines


@pytest.mark.parametrize("family", ["sm90_implicit_gemm", "sm90_halo_implicit_gemm"])
def test_kernels_that_store_boxes_compile(family: str) -> None:
    nvrtc_or_skip()
    found = reading(f"convfp16 {THREE} -H 16 -W 24 {FPROP}")
    configs = folders()[family].candidates(found.problem, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    config = next(each for each in configs if getattr(each, "cols", 8) == 8)
    plan = folders()[family].launch(found.problem, config, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal)
    (kernel,) = plan.kernels
    maps = [each for each in kernel.arguments if isinstance(each, TensorMap)]
    (of_c,) = (each for each in maps if each.buffer.place == "c")
    assert of_c.box[0] * 2 == (of_c.swizzle or 16)
    usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
    assert usage.spill_bytes == 0


@pytest.mark.parametrize("lines", [1, 2])
def test_staged_channels_are_the_box(lines: int) -> None:
    """TMA reads a box row by row: pixels, channels, lines; of 32 bytes swizzled by 32."""
    channels = 48
    memory = np.full(channels * 16, -1)
    for channel, row in product(range(channels), range(16)):
        memory[place_in_lines(channel, row, channels, lines) // 2] = channel * 16 + row
    found: list[int] = []
    for at in range(channels * 16):
        byte = at * 2
        found.append(int(memory[(byte ^ (byte >> 7 & 1) << 4 if lines == 1 else byte) // 2]))
    pixels = 16 // lines
    wanted = [
        channel * 16 + line * pixels + x
        for line, channel, x in product(range(lines), range(channels), range(pixels))
    ]
    assert found == wanted


def place_in_lines(channel: int, row: int, channels: int, lines: int) -> int:
    """The same of rows that are boxes of one line or more."""
    if lines == 1:
        return place_in_planes(channel, row)
    pixels = 16 // lines
    return (row // pixels * channels + channel) * 2 * pixels + row % pixels * 2


@pytest.mark.parametrize("channels", [16, 64, 96])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_staged_channels_are_read_back(channels: int, width: int) -> None:
    """What stmatrix writes of a warp's accumulators, transposed, and what lanes read of it."""
    memory = np.full(channels * 16, -1)
    banks = set[int]()
    for column in range(0, channels, 16):
        for lane in range(32):
            # Rows of a matrix in memory are its columns; lanes 8i … 8i+7 name those of matrix i.
            matrix, i = divmod(lane, 8)
            at = place_in_planes(lane // 16 * 8 + lane % 8, lane // 8 % 2 * 8) + column * 32
            if column == 0 and matrix == 0:
                banks.add(at // 16 % 8)
            channel, rows = column + matrix // 2 * 8 + i, matrix % 2 * 8 + np.arange(8)
            memory[at // 2 + np.arange(8)] = channel * 16 + rows
    assert len(banks) == 8
    groups = 16 // width
    for first, lane in product(range(0, channels, 32 // groups), range(32)):
        channel, row = first + lane // groups, lane % groups * width
        at = place_in_planes(channel, row) // 2
        assert memory[at : at + width].tolist() == [channel * 16 + row + i for i in range(width)]


@pytest.mark.parametrize("family", ["sm90_implicit_gemm", "sm90_halo_implicit_gemm"])
@pytest.mark.parametrize("case", ["planes", "strided-planes"])
def test_epilogues_that_read_operands_are_refused(family: str, case: str) -> None:
    """Operands beside planes compile, and have not run on a GPU yet."""
    found = reading_of(read_module(CASES[case].text("f16", EPILOGUES["all"])))
    assert not isinstance(found, Refusal)
    refused = folders()[family].candidates(found.problem, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert "operands beside planes" in refused.reason


def test_operands_of_planes_lie_a_plane_apart() -> None:
    found = reading_of(read_module(CASES["planes"].text("f16", EPILOGUES["residual"])))
    assert not isinstance(found, Refusal)
    epilogue, stride = found.problem.epilogue, found.problem.contraction.c.stride
    operands = linear_operands(found.problem.contraction, epilogue)
    assert not isinstance(operands, Refusal)
    assert f"+ element, {stride})" in operands_source(operands, epilogue, stride)


def test_zero_filled_outputs_of_planes_are_refused() -> None:
    line = "-n 2 -c 64 -H 10 -W 12 -k 64 -y 1 -x 1 -u 2 -v 2"
    problem = reading(f"convfp16 {line} {DGRAD}")
    refused = gemm.sm90_problem(problem.contraction, problem.epilogue)
    assert isinstance(refused, Refusal)
    assert "of planes" in refused.reason
