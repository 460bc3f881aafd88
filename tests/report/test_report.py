"""What a report says, as data."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdsl.dialects.builtin import UnknownLoc
from xdsl.dialects.func import FuncOp

import convir
from convir.cli import opt
from convir.dialects.context import read_module
from convir.frontends.sources import read_line
from convir.report import collect
from convir.report.explain import Report
from convir.report.page.answers import answers
from convir.report.page.census import census_section
from convir.report.page.figures import most_alive
from convir.report.programs import calls_in, graph_of
from convir.report.texts import Texts, origin_of
from convir.runtime.cuda.toolkit import NoGpuError, require_gpu
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from convir.report.collect import Record

EXAMPLE = Path(__file__).parents[2] / "examples" / "backward_data_1x1.mlir"
SCATTER_OF_A_RESULT = "34:9"


@cache
def report_of(device: str) -> Record:
    return convir.explain(EXAMPLE, device=device).data


def text_of(report: Record, numbers: list[int]) -> str:
    return "\n".join(report["lines"][number] for number in numbers)


@pytest.mark.parametrize("device", ["host", "h200"])
def test_it_answers_what_a_reader_asks(device: str) -> None:
    report = report_of(device)
    found = {each.question: each for each in answers(report)}
    zeros = found["Which pass removed multiplications by zero, and how many?"]
    # 3/4 of N·H·W·C·K = 32·50·50·1024·2048 multiply-adds met a hole.
    assert f"{3 * 32 * 50 * 50 * 1024 * 2048 // 4:,} multiply-adds, 75%" in zeros.text
    assert zeros.text.startswith("swap-strided-insert-slice-with-contraction")
    assert SCATTER_OF_A_RESULT in found["Why did a scatter stay?"].text
    slowest = found["Which kernel takes most time, and how far is it from its floor?"]
    assert "Call 1" in slowest.text
    assert "floor" in slowest.text
    assert "times as long" in found["Why did the next-best kernel lose?"].text


def test_steps_have_texts_costs_and_remarks() -> None:
    report = report_of("host")
    changed = [step for step in report["steps"] if step["changed"]]
    assert [step["name"].partition("{")[0] for step in changed][:1] == [
        "swap-strided-insert-slice-with-contraction"
    ]
    (swap, *_) = changed
    before, after = (text_of(report, report["modules"][swap[key]]) for key in ("before", "after"))
    assert "%scattered = tensor.insert_slice" in before
    assert "%scattered" not in after
    assert swap["flops"][0] == 4 * swap["flops"][1]
    (remark,) = swap["remarks"]
    assert remark["origin"] == "backward_data_1x1.mlir:16:16"
    unchanged = [step for step in report["steps"] if not step["changed"]]
    assert all(step["before"] == step["after"] for step in unchanged)


def test_lines_know_where_they_come_from() -> None:
    report = report_of("host")
    for number in report["modules"][0]:
        if "tensor.insert_slice" in report["lines"][number]:
            assert report["origins"][report["originOfLine"][number]].endswith(":16:16")


def test_losing_candidates_are_slower_or_say_why() -> None:
    kernel = report_of("h200")["kernels"][1]
    decision = kernel["decision"]
    (chosen,) = (each for each in decision["candidates"] if each["chosen"])
    assert chosen["config"] == kernel["config"]
    for each in decision["candidates"]:
        assert each["us"] >= chosen["us"] or each["refusal"]


def test_edges_are_who_wrote_the_bytes_that_are_read() -> None:
    (program,) = report_of("host")["programs"]
    transposed = next(x for x in program["tensors"] if x["writer"] == 0)
    assert transposed["readers"] == [1]
    assert transposed["space"] == "arena"
    workspace = [x for x in program["tensors"] if "workspace" in x["space"]]
    assert all(x["first"] == x["last"] and not x["readers"] for x in workspace)


REUSED = """
builtin.module {
  func.func @main(%x: memref<64xf32>, %y: memref<64xf32>)
      attributes {rt.program, rt.outputs = 1 : i64} {
    %arena = rt.arena : memref<512xi8>
    %large = rt.view %arena[0] : memref<512xi8> to memref<128xf32>
    %low = rt.view %arena[0] : memref<512xi8> to memref<64xf32>
    %high = rt.view %arena[256] : memref<512xi8> to memref<64xf32>
    rt.fill 0.0 : f32 into %large : memref<128xf32>
    rt.copy %x to %low : memref<64xf32> to memref<64xf32>
    rt.copy %low to %y : memref<64xf32> to memref<64xf32>
    rt.copy %high to %y : memref<64xf32> to memref<64xf32>
    func.return
  }
}
"""


def test_reused_memory_is_read_from_its_last_writer() -> None:
    module = read_module(REUSED, "reused")
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    graph = graph_of(read_program(module), calls_in(function))
    by_call = [[graph.tensors[i].writer for i in ends.reads] for ends in graph.calls]
    assert by_call == [[], [None], [1], [0]]


def data_of(page: str) -> Record:
    """What a page holds, compressed."""
    found = re.search(r'id="data">([^<]+)<', page)
    assert found is not None
    return json.loads(zlib.decompress(b64decode(found[1])))


def test_a_page_holds_its_data_and_asks_for_nothing() -> None:
    report = convir.explain(EXAMPLE, device="host")
    page = report.html()
    assert data_of(page)["name"] == EXAMPLE.name
    assert not re.search(r"(?:src|href)=\"(?!#|data:,)", page)
    assert "srcdoc=" in report._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_equal_lines_are_stored_once() -> None:
    texts = Texts()
    assert texts.of_text("a\nb\na") == [0, 1, 0]
    assert texts.lines == ["a", "b"]


def test_a_census_is_shown() -> None:
    row = {
        "direction": "forward",
        "shapes": [[1, 3, 8, 8], [4, 3, 3, 3], [1, 4, 6, 6]],
        "dtype": "float32",
        "runs": "convir",
        "convir_calls": 3,
        "pytorch_calls": 1,
        "convir_us": 4.0,
        "pytorch_us": None,
        "kernel": "implicit-gemm",
        "reason": "a < b",
    }
    section = census_section([row])
    assert "3 calls ran here, 1 in PyTorch" in section
    assert "1x3x8x8" in section
    assert "a &lt; b" in section
    assert census_section([]) == ""


LINE = "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1"


def test_the_tool_writes_a_page_of_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert opt.main([LINE, "--html", str(page)]) == 0
    assert "linalg.generic" in capsys.readouterr().out
    report = data_of(page.read_text())
    assert report["name"] == LINE
    assert [node["kind"] for node in report["programs"][0]["nodes"]] == ["launch"]


def test_measured_times_stand_beside_predicted_ones(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert opt.main([LINE, "--html", str(page), "--measure", "-o", str(tmp_path / "o")]) == 0
    report = data_of(page.read_text())
    nodes = [node for program in report["programs"] for node in program["nodes"]]
    assert nodes
    assert all(node["measured"] > 0 and node["us"] > 0 for node in nodes)
    text = page.read_text()
    assert re.search(r"<span>[\d.]+ µs measured</span> <span>[\d.]+ µs predicted</span>", text)
    assert "of the roofline" in text
    assert "measured" in str(Report(report))


def test_only_this_machine_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="'h200' only plans it"):
        convir.explain(LINE, device="h200", measure=True)
    try:
        require_gpu(0)
    except NoGpuError:
        assert opt.main([LINE, "--html", "x.html", "--measure", "--device", "cuda"]) == 2
        told = capsys.readouterr().err
        assert told.startswith("convir-opt: error: --measure: ")
        assert told.count("\n") == 1


def test_checks_stand_at_their_passes(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    source = tmp_path / "f.mlir"
    source.write_text(str(read_line(LINE)))
    assert (
        opt.main([str(source), "--html", str(page), "--check-each", "-o", str(tmp_path / "o")]) == 0
    )
    steps = data_of(page.read_text())["steps"]
    checked = [step for step in steps if step["checks"]]
    assert checked
    assert all("agrees" in check["message"] for step in checked for check in step["checks"])
    assert all(step["changed"] for step in checked)


def test_what_has_no_program_says_why() -> None:
    text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}"
    report = convir.explain(text, device="host").data
    assert report["failure"]
    assert report["programs"] == []
    assert report["steps"]


@pytest.mark.parametrize(
    "arguments", [["--input", "1x3"], ["--measure"], ["--html", "x.html", "--split-input-file"]]
)
def test_what_does_not_go_with_a_page_is_refused(arguments: list[str]) -> None:
    assert opt.main([str(EXAMPLE), *arguments]) == 2


def test_unknown_places_come_from_nowhere() -> None:
    assert origin_of(UnknownLoc()) == ""


def call(number: int, kernel: int, us: float, floor: float) -> Record:
    numbers = {"number": number, "kernel": kernel, "us": us, "measured": None, "floor": floor}
    return {"kind": "launch", "bound": "memory", **numbers}


def test_the_kernel_whose_calls_take_most_time_together_is_named() -> None:
    names = [{"operation": "often", "config": "a"}, {"operation": "once", "config": "b"}]
    decision: Record = {"candidates": [], "us": None}
    nodes = [call(0, 0, 3.0, 2.0), call(1, 1, 4.0, 4.0), call(2, 0, 3.0, 1.0)]
    report: Record = {
        "steps": [],
        "kernels": [{**name, "decision": decision} for name in names],
        "programs": [{"nodes": nodes}],
    }
    together, longest = answers(report)
    assert "often on a: 6 µs predicted in 2 calls (0, 2), 60% of all" in together.text
    assert "Their floor is 3 µs: they take 2.00 times that." in together.text
    assert together.target == "share-0"
    assert "The longest call is call 1, once on b: 4 µs predicted" in longest.text
    assert longest.target == "call-0-1"


def test_without_a_refusal_no_scatter_stayed() -> None:
    found = {each.question: each.text for each in convir.explain(LINE, device="host").answers}
    assert found["Why did a scatter stay?"] == "No pass that removes scatters refused one."


def test_the_most_that_is_alive_at_once() -> None:
    boxes = [(0, 1, 10), (1, 2, 5), (2, 2, 1)]
    tensors = [
        {"space": "arena", "first": first, "last": last, "bytes": size}
        for first, last, size in boxes
    ]
    assert most_alive({"nodes": [{}] * 3, "tensors": tensors}) == (15, 1)


def test_a_launch_shows_shapes_and_where_its_result_lies() -> None:
    page = convir.explain(EXAMPLE, device="host").html()
    assert "2048x1024 → 1024x2048 float16" in page
    assert re.search(r"4\.19 MB in the arena at [\d,]+", page)
    assert "164 MB in output" in page


def test_warps_with_roles_are_known() -> None:
    transposition, product = report_of("h200")["kernels"]
    assert transposition["warps"] == {}
    assert product["config"].startswith("sm90_implicit_gemm ")
    assert product["warps"] == {"producer": 1, "consumer": 8}


def test_tuning_records_of_this_machine_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    passes = collect.lowering_passes

    def lowering_passes(*arguments: Any) -> Any:
        asked.append(arguments[-1])
        return passes(*arguments[:-1])

    monkeypatch.setattr(collect, "private_records", lambda: ("mine",))
    monkeypatch.setattr(collect, "lowering_passes", lowering_passes)
    convir.explain(LINE, device="host")
    assert asked == [("mine",)]
