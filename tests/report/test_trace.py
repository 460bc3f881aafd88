"""Traces of calls: what ran is in them, and viewers can read them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import convir
from convir.cli import run
from convir.dialects.context import read_module
from convir.report.roles import warp_roles
from convir.report.trace import trace_text
from convir.runtime.devices import find_device
from convir.runtime.executable import Executable
from convir.runtime.host.pool import shared_pool
from convir.runtime.read_program import read_program
from convir.runtime.trace.call import traced_call

if TYPE_CHECKING:
    from pathlib import Path

    from convir.report.collect import Record

pytestmark = pytest.mark.fast

LINE = "conv -n 2 -c 8 -H 17 -W 13 -k 12 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2"

# Everything that a program may do.
PROGRAM = """
kernel.func @square(%a: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = arith.mulf %a, %a : tensor<16x16xf32>
  kernel.return %0 : tensor<16x16xf32>
}
func.func @main(%x: memref<16x16xf32>, %y: memref<16x16xf32>, %same: memref<16x16xf32>)
    attributes {rt.program, rt.outputs = 2 : i64} {
  %arena = rt.arena : memref<1024xi8>
  %t = rt.view %arena[0] : memref<1024xi8> to memref<16x16xf32>
  rt.launch @square ins(%x : memref<16x16xf32>) outs(%t : memref<16x16xf32>)
  rt.fill 2.0 : f32 into %y : memref<16x16xf32>
  rt.gemm {m = 16 : i64, n = 16 : i64, k = 16 : i64, batch = 1 : i64, lda = 16 : i64,
           ldb = 16 : i64, ldc = 16 : i64, stride_a = 0 : i64, stride_b = 0 : i64,
           stride_c = 0 : i64, accumulate} ins(%t, %x : memref<16x16xf32>, memref<16x16xf32>)
          outs(%y : memref<16x16xf32>)
  rt.copy %x to %same : memref<16x16xf32> to memref<16x16xf32>
  return
}"""


def checked(text: str) -> list[Record]:
    """The complete events of a trace, which must be as the format has them."""
    trace: Record = json.loads(text)
    names: dict[tuple[int, int], str] = {}
    complete: list[Record] = []
    for event in cast("list[Record]", trace["traceEvents"]):
        assert isinstance(event["name"], str)
        assert event["name"]
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            names[event["pid"], event["tid"]] = event["args"]["name"]
            continue
        assert event["ph"] == "X"
        assert isinstance(event["cat"], str)
        assert isinstance(event["ts"], float)
        assert isinstance(event["dur"], float)
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        complete.append(event)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    tracks = {(event["pid"], event["tid"]) for event in complete}
    assert tracks <= set(names)
    for track in tracks:
        assert_nested([event for event in complete if (event["pid"], event["tid"]) == track])
    return complete


def assert_nested(events: list[Record]) -> None:
    """Slices of one track are apart, or one is inside of the other."""
    open_until: list[float] = []
    for event in sorted(events, key=lambda each: (each["ts"], -each["dur"])):
        end = event["ts"] + event["dur"]
        while open_until and open_until[-1] <= event["ts"]:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + 1e-3
        open_until.append(end)


def test_each_kernel_of_a_line_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert run.main([LINE, "--device", "cpu", "--trace", str(path)]) == 0
    events = checked(path.read_text())
    (call,) = (each for each in events if each["cat"] == "call")
    assert call["name"] == "@main"
    steps = [each for each in events if each["cat"] == "step"]
    assert steps
    for step in steps:
        args = step["args"]
        assert args["operation"] in step["name"]
        assert args["config"]
        assert args["bytes"] == 4 * (2 * 12 * 9 * 7 + 12 * 8 * 9 + 2 * 8 * 17 * 13)
        assert args["writes"] == ["2x8x17x13 float32"]
        assert args["gflop"] > 0
        assert args["predicted_us"] > 0
        assert call["ts"] <= step["ts"]
        assert step["ts"] + step["dur"] <= call["ts"] + call["dur"] + 1e-3
    assert {each["name"] for each in events if each["cat"] == "allocation"} == {
        "allocate arena",
        "allocate result 0",
    }


def test_copies_fills_and_library_calls_have_names() -> None:
    program = read_program(read_module(PROGRAM, "program"))
    executable = Executable(find_device("cpu").load(program))
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    expected = executable(x)
    events = checked(trace_text(executable, traced_call(executable, [x.T])))
    names = [each["name"] for each in events if each["cat"] == "step"]
    launches = [name for name in names if name.startswith("@square ")]
    assert launches
    assert [name for name in names if name not in launches] == [
        "fill",
        "BLAS GEMM M 16 N 16 K 16",
        "copy",
    ]
    (copied,) = (each for each in events if each["cat"] == "copy")
    assert (copied["name"], copied["args"]) == ("copy argument 0", {"bytes": 1024})
    for one, other in zip(executable(x), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_item_of_a_launch_is_on_one_thread() -> None:
    executable = convir.compile(LINE, device="cpu")
    arguments: list[Any] = [np.ones(spec.shape, spec.dtype) for spec in executable.inputs]
    steps = [each for each in traced_call(executable, arguments) if each.category == "step"]
    by_stage: dict[str, int] = {}
    for each in steps:
        by_stage[each.name] = by_stage.get(each.name, 0) + each.args["items"]
        assert each.args["pieces"] <= each.args["items"]
        assert each.track in ("caller", *(f"convir-worker-{i}" for i in range(1, 999)))
    plan = getattr(executable.loaded, "plan")  # noqa: B009  (only of a host's program)
    assert list(by_stage.values()) == [step.items for step in plan.steps]
    caller = [each for each in steps if each.track == "caller"]
    assert all(one.end <= other.begin for one, other in pairwise(caller))
    assert len({each.track for each in steps}) <= shared_pool().workers


@pytest.mark.parametrize(
    ("config", "roles"),
    [
        (
            (
                "sm90_wgrad 64x64 stages=8 roles=1:4 cluster=2 "
                "partition=split-k:6:reduce-scatter blocks=132"
            ),
            {"producer": 1, "consumer": 4},
        ),
        (
            "sm90_implicit_gemm 128x128 stages=6 schedule=pingpong store=64 blocks=132",
            {"producer": 1, "consumer": 8},
        ),
        ("sm90_fused_dgrad stages=6 store=64 blocks=132", {"producer": 2, "consumer": 8}),
        (
            "sm90_grouped_direct 13 stages=4 group_blocks=4 blocks=132x1",
            {"producer": 1, "store": 2, "consumer": 8},
        ),
        ("sm90_grouped_wgrad 13 stages=4 blocks=132x1", {"producer": 1, "consumer": 8}),
        (
            (
                "sm90_halo_implicit_gemm 8x8 chunk=64 columns=64 "
                "stages=2 consumers=4 store=64 blocks=132"
            ),
            {"producer": 4, "consumer": 16},
        ),
        ("loops", {}),
    ],
    ids=lambda each: each.partition(" ")[0] if isinstance(each, str) else "",
)
def test_warps_with_roles_are_named(config: str, roles: dict[str, int]) -> None:
    assert warp_roles(config) == roles


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--trace", "FOLDER"], "FOLDER: Is a directory"),
        (["--trace", "FOLDER/none/trace.json"], "No such directory 'FOLDER/none'"),
        (["--trace", "-"], "- is the standard output"),
        (["--trace", "trace.json", "--device", "reference"], "--trace is for devices"),
    ],
)
def test_bad_paths_are_one_error(
    arguments: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [each.replace("FOLDER", str(tmp_path)) for each in arguments]
    device = [] if "--device" in given else ["--device", "cpu"]
    assert run.main([LINE, *given, *device]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert error.replace("FOLDER", str(tmp_path)) in told
