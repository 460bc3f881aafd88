"""What the tests of the dialects share: the reference tool for MLIR's syntax and rules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def run_iree_opt(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).with_name("iree-opt")
    if not tool.exists():
        pytest.skip("iree-opt is not installed (the extra `peers`)")
    return subprocess.run(
        [str(tool), *arguments, "-"], input=text, capture_output=True, text=True, check=False
    )


@pytest.fixture
def iree_opt() -> Callable[..., str]:
    """Run `iree-opt` on text and return what it prints; it fails the test if iree-opt fails."""

    def run(text: str, *arguments: str) -> str:
        done = run_iree_opt(text, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def iree_accepts() -> Callable[[Sequence[str]], list[bool]]:
    """Whether `iree-opt` accepts each of several modules, asked in one run."""

    def accepts(modules: Sequence[str]) -> list[bool]:
        starts: list[int] = []
        lines: list[str] = []
        for module in modules:
            starts.append(len(lines))
            lines.extend((*module.splitlines(), "// -----"))
        done = run_iree_opt("\n".join(lines[:-1]), "--split-input-file")
        wrong = {int(line) for line in re.findall(r"<stdin>:(\d+):\d+: error:", done.stderr)}
        assert "error:" not in re.sub(r"<stdin>:\d+:\d+: error:", "", done.stderr)
        ends = [*starts[1:], len(lines)]
        return [
            not any(start < line <= end for line in wrong)
            for start, end in zip(starts, ends, strict=True)
        ]

    return accepts
