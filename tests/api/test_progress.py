"""What is said of a compilation that takes long."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import pytest

from convir.api import progress
from convir.api.compile import compile as convir_compile
from convir.api.progress import telling
from convir.runtime.cache import object_cache, program_cache

SUM = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_caller_is_told_each_step_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(object_cache.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    for expected in (["passes", "kernels"], []):  # the second one comes from the cache
        told: list[str] = []
        convir_compile(SUM, device="host", progress=told.append)
        assert told == expected


def test_a_terminal_gets_a_line_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with telling(progress=True) as tell:
        tell("passes")
        while "passes" not in terminal.getvalue():
            time.sleep(0.001)
    shown = terminal.getvalue()
    assert "compiling: passes, " in shown
    assert shown.endswith("\r\x1b[K")


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO(), None])
def test_nothing_is_shown_early_nor_elsewhere(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with telling(progress=True) as tell:
        tell("passes")
    assert stream is None or stream.getvalue() == ""
