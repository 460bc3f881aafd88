"""Tests compile what they say they compile, split what can be split, and share the GPUs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from gpu import VISIBLE_VARIABLE, visible_gpus
from hypothesis import HealthCheck, settings

from convir.runtime.cache.program_cache import SWITCH_VARIABLE
from convir.runtime.host import planner

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from convir.lowering.kernels.host.launch import Stage
    from convir.lowering.kernels.host.target import CpuTarget

GPU_TESTS = "gpu"
"""What asks for the tests that need a GPU, and no others."""
FAST_TESTS = "fast and not gpu"
"""What `make quick` asks for: files whose tests take some two seconds together, or less."""
MARKERS = {GPU_TESTS: "mark.gpu", FAST_TESTS: "mark.fast"}
"""The marker that a file has which holds a test of these."""
QUICK_TESTS = "not exhaustive"
"""What is asked for where nothing is: files that are `EXHAUSTIVE` as a whole are not imported, as
PyTorch's own collections of tests change its settings."""
EXHAUSTIVE = "pytestmark = [pytest.mark.exhaustive"
WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
"""Names a process that runs tests beside others: gw0, gw1, …"""

# No test is about a time, and machines are busy.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Whole programs come from no cache, neither here nor in processes that tests start.
os.environ.setdefault(SWITCH_VARIABLE, "0")


def pytest_configure(config: pytest.Config) -> None:
    """Every process of several begins with another one of the GPUs."""
    worker = os.environ.get(WORKER_VARIABLE)
    gpus = visible_gpus() if worker or config.getoption("numprocesses", None) else []
    if len(gpus) > 1:
        first = int(worker.removeprefix("gw")) % len(gpus) if worker else 0
        os.environ[VISIBLE_VARIABLE] = ",".join([*gpus[first:], *gpus[:first]])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only tests with one marker are asked for, files without it are not even imported."""
    asked = str(config.getoption("markexpr"))
    marker = MARKERS.get(asked)
    if not collection_path.name.startswith("test_") or not collection_path.is_file():
        return None
    if asked == QUICK_TESTS:
        return EXHAUSTIVE in collection_path.read_text(encoding="utf-8") or None
    if marker is None:
        return None
    return marker not in collection_path.read_text(encoding="utf-8") or None


def never(stage: Stage, cpu: CpuTarget) -> bool:
    """No launch stays on one thread."""
    del stage, cpu
    return False


@pytest.fixture(scope="session", autouse=True)
def small_launches_are_shared() -> Generator[None]:
    """Launches of any size are split between threads, as those of real sizes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "is_done_at_once", never)
        yield
