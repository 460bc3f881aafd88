"""lit with forked tools sees what lit sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

LIT = Path(__file__).parents[1] / "lit"
GOOD = """// RUN: convir-opt %s -p cse | filecheck %s
// RUN: not convir-opt %s -p no-such-pass 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: convir-opt --version > %t.version && filecheck %s --check-prefix=VERSION < %t.version
// CHECK: func.func @f
// UNKNOWN: unknown pass 'no-such-pass'
// VERSION: convir-opt
func.func @f() { return }
"""
WRONG = {
    "what-is-printed": GOOD.replace("func.func @f\n", "func.func @g\n"),
    "status": GOOD.replace("not convir-opt", "convir-opt"),
    "text": GOOD.replace("return }", "return"),
}


def status(folder: Path, text: str, *options: str) -> int:
    """What lit makes of one test in a folder of its own."""
    suite = folder / "package" / "lit"
    suite.mkdir(parents=True)
    (folder / "package" / ".link").symlink_to(LIT.parent / ".link")
    for name in ("lit.cfg.py", "forked_tools.py"):
        copy(LIT / name, suite)
    (suite / "one.mlir").write_text(text)
    tool = Path(sys.executable).with_name("lit")
    return subprocess.run([tool, "-q", *options, suite], check=False).returncode


@pytest.mark.parametrize("options", [(), ("-D", "forked")], ids=["started", "forked"])
def test_a_right_file_passes(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert status(tmp_path, GOOD, *options) == 0


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_wrong_file_fails_with_forked_tools(tmp_path: Path, text: str) -> None:
    assert status(tmp_path, text, "-D", "forked") == 1
