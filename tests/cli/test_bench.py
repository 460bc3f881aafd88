"""`convir-bench`: rows, files, exit codes. No figure is asserted."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from convir.cli.bench import main
from convir.frontends.miopen import parse_line
from convir.runtime.bench.session import geomean, tolerance_of
from convir.runtime.bench.timing import Timing, measure

if TYPE_CHECKING:
    from pathlib import Path

    from convir.dialects.problem import ConvProblem

LINE = (
    "conv -n 1 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1"
    " --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
)
QUICK = ["--budget", "0.01"]


def problem(line: str) -> ConvProblem:
    return parse_line(line).problems["main"]


def test_rows_as_text_json_and_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, table = tmp_path / "rows.json", tmp_path / "rows.csv"
    status = main([*QUICK, "--json", str(rows), "--csv", str(table), *LINE.split()])
    out = capsys.readouterr().out
    assert status == 0
    assert "convir" in out
    report = json.loads(rows.read_text())
    assert set(report) == {"environment", "ceilings", "rows"}
    (row,) = report["rows"]
    assert row["backend"] == "convir"
    assert row["failure"] is None
    assert row["us"]["p20"] <= row["us"]["median"] <= row["us"]["p80"]
    assert row["flops"] == problem(LINE).flops
    assert row["bytes"] == problem(LINE).bytes
    assert row["error"] <= row["tolerance"]
    with table.open() as stream:
        (flat,) = csv.DictReader(stream)
    assert flat["line"] == row["line"]


def test_a_peer_in_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main([*QUICK, "--against", "torch", *LINE.split()]) == 0
    out = capsys.readouterr().out
    assert "NCHW" in out
    assert "geomean over torch's best layout" in out


def test_a_suite_of_several_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = tmp_path / "suite.txt"
    suite.write_text(f"# two directions\n{LINE}\n{LINE.replace('-F 1', '-F 4')}\n")
    assert main([*QUICK, "--commands-file", str(suite)]) == 0
    out = capsys.readouterr().out
    assert out.count("-F 1") == 1
    assert out.count("-F 4") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a line"),
        (["--device", "tpu", *LINE.split()], "no device 'tpu'"),
        (["--against", "cudnn", *LINE.split()], "host has no peer 'cudnn'"),
        (["--threads", "0", *LINE.split()], "--threads is at least 1"),
        (["--bugdet", "1", *LINE.split()], "did you mean"),
        (["conv", "-n", "one"], "column"),
    ],
)
def test_wrong_command_lines(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_turns_and_geometric_means() -> None:
    order: list[str] = []
    timings = measure(
        {name: lambda name=name: order.append(name) for name in "ab"},
        clock=lambda call, _: (call(), 100.0)[1],
        budget_s=1e-3,
    )
    assert order[:4] == ["a", "b", "a", "b"]
    assert timings["a"] == Timing(100.0, 100.0, 100.0)
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert geomean([]) is None


def test_the_tolerance_grows_with_the_terms_of_the_sum() -> None:
    short = problem(LINE)
    long = problem(LINE.replace("-n 1", "-n 8").replace("-F 1", "-F 4"))
    assert tolerance_of(long) > tolerance_of(short)
    half = problem(LINE.replace("conv ", "convbfp16 "))
    assert tolerance_of(half) == 2.0**-8
