"""From a MIOpenDriver line to results on the host: every direction, exact on small integers."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from convir.api.compile import compile as convir_compile
from convir.dialects.conv.geometry import Direction
from convir.frontends.conv_module import function_of, module_of_line
from convir.frontends.miopen import parse_line
from convir.reference import FloatFormat, evaluate
from convir.reference.dtypes import BFLOAT16

LINES = [
    # 1x1 and 3x3, plain and strided, the sizes that tails are made of.
    "-n 2 -c 5 -H 7 -W 6 -k 3 -y 1 -x 1",
    "-n 2 -c 8 -H 9 -W 7 -k 16 -y 3 -x 3 -p 1 -q 1",
    "-n 1 -c 4 -H 10 -W 9 -k 6 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "-n 2 -c 4 -H 9 -W 9 -k 4 -y 1 -x 1 -u 2 -v 2",
    "-n 1 -c 3 -H 11 -W 8 -k 5 -y 1 -x 1 -u 3 -v 2",
    # Even filters, dilation, padding as large as the filter, several groups, depthwise.
    "-n 1 -c 4 -H 8 -W 8 -k 4 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2",
    "-n 1 -c 4 -H 12 -W 11 -k 4 -y 3 -x 3 -p 2 -q 2 -l 2 -j 2",
    "-n 1 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 3 -q 3 -u 2 -v 2",
    "-n 2 -c 8 -H 9 -W 9 -k 12 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 4",
    "-n 1 -c 6 -H 9 -W 9 -k 6 -y 3 -x 3 -p 1 -q 1 -g 6",
    # A filter smaller than its stride, and one row that no window reaches.
    "-n 1 -c 4 -H 10 -W 10 -k 4 -y 2 -x 2 -u 3 -v 3",
]


def command(line: str, word: str, flag: int, layout: str) -> str:
    layouts = f"--in_layout {layout} --fil_layout {layout} --out_layout {layout}"
    return f"{word} {line} -F {flag} {layouts}"


def check(text: str, pipeline: str = "default") -> None:
    parsed = parse_line(text)
    rng = np.random.default_rng(0)
    module = module_of_line(parsed)
    executable = convir_compile(module, pipeline, "host")
    arguments = [rng.integers(-3, 4, s.shape).astype(s.dtype) for s in executable.inputs]
    (expected,) = evaluate(module, "main", arguments, float_format=FloatFormat.WIDE)
    (spec,) = executable.outputs
    poison = np.full(spec.shape, np.nan, np.float32).astype(spec.dtype)
    result = executable(*arguments, out=poison)
    assert np.array_equal(result.astype(np.float64), expected.astype(spec.dtype).astype(np.float64))


@pytest.mark.parametrize("flag", [1, 2, 4])
@pytest.mark.parametrize("line", LINES)
def test_channels_last_f32(line: str, flag: int) -> None:
    check(command(line, "conv", flag, "NHWC"))


@pytest.mark.parametrize("flag", [1, 2, 4])
@pytest.mark.parametrize("word", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("line", LINES[1:3])
def test_half_precision(line: str, word: str, flag: int) -> None:
    check(command(line, word, flag, "NHWC"))


@pytest.mark.parametrize("flag", [1, 2, 4])
@pytest.mark.parametrize("line", LINES[::2])
def test_channels_first(line: str, flag: int) -> None:
    check(command(line, "conv", flag, "NCHW"))


def test_directions_and_types_are_those_of_the_line() -> None:
    line = parse_line(command(LINES[0], "convbfp16", 2, "NHWC"))
    assert line.problems["main"].direction is Direction.DGRAD
    executable = convir_compile(module_of_line(line), device="host")
    assert {spec.dtype for spec in executable.inputs} == {BFLOAT16}


def test_a_constant_filter_changes_no_kernel():
    line = (
        "conv -n 2 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2"
        " --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    )
    (problem,) = parse_line(line).problems.values()
    rng = np.random.default_rng(0)
    dy, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in problem.shapes[:2])
    argument = convir_compile(ModuleOp([function_of("main", problem)]), device="host")
    constant = convir_compile(ModuleOp([function_of("main", problem, w)]), device="host")
    assert constant.program.summary("host") == argument.program.summary("host") == ["implicit-gemm"]
    assert np.array_equal(constant(dy), argument(dy, w))


@pytest.mark.parametrize("flag", [1, 2, 4])
def test_what_no_pass_lowered_says_which_one_does(flag: int) -> None:
    line = parse_line(f"conv -n 1 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -F {flag}")
    with pytest.raises(PassFailedException, match="run convert-conv-to-linalg first"):
        convir_compile(module_of_line(line), pipeline="", device="host")
