"""docs/reference.py: pages of the docstrings, names that load on first use among them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "reference.py"


def test_pages_show_what_modules_offer(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="pdoc is not installed: pip install '.[docs]'")
    modules = ("convir", "convir.passes")
    command = [sys.executable, "-W", "error::UserWarning", SCRIPT, tmp_path, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'id="compile"' in (tmp_path / "convir.html").read_text()
    assert 'id="run"' in (tmp_path / "convir" / "passes.html").read_text()
    assert "convir.html" in (tmp_path / "index.html").read_text()
