"""Tuning on a GPU: all configs are right, the record is found by the next compilation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conv_lines import NHWC
from gpu import cupy_or_skip
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.cli.bench import main
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.implementations import CUDA
from convir.lowering.selection.records.read import read_records
from convir.runtime.cache.object_cache import FOLDER_VARIABLE, user_records

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "line",
    [
        f"convfp16 -n 2 -c 64 -H 14 -W 11 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}",
        f"convfp16 -n 2 -c 64 -H 14 -W 11 -k 64 -y 3 -x 3 -p 1 -q 1 -g 8 -F 1 {NHWC}",
        f"convbfp16 -n 2 -c 3 -H 14 -W 11 -k 32 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}",
    ],
)
def test_tuned(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy_or_skip()
    pytest.importorskip("torch")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    arguments = ["--tune", "--device", "cuda", "--repeats", "5", "--jobs", "8"]
    assert main([*arguments, *line.split()]) == 0
    (record,) = read_records(user_records())
    assert all(measured.us is not None for measured in record.measurements)
    assert record.best is not None
    (problem,) = parse_line(line).problems.values()
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    assert executable.program.summary(CUDA) == [record.best.config]
