"""`convir-bench`: rows, files, exit codes. No figure is asserted."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from xdsl.passes import PassPipeline

from convir.api.compile import compile as convir_compile
from convir.cli.bench import main
from convir.cli.jobs import bench_job
from convir.cli.jobs.bench_problems import PIPELINES, module_of
from convir.cli.reports.bench_html import page_of
from convir.cli.reports.bench_plot import HEIGHT, WIDTH
from convir.dialects.context import new_context
from convir.frontends.miopen import parse_line
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.reference import FloatFormat, evaluate
from convir.reference.checking.compare import Difference, largest_error
from convir.runtime.bench.candidate import Candidate, Failed
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.peers.torch_reference import convolve, largest_difference
from convir.runtime.bench.row import Ceilings, Row
from convir.runtime.bench.session import (
    Effort,
    Task,
    geomean,
    over_ours,
    run_task,
    speedups,
    tolerance_of,
)
from convir.runtime.bench.timing import Timing, measure
from convir.runtime.cuda import toolkit
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from convir.dialects.conv.problem import ConvProblem
    from convir.runtime.bench.candidate import Weights

LINE = (
    "conv -n 1 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1"
    " --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
)
STRIDED = (
    "convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 -y 1 -x 1 -u 2 -v 2 -F 2"
    " --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
)
QUICK = ["--budget", "0.01"]
SVG, XHTML = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xhtml}"


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
    row, constant = report["rows"]
    assert (row["weights"], constant["weights"]) == ("argument", "constant")
    assert row["backend"] == constant["backend"] == "convir"
    assert constant["failure"] is None
    assert row["failure"] is None
    assert row["us"]["p20"] <= row["us"]["median"] <= row["us"]["p80"]
    assert row["flops"] == problem(LINE).flops
    assert row["bytes"] == problem(LINE).bytes
    assert row["error"] <= row["tolerance"]
    with table.open() as stream:
        flat, _ = csv.DictReader(stream)
    assert flat["line"] == row["line"]


def test_a_peer_in_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main([*QUICK, "--against", "torch", *LINE.split()]) == 0
    out = capsys.readouterr().out
    assert "NCHW" in out
    assert "geomean of torch's time over ours, best layouts: " in out


def test_a_run_that_is_cut_off_leaves_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.json"

    def cut_off(task: Task, *arguments: Any) -> list[Row]:
        if rows.exists():
            raise KeyboardInterrupt
        return run_task(task, *arguments)

    monkeypatch.setattr(bench_job, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(bench_job, "run_task", cut_off)
    commands = tmp_path / "lines.txt"
    commands.write_text(f"{LINE}\n{STRIDED}\n")
    assert main([*QUICK, "--json", str(rows), "--commands-file", str(commands)]) != 0
    assert {row["line"] for row in json.loads(rows.read_text())["rows"]} == {LINE}


def test_a_peer_with_constant_weights(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    file = tmp_path / "rows.json"
    arguments = ["--against", "onnxruntime", "--json", str(file), "--threads", "2"]
    assert main([*QUICK, *arguments, *LINE.split()]) == 0
    peer = json.loads(file.read_text())["rows"][-1]
    assert (peer["backend"], peer["weights"]) == ("onnxruntime", "constant")
    assert peer["failure"] is None


def row_of(backend: str, weights: Weights, us: float | None) -> Row:
    timing = None if us is None else Timing(us, us, us)
    return Row("suite", "line", backend, "", "", weights, timing, 1, 1, 1.0)


def test_peers_are_compared_under_their_conditions() -> None:
    rows = [
        row_of("convir", "argument", 20.0),
        row_of("convir", "constant", 10.0),
        row_of("torch", "argument", 30.0),
        row_of("torch", "argument", 40.0),
        row_of("onnxruntime", "constant", 5.0),
        row_of("broken", "argument", None),
    ]
    assert speedups(rows, "torch") == [1.5]
    assert speedups(rows, "onnxruntime") == [0.5]
    assert speedups(rows, "broken") == []
    assert over_ours(row_of("torch", "argument", 1.0), []) is None


def test_further_layouts_are_rows_with_the_same_result() -> None:
    given = problem(
        "conv -n 2 -c 4 -H 6 -W 5 -k 8 -y 3 -x 2 -p 1 -q 1 -F 1"
        " --in_layout NCHW --fil_layout NCHW --out_layout NCHW"
    )

    def compiled(backend: str, arranged: ConvProblem, weights: Any) -> Any:
        return convir_compile(module_of(arranged, weights), device="host")

    def formula(inputs: Sequence[Any]) -> Any:
        return evaluate(module_of(given), "main", inputs, float_format=FloatFormat.WIDE)[0]

    task = Task("suite", given.line(), given, formula, compiled)
    rows = run_task(task, HostBench(1), [], Effort(seed=0, budget_s=0.01, rounds=3))
    assert [row.layout for row in rows] == ["as given", "as given", "NHWC"]
    assert [row.failure for row in rows] == [None, None, None]


def test_a_peer_is_compared_with_our_best_layout() -> None:
    rows = [row_of("convir", "argument", 20.0), row_of("convir", "argument", 10.0)]
    assert over_ours(row_of("peer", "argument", 15.0), rows) == 1.5


@pytest.mark.parametrize(
    ("backend", "line", "steps"),
    [
        ("plain", STRIDED, ["loops", "sm90_implicit_gemm"]),
        ("library", STRIDED, ["gemm", "loops"]),
        ("library", LINE, ["loops"]),
    ],
)
def test_our_programs_as_peers_on_a_gpu(backend: str, line: str, steps: list[str]) -> None:
    module = run(module_of(problem(line)), PIPELINES[backend]).module
    PassPipeline(lowering_passes("cuda")).apply(new_context(), module)
    summary = read_program(module, "main").summary("cuda")
    assert [step.split()[0] for step in summary] == steps


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
        (["--threads", "0", *LINE.split()], "--threads and --jobs are at least 1"),
        (["--repeats", "0", *LINE.split()], "--repeats is at least 1"),
        (["--clock", "graph", *LINE.split()], "host has no clock 'graph'; there is host"),
        (["--html", "/nowhere/page.html", *LINE.split()], "No such directory"),
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
    # A wrong line is shown with a caret below the column.
    assert captured.err.count("\n") == (3 if message == "column" else 1)


def test_a_gpu_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(index: int) -> None:
        raise toolkit.NoGpuError(f"there is no GPU number {index}")

    monkeypatch.setattr(toolkit, "require_gpu", refuses)
    assert main(["--device", "cuda:7", *LINE.split()]) == 2
    message = "convir-bench: error: --device cuda:7: there is no GPU number 7\n"
    assert capsys.readouterr().err == message


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


def test_a_page_with_plots(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    suite = tmp_path / "suite.txt"
    suite.write_text(f"{LINE}\n{LINE.replace('-F 1', '-F 2')}\n")
    arguments = [*QUICK, "--against", "plain", "--html", str(path), "--commands-file", str(suite)]
    assert main(arguments) == 0
    text = path.read_text()
    assert "http-equiv" not in text
    assert "<script" not in text
    assert not re.search(r"(?:src|href)=", text), "it loads nothing"
    page = ElementTree.fromstring(text.partition("\n")[2])
    plots = {plot.get("class"): plot for plot in page.iter(f"{SVG}svg")}
    del plots["key"]
    assert set(plots) == {"roofline", "bars"}
    dots = [dot.get("class") for dot in plots["roofline"].iter(f"{SVG}circle")]
    ours, hollow = "mark of-convir", "mark of-convir hollow"
    assert sorted(map(str, dots)) == [ours, ours, hollow, hollow, *["mark of-plain"] * 2]
    for dot in plots["roofline"].iter(f"{SVG}circle"):
        assert 0 < float(dot.get("cx", 0)) < WIDTH
        assert 0 < float(dot.get("cy", 0)) < HEIGHT
    (legend,) = (each for each in page.iter(f"{XHTML}ul") if each.get("class") == "legend")
    names = ["".join(item.itertext()).strip() for item in legend]
    assert names == ["convir as given", "convir as given, constant weights", "plain as given"]
    assert "1.0 = as fast" in "".join(plots["bars"].itertext())
    assert "fprop f32 n1 c4 6x6 k4 3x3" in "".join(plots["bars"].itertext())
    assert "dgrad f32 n1 c4 6x6 k4 3x3" in "".join(plots["bars"].itertext())
    assert len(list(plots["bars"].iter(f"{SVG}rect"))) == 2
    assert len(list(page.iter(f"{XHTML}tr"))) == 1 + 6


def test_rows_that_fail_are_on_the_page() -> None:
    row = {
        "suite": "s",
        "line": LINE,
        "backend": "convir",
        "layout": "as given",
        "config": "",
        "weights": "argument",
        "us": None,
        "flops": 1,
        "bytes": 1,
        "floor_us": 1.0,
        "error": None,
        "tolerance": None,
        "failure": "a < b & c",
    }
    report: dict[str, Any] = {"environment": {"packages": {}}, "ceilings": {}, "rows": [row]}
    page = ElementTree.fromstring(page_of(report).partition("\n")[2])
    texts = ["".join(cell.itertext()) for cell in page.iter(f"{XHTML}td")]
    assert texts == [
        "fprop f32 n1 c4 6x6 k4 3x3",
        "convir",
        "as given",
        "argument",
        "",
        "a < b & c",
    ]


DIRECTIONS = ["-F 1", "-F 2", "-F 4"]
GEOMETRIES = [
    "-n 2 -c 6 -H 7 -W 9 -k 4 -y 3 -x 2 -p 1 -q 1 -u 2 -v 1 -l 1 -j 2 -g 2",
    "-n 2 -c 4 -H 6 -W 5 -k 6 -y 1 -x 1 -p 0 -q 0 -u 2 -v 2 -l 1 -j 1 -g 1",
    "--spatial_dim 1 -n 1 -c 4 -W 11 -k 4 -x 3 -q 2 -v 2 -j 2 -g 4",
]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("last", [False, True])
def test_the_reference_of_a_gpu_is_the_formula(geometry: str, direction: str, last: bool) -> None:
    torch = pytest.importorskip("torch")
    letters = "NWC" if "spatial_dim" in geometry else "NHWC"
    layout = f" --in_layout {letters} --fil_layout {letters} --out_layout {letters}"
    case = problem(f"conv {geometry} {direction}{layout if last else ''}")
    inputs = HostBench(1).inputs(case, 0)
    expected = evaluate(module_of(case), "main", inputs, float_format=FloatFormat.WIDE)[0]
    found = convolve(case, [torch.from_numpy(array) for array in inputs])
    assert found.dtype == torch.float64
    assert largest_error(expected, found.numpy(), 1e-12).error < 1e-12
    worst = largest_difference(torch.from_numpy(expected), found.float(), 1e-7)
    assert worst.error <= worst.allowed
    found[(0,) * found.dim()] = torch.nan
    worst = largest_difference(torch.from_numpy(expected), found, 1e-7)
    assert (worst.position, worst.error) == (0, float("inf"))


class Drifting:
    """A device on which every backend is as far off as it says."""

    name = "drifting"
    prepares_weights = False

    def describe(self) -> dict[str, Any]:
        return {}

    def ceilings(self, dtype: str) -> Ceilings:
        return Ceilings(1.0, 1.0)

    def inputs(self, problem: ConvProblem, seed: int) -> Sequence[Any]:
        return []

    def rearranged(self, problem: ConvProblem) -> Sequence[ConvProblem]:
        return ()

    def arranged(self, operand: Any, axes: Sequence[int]) -> Any:
        return operand

    def ours(self, backend: str, executable: Any, inputs: Sequence[Any]) -> Candidate:
        return candidate(backend, executable)

    def peer(
        self, name: str, problem: ConvProblem, inputs: Sequence[Any]
    ) -> list[Candidate | Failed]:
        return [Failed(name, "NCHW", "no such layout"), candidate(name, 0.0)]

    def expected(self, problem: ConvProblem, inputs: Sequence[Any], formula: Any) -> Any:
        return 0.0

    def difference(self, expected: Any, result: Any, relative: float) -> Difference:
        return Difference(0, result, relative)

    def clock(self, call: Any, repeats: int) -> float:
        call()
        return 10.0


def candidate(backend: str, error: float) -> Candidate:
    """A backend that is wrong by `error` wherever it was called since it was poisoned."""
    results = [0.0]

    def call() -> None:
        results[0] = error

    def poison() -> None:
        results[0] = float("inf")

    return Candidate(backend, "as given", "", call, lambda: results[0], poison)


@pytest.mark.parametrize(
    ("error", "failure"), [(0.0, None), (1.0, "wrong: error 1, allowed"), ("no", "ValueError: no")]
)
def test_failures_are_rows(error: Any, failure: str | None) -> None:
    def compiled(backend: str, arranged: ConvProblem, weights: Any) -> Any:
        if isinstance(error, str):
            raise ValueError(error)
        return error

    task = Task("suite", LINE, problem(LINE), lambda inputs: np.zeros(1), compiled)
    effort = Effort(seed=0, budget_s=0.01, rounds=3)
    ours, failed, peer = run_task(task, Drifting(), ["peer"], effort)
    assert (ours.failure is None) == (failure is None)
    assert ours.failure is None or ours.failure.startswith(failure or "?")
    assert failed.failure == "no such layout"
    assert peer.us == Timing(10.0, 10.0, 10.0)
    assert speedups([ours, failed, peer], "peer") == ([1.0] if failure is None else [])
