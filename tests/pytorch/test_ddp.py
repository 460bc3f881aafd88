"""Data-parallel training gives the losses of plain PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

AT_EXIT = "terminate called without an active exception"
"""What PyTorch 2.13 says, now and then, with convir or without: `DistributedDataParallel` keeps
gloo's threads beyond `destroy_process_group`, and the process ends under them, all work done."""

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_ddp.py"


def trained(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(EXAMPLE), *options),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def losses(*options: str) -> tuple[list[float], str]:
    ran = trained(*options)
    for _ in range(2):
        done = "convolutions ran on convir" in ran.stdout
        if ran.returncode == 0 or not done or AT_EXIT not in ran.stderr:
            break
        ran = trained(*options)
    assert ran.returncode == 0, ran.stderr
    *lines, last = ran.stdout.splitlines()
    return [float(line) for line in lines], last


def same_losses(*options: str) -> None:
    plain, none = losses(*options, "--plain")
    ours, some = losses(*options)
    assert none.startswith("0 ")
    assert not some.startswith("0 ")
    assert len(ours) == 5
    assert ours == pytest.approx(plain, rel=1e-4)


def test_two_processes_on_the_cpu() -> None:
    same_losses("--cpu")


@pytest.mark.gpu
def test_a_gpu_each() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there are fewer than two GPUs")
    same_losses()
