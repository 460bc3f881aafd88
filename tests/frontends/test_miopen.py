"""MIOpenDriver lines: every suite, every spelling, and what is wrong with a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convir.dialects.context import read_module
from convir.dialects.conv.geometry import Direction
from convir.frontends.conv_module import SOURCE_ATTRIBUTE, module_of_line
from convir.frontends.miopen import parse_line, strip_comment
from convir.frontends.miopen_options import IGNORED_OPTIONS, LineError, Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.dialects.conv.problem import ConvProblem

SUITES = sorted((Path(__file__).parents[2] / "benchmarks" / "suites").glob("*.txt"))


def only(line: str) -> ConvProblem:
    (problem,) = parse_line(line).problems.values()
    return problem


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_suites_import_and_come_back(suite: Path) -> None:
    lines = [strip_comment(text) for text in suite.read_text().splitlines()]
    lines = [line for line in lines if line]
    assert lines
    for line in lines:
        parsed = parse_line(line)
        module = read_module(str(module_of_line(parsed)))
        assert str(module.attributes[SOURCE_ATTRIBUTE]) == f'"{line}"'
        for problem in parsed.problems.values():
            assert only(problem.line()) == problem
        if len(parsed.problems) == 1:
            assert only(line).line() == line


def test_there_are_suites() -> None:
    assert len(SUITES) >= 8


def test_defaults_are_the_driver_s() -> None:
    problem = only("conv -F 1")
    assert (problem.n, problem.c, problem.k) == (100, 3, 32)
    assert (problem.spatial, problem.taps) == ((32, 32), (3, 3))
    geometry = problem.geometry
    assert (geometry.strides, geometry.pad_low, geometry.dilations) == ((1, 1), (0, 0), (1, 1))
    assert (geometry.input_layout, geometry.filter_layout) == ("NCHW", "KCRS")


def test_long_and_short_options_are_the_same() -> None:
    short = (
        "conv -_ 3 -n 2 -c 4 -k 6 -! 5 -H 6 -W 7 -@ 2 -y 3 -x 1 -$ 1 -p 2 -q 0"
        " -# 2 -u 1 -v 3 -^ 1 -l 2 -j 1 -g 2 -F 4 -I NDHWC -f KTRSC -O NCDHW"
    )
    long = (
        "conv --spatial_dim=3 --batchsize 2 --in_channels=4 --out_channels 6"
        " --in_d 5 --in_h 6 --in_w 7 --fil_d 2 --fil_h 3 --fil_w 1"
        " --pad_d 1 --pad_h 2 --pad_w 0 --conv_stride_d 2 --conv_stride_h 1 --conv_stride_w 3"
        " --dilation_d 1 --dilation_h 2 --dilation_w 1 --group_count 2 --forw 4"
        " --in_layout NDHWC --fil_layout NDHWC --out_layout NCDHW"
    )
    assert only(short) == only(long)
    assert only(short).spatial == (5, 6, 7)
    assert only(short).geometry.strides == (2, 1, 3)


def test_boo_takes_the_rank_from_the_layouts() -> None:
    assert only("conv -F 1 --in_layout NWC --fil_layout NWC --out_layout NWC").taps == (3,)
    with pytest.raises(LineError, match="NWC has 1 spatial dimensions, not 2"):
        parse_line("conv --spatial_dim 2 --in_layout NWC")


def test_the_driver_s_path_is_skipped() -> None:
    assert only("./bin/MIOpenDriver convbfp16 -n 1 -F 1").dtype == "bf16"


@pytest.mark.parametrize("option", IGNORED_OPTIONS, ids=lambda option: option.name)
def test_options_about_timing_and_data_are_accepted(option: Option) -> None:
    assert only(f"conv -F 1 --{option.name} x") == only("conv -F 1")
    assert only(f"conv -F 1 -{option.short} 1") == only("conv -F 1")


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (0, ["main_fwd", "main_bwd", "main_wrw"]),
        (1, ["main"]),
        (2, ["main"]),
        (3, ["main_fwd", "main_bwd"]),
        (4, ["main"]),
        (5, ["main_fwd", "main_wrw"]),
        (6, ["main_bwd", "main_wrw"]),
        (7, ["main_fwd", "main_bwd", "main_wrw"]),
    ],
)
def test_directions_are_a_sum(flags: int, names: list[str]) -> None:
    problems = parse_line(f"conv -n 1 -F {flags}").problems
    assert list(problems) == names
    assert [problem.direction for problem in problems.values()] == [
        direction
        for direction, flag in zip(Direction, (1, 2, 4), strict=True)
        if flags in (0, 7) or flags & flag
    ]


def test_a_transposed_line_is_a_backward_data_problem() -> None:
    line = "conv -m trans -n 2 -c 4 -k 6 -H 5 -W 6 -y 3 -x 2 -u 2 -v 3 -p 1 -q 0 -Y 1 -X 2 -g 2"
    problems = parse_line(line + " -I NHWC -O NCHW").problems
    forward = problems["main_fwd"]
    assert forward.direction is Direction.DGRAD
    # The line's input is what a convolution calls its output.
    assert forward.shapes == ((2, 5, 6, 4), (4, 3, 3, 2), (2, 6, 10, 19))
    assert forward.output_spatial == (5, 6)
    assert problems["main_bwd"].direction is Direction.FPROP
    assert problems["main_bwd"].shapes == ((2, 6, 10, 19), (4, 3, 3, 2), (2, 5, 6, 4))
    assert problems["main_wrw"].direction is Direction.WGRAD
    assert only(forward.line()) == forward


def test_padding_modes() -> None:
    assert only("conv -F 1 -z valid -p 1 -q 1").geometry.pad_low == (0, 0)
    assert only("conv -F 1 -z same -y 3 -x 5 -W 33 -v 2").geometry.pad_low == (1, 2)
    # The driver leaves the padding of dilated filters as it is given.
    assert only("conv -F 1 -z valid -p 1 -q 1 -l 2").geometry.pad_low == (1, 1)


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("", 1, "the line has no command"),
        ("pool -n 1", 1, "unknown command 'pool'; expected conv"),
        ("conv 3 -n 1", 6, "expected an option, found '3'"),
        ("conv --foo 1", 6, "unknown option '--foo'"),
        ("conv --group_cnt 1", 6, "did you mean '--group_count'?"),
        ("conv -n", 8, "option -n has no value"),
        ("conv --batchsize=", 18, "--batchsize must be an integer, found ''"),
        ("conv -n 1.5", 9, "--batchsize must be an integer, found '1.5'"),
        ("conv -n 1 -n 2", 14, "option -n is given twice: 1 and 2"),
        ("conv -n 0", 9, "--batchsize must be at least 1, found 0"),
        ("conv -u 0", 9, "--conv_stride_h must be at least 1, found 0"),
        ("conv -p -1", 9, "--pad_h must be at least 0, found -1"),
        ("conv -g -1", 9, "--group_count must be at least 0, found -1"),
        ("conv -c 4 -k 6 -g 4", 14, "--out_channels 6 does not divide into 4 groups"),
        ("conv -g 2", 10, "--in_channels 3 does not divide into 2 groups"),
        ("conv -H 3 -y 2 -l 4", 9, "along H, a filter that spans 5 does not fit"),
        ("conv -F 8", 9, "--forw must be a sum of 1"),
        ("conv -m deconv", 9, "--mode must be conv or trans, found 'deconv'"),
        ("conv -z full", 9, "--pad_mode must be default, same or valid, found 'full'"),
        ("conv -_ 4", 9, "--spatial_dim must be 1, 2 or 3, found 4"),
        ("conv -I NHHC", 9, "--in_layout: 'NHHC' is not the layout of an activation"),
        ("conv -f NHWK", 9, "--fil_layout: "),
        ("conv -r 1", 9, "--pad_val 1 is not supported: leave it at 0"),
        ("conv -m trans -Y 1", 18, "--trans_output_pad_h 1 must be less than the stride 1"),
        ("conv -m trans -H 1 -p 2 -y 1", 18, "the output's H would be -3"),
        ("conv -n 99999999999999999999", 9, "--batchsize must be an integer"),
        ("conv -n 2147483648", 9, "--batchsize must fit 32 bits, found 2147483648"),
        ("conv -l -9999999999", 9, "--dilation_h must fit 32 bits, found -9999999999"),
        ("conv -n 65536 -H 65536 -W 65536", 18, "no address space holds a tensor of the sizes"),
        ("conv -_ 3 -! 100000 -H 60000 -W 60000", 24, "no address space holds a tensor"),
        ("conv -m trans -H 99999 -u 2000000 -v 2000000", 18, "no address space holds a tensor"),
        ("convint8 -n 1", 1, "unknown command 'convint8'; expected conv, convfp16"),
    ],
)
def test_what_is_wrong_with_a_line(line: str, column: int, message: str) -> None:
    with pytest.raises(LineError) as caught:
        parse_line(line)
    assert message in caught.value.message
    assert caught.value.column == column
    assert "\n" not in caught.value.message


def test_comments_end_lines() -> None:
    assert strip_comment("# all of it") == ""
    assert strip_comment("  conv -n 1 -# 2  # rest") == "  conv -n 1 -# 2"
    assert strip_comment("conv -n 1 #rest") == "conv -n 1"


WORDS = st.sampled_from(
    ["-n", "-H", "--fil_w", "-F", "-m", "trans", "-g", "-z", "same", "-_", "-I", "NHWC", "CK", "#"]
)


@given(
    st.sampled_from(
        [
            "convfp16 -n 2 -c 8 -H 9 -W 7 -k 4 -y 3 -x 3 -u 2 -v 2 -g 2 -F 2 --in_layout NHWC",
            "conv --spatial_dim 3 -n 1 -c 2 -k 2 -m trans --conv_stride_d 2 -F 0",
        ]
    ),
    st.lists(
        st.tuples(st.integers(0, 30), WORDS | st.integers(-2, 40).map(str) | st.text(max_size=4)),
        max_size=4,
    ),
)
def test_any_line_is_problems_or_one_error(line: str, edits: list[tuple[int, str]]) -> None:
    words = line.split()
    for position, word in edits:
        words[position % (len(words) + 1) : position % (len(words) + 1) + 1] = [word]
    text = " ".join(words)
    error = None
    problems: Mapping[str, ConvProblem] = {}
    try:
        problems = parse_line(text).problems
    except LineError as caught:
        error = caught
    assert (error is None) == bool(problems)
    assert error is None or 1 <= error.column <= len(text) + 1
    for problem in problems.values():
        assert dict(parse_line(problem.line()).problems) == {"main": problem}
