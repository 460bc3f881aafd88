"""Tests compile what they say they compile, and split what can be split."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from convir.runtime.host import planner
from convir.runtime.program_cache import SWITCH_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Generator

# Whole programs come from no cache, neither here nor in processes that tests start.
os.environ.setdefault(SWITCH_VARIABLE, "0")


@pytest.fixture(scope="session", autouse=True)
def small_launches_are_shared() -> Generator[None]:
    """Launches of any size are split between threads, as those of real sizes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "MIN_SHARED_WORK", 0)
        yield
