"""What the tests of the dialects share: the reference tool for MLIR's syntax and rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def iree_opt() -> Callable[..., str]:
    """Run `iree-opt` on text and return what it prints; it fails the test if iree-opt fails."""
    tool = Path(sys.executable).with_name("iree-opt")
    if not tool.exists():
        pytest.skip("iree-opt is not installed (the extra `peers`)")

    def run(text: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(tool), *arguments, "-"], input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
