"""What `convir-bench` prints, compares and draws, from rows that are given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest

from convir.cli.bench import main
from convir.cli.files.bench_lines import canonical, named_problems, short_name
from convir.cli.jobs.bench_compare import comparison
from convir.cli.reports.bench_html import page_of
from convir.cli.reports.bench_plot import bars
from convir.cli.reports.bench_table import table_of
from convir.frontends.miopen import parse_line
from convir.runtime.bench import machine_load
from convir.runtime.bench.machine_load import LoadMeter, warning_of
from convir.runtime.bench.row import GIGA, TERA, RateUnit, Row
from convir.runtime.bench.timing import Timing

if TYPE_CHECKING:
    from pathlib import Path

LINE = "conv -n 1 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -F 1"
TRANSPOSED = "convfp16 -n 2 -c 8 -H 19 -W 19 -k 12 -y 3 -x 3 -m trans -u 2 -v 2 -g 2 -F 1"


def row(backend: str, us: float | None, line: str = LINE, **changes: Any) -> Row:
    timing = None if us is None else Timing(us, us - 1, us + 1)
    known: dict[str, Any] = {
        "suite": "suite",
        "line": line,
        "backend": backend,
        "layout": "as given",
        "config": "an implementation with a long name",
        "weights": "argument",
        "us": timing,
        "flops": 1_000_000,
        "nbytes": 1000,
        "floor_us": 500.0,
        "error": 1e-6,
        "tolerance": 1e-3,
    }
    return Row(**{**known, **changes})


ROWS = [
    row("convir", 13428123.4),
    row("torch", 113212345.6),
    row("onnxruntime", None, config="", failure="it has no such thing, for a long reason"),
]


def test_off_a_terminal_every_figure_is_there_in_full() -> None:
    head, ours, torch, failed = table_of(ROWS, GIGA)
    assert head.split() == [
        *("backend", "layout", "weights", "config", "µs", "[p20–p80]", "GFLOP/s", "GB/s"),
        *("roof", "/", "ours", "error/allowed"),
    ]
    assert "13428123.4 [13428122.4–13428124.4]" in ours
    assert "113212345.6 [113212344.6–113212346.6]" in torch
    assert failed.endswith("it has no such thing, for a long reason")


@pytest.mark.parametrize("width", [1, 60, 80, 100, 140, 1000])
def test_a_narrow_terminal_shows_fewer_columns_and_whole_figures(width: int) -> None:
    head, *lines = table_of(ROWS[:2], GIGA, width)
    for name in ("backend", "layout", "µs", "/ ours"):
        assert name in head
    assert "113212345.6 [113212344.6–113212346.6]" in lines[1]
    assert "…" not in "".join(lines)
    if width >= 100:
        assert max(map(len, (head, *lines))) <= width
    assert ("error/allowed" in head) == (width == 1000 or width == 140)


def test_a_wrong_row_says_so() -> None:
    assert table_of([row("convir", 2.0, failure="wrong: error 1")], GIGA)[1].endswith("  WRONG")


def test_rates_have_the_unit_that_fits() -> None:
    assert RateUnit.of([3.0, 999.0]) is GIGA
    assert RateUnit.of([3.0, 1000.0]) is TERA
    texts = [GIGA.text(value) for value in (0.0396, 3.96, 39.6, 396.4)]
    assert texts == ["0.0396", "3.96", "39.6", "396"]


def test_the_label_is_what_the_user_wrote() -> None:
    assert [line for line, _ in named_problems([parse_line(f"  {TRANSPOSED} ")])] == [TRANSPOSED]
    several = parse_line("conv --forw=0 -n 2 -c 8 -H 9")
    assert [line for line, _ in named_problems([several])] == [
        "conv -n 2 -c 8 -H 9 -F 1",
        "conv -n 2 -c 8 -H 9 -F 2",
        "conv -n 2 -c 8 -H 9 -F 4",
    ]
    for line, problem in named_problems([several, parse_line("conv -n 2 -m trans -F 7")]):
        assert list(parse_line(line).problems.values()) == [problem]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (LINE, "fprop f32 n1 c4 6x6 k4 3x3"),
        (LINE.replace("-F 1", "-F 2 -u 2 -v 2 -l 2"), "dgrad f32 n1 c4 6x6 k4 3x3/2 dilation 2x1"),
        (LINE.replace("-F 1", "-F 4 -g 2"), "wgrad f32 n1 c4 6x6 k4 3x3 g2"),
        (TRANSPOSED, "transposed fprop f16 n2 c8 19x19 k12 3x3/2 g2"),
        ("conv -_ 1 -n 1 -c 4 -W 9 -x 3 -k 4 -v 2 -F 1", "fprop f32 n1 c4 9 k4 3/2"),
        ("what no line says", "what no line says"),
    ],
)
def test_short_names_say_the_direction(line: str, name: str) -> None:
    assert short_name(line) == name


def test_one_problem_has_one_spelling() -> None:
    written = canonical(TRANSPOSED)
    assert "-m trans" not in written
    assert canonical(written) == written


def report(*rows: Row, **environment: Any) -> dict[str, Any]:
    ceilings = {"f32": {"gflops": 1.0, "gbytes": 1.0}}
    known: dict[str, Any] = {"device": "host", "threads": 1, "packages": {}, **environment}
    return {"environment": known, "ceilings": ceilings, "rows": [each.record() for each in rows]}


def test_two_results_side_by_side() -> None:
    gone, come = LINE.replace("-c 4", "-c 8"), LINE.replace("-c 4", "-c 12")
    old = report(row("convir", 100.0), row("torch", 50.0), row("convir", 1.5, gone))
    # The same problem in another spelling.
    changed = [row("convir", 80.0, canonical(LINE)), row("torch", 50.5), row("convir", 1.5, come)]
    name = "fprop f32 n1 c4 6x6 k4 3x3"
    assert comparison(old, report(*changed, threads=2)) == [
        "warning: threads differs: 1, now 2",
        "old µs  new µs  new/old                     row",
        f" 100.0    80.0     0.80  faster             {name}, convir as given argument",
        f"  50.0    50.5     1.01  within the spread  {name}, torch as given argument",
        "",
        f"convir: geomean of new over old 0.800 of 1 rows, {least('0.80')}",
        f"torch: geomean of new over old 1.010 of 1 rows, {least('1.01')}",
        "only in the old file: fprop f32 n1 c8 6x6 k4 3x3, convir as given argument",
        "only in the new file: fprop f32 n1 c12 6x6 k4 3x3, convir as given argument",
    ]


def least(ratio: str) -> str:
    return f"from {ratio} to {ratio} (below 1.0 = faster now)"


def test_rows_that_fail_on_one_side_are_told() -> None:
    old, new = report(row("convir", 1.5)), report(row("convir", None, failure="it broke"))
    told = "fprop f32 n1 c4 6x6 k4 3x3, convir as given argument: it broke"
    assert comparison(old, new) == ["no row has a time in both files", f"fails now: {told}"]
    assert comparison(new, old) == ["no row has a time in both files", f"failed before: {told}"]


def test_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(report(row("convir", 100.0))))
    new.write_text(json.dumps(report(row("convir", 50.0))))
    assert main(["--compare", str(old), str(new)]) == 0
    assert "convir: geomean of new over old 0.500 of 1 rows" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"rows": [{}], "environment": {}}'])
def test_what_is_no_result_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(text)
    assert main(["--compare", str(wrong), str(wrong)]) == 2
    assert "is not what convir-bench --json writes" in capsys.readouterr().err


def test_others_on_the_machine_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(machine_load, "_STAT", stat)
    times = iter((10.0, 20.0, 20.0))
    monkeypatch.setattr(machine_load.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(machine_load.os, "sysconf", Mock(return_value=100))
    stat.write_text("cpu 100 0 100 9999 9 0 0 0\n")
    meter = LoadMeter()
    stat.write_text("cpu 100000 0 100 9999 9 0 0 0\n")
    load = meter.record()
    assert load is not None
    assert load["cores_of_others"] > 90
    warning = warning_of(load)
    assert warning is not None
    assert warning.startswith("the machine was busy: other processes used 9")
    page = page_of(report(row("convir", 1.5), load=load))
    assert f"Warning: {warning}." in page
    assert warning_of({**load, "cores_of_others": 0.01}) is None
    stat.unlink()
    assert LoadMeter().record() is None
    assert warning_of(None) is None


def test_bars_go_left_of_the_line_where_the_peer_is_faster() -> None:
    plot = ElementTree.fromstring(bars([(LINE, 2.0), (TRANSPOSED, 0.5)], "onnxruntime"))
    svg = "{http://www.w3.org/2000/svg}"
    faster, slower = plot.iter(f"{svg}rect")
    assert (faster.get("class"), slower.get("class")) == ("of-convir", "of-onnxruntime")
    one = float(faster.get("x", 0))
    ends = float(slower.get("x", 0)) + float(slower.get("width", 0))
    assert ends == pytest.approx(one, abs=0.2)
    texts = [text.text for text in plot.iter(f"{svg}text")]
    assert texts[:3] == ["1.0 = as fast", "ours is faster →", "← onnxruntime is faster"]
    assert "transposed fprop f16 n2 c8 19x19 k12 3x3/2 g2" in texts


def test_rows_above_the_roof_are_explained() -> None:
    assert "1 of 1 rows lie above it: their operands stay in a cache" in page_of(
        report(row("convir", 100.0))
    )
    assert "above it" not in page_of(report(row("convir", 501.0)))


def test_headings_stand_over_what_they_name() -> None:
    page = ElementTree.fromstring(page_of(report(*ROWS)).partition("\n")[2])
    xhtml = "{http://www.w3.org/1999/xhtml}"
    (table,) = page.iter(f"{xhtml}table")
    head, *body = table.iter(f"{xhtml}tr")
    aligned = [(cell.get("class") or "").split()[:1] for cell in head]
    assert [(cell.get("class") or "").split()[:1] for cell in body[0]] == aligned
