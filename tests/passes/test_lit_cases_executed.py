"""The lit cases of scatters and filters are executed before and after, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from convir.dialects.context import read_module
from convir.passes import run
from convir.reference.checking.check import Budget, Checker

LIT = Path(__file__).resolve().parent.parent.parent / "lit" / "passes"

SCATTER = "convert-strided-insert-slice-to-generic"
PIPELINES = {
    SCATTER: (SCATTER, f"{SCATTER}{{force=true}}"),
    f"{SCATTER}-force": (f"{SCATTER}{{force=true}}",),
    f"{SCATTER}-pads": (f"{SCATTER}{{pads=true}}", f"{SCATTER}{{pads=true force=true}}"),
    f"{SCATTER}-contraction-inputs": (f"{SCATTER}{{only-contraction-inputs=true}}",),
    "convert-filter-to-channels-last": (
        "convert-filter-to-channels-last",
        "convert-filter-to-channels-last{filter-layout=hwfc}",
    ),
    "backward-data-zeros": ("backward-data",),
}

BUDGET = Budget(bytes=256 << 20, flops=200_000_000)

NOT_EXECUTED = {
    "grouped_3x3": "FLOPs",
    "large_1x1": "FLOPs",
    "backward_weight": "FLOPs",
    "live_destination": "bytes",
    "divisions": "bytes",
    "dynamic_slice": "before",
    "unproved_stride": "before",
    "unproved_size": "before",
}
"""Functions at full size, and those whose random arguments place the slice out of bounds."""


def cases() -> list[tuple[str, str, str]]:
    """(function name, module, pipeline) of each case of the files."""
    found: list[tuple[str, str, str]] = []
    for stem, pipelines in PIPELINES.items():
        (file,) = LIT.rglob(f"{stem}.mlir")
        for text in file.read_text().split("// -----\n"):
            name = text.split("func.func @")[1].split("(")[0]
            found.extend((name, text, pipeline) for pipeline in pipelines)
    return found


@pytest.mark.parametrize(
    ("name", "text", "pipeline"),
    [pytest.param(*case, id=f"{case[0]}-{case[2]}") for case in cases()],
)
def test_agrees(name: str, text: str, pipeline: str) -> None:
    before = read_module(text)
    report = Checker(before, budget=BUDGET).check(run(before, pipeline).module)
    if name in NOT_EXECUTED:
        assert not report.checked or report.passed, str(report)
        return
    assert report.checked, str(report)
    assert report.passed, str(report)
