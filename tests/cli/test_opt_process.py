"""`convir-opt` as a process: what only a process can show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = [sys.executable, "-m", "convir.cli.opt"]

NOT_FOR_A_SHORT_RUN = (
    "hypothesis",
    "ml_dtypes",
    "numpy",
    "onnx",
    "rich",
    "torch",
    "xdsl.interpreter",
    "xdsl.transforms.canonicalization_patterns",
)


def _run(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOOL, *argv], input=stdin, capture_output=True, text=True, check=False)


def test_the_exit_status_of_the_process() -> None:
    assert _run().returncode == 0
    assert _run(stdin="}").returncode == 1
    assert _run("--no-such-option").returncode == 2


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run([*TOOL, "/dev/null"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [*TOOL, "/dev/null"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert result.stderr == "convir-opt: error: <stdout>: No space left on device\n"


def test_a_short_run_imports_little() -> None:
    script = (
        "import sys; from convir.cli.opt import main; main(['/dev/null']);"
        f"print([m for m in {NOT_FOR_A_SHORT_RUN!r} if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stderr == "[]\n"


def test_the_version_imports_nothing_of_xdsl() -> None:
    script = (
        "import sys; from convir.cli.opt import main; main(['--version']);"
        "print([m for m in sys.modules if m.startswith('xdsl.')], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stderr == "[]\n"
