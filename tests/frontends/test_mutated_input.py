"""Mutated models and lines: each is a module or one error, in little memory and time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "fuzz_reader.py"
LINK = Path(__file__).parents[2] / ".link"
INPUTS = {"line": 2000, "nam": 400, "onnx": 400}


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the kernel reports no size of memory"
)
@pytest.mark.parametrize("reader", INPUTS)
def test_mutated_input_is_a_module_or_one_error(reader: str) -> None:
    if reader == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")
    path = ":".join((str(LINK), str(PROGRAM.parent)))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), reader, "0", "2", str(INPUTS[reader])],
        capture_output=True,
        text=True,
        env={"PATH": "", "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
