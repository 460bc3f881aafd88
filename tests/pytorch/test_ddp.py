"""Data-parallel and sharded training gives the losses of plain PyTorch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

AT_EXIT = "terminate called without an active exception"
"""What PyTorch 2.13 says, now and then, with convir or without: `DistributedDataParallel` keeps
gloo's threads beyond `destroy_process_group`, and the process ends under them, all work done."""

LOSS = re.compile(r"\d+\.\d+")

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_ddp.py"


SHARDED = """
import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import convir.pytorch

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, groups=4),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
)
for layer in (net[0], net[2], net):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
generator = torch.Generator().manual_seed(dist.get_rank())
ours = convir.pytorch.enabled(prefer="convir", wait=True)
with nullcontext() if "--plain" in sys.argv else ours:
    for _ in range(5):
        images = torch.randn(4, 3, 16, 16, generator=generator)
        labels = torch.randint(10, (4,), generator=generator)
        loss = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"{float(total):.6f}", flush=True)
    taken = sum(row.convir_calls for row in convir.pytorch.census())
if dist.get_rank() == 0:
    print(f"{taken} convolutions ran on convir", flush=True)
dist.destroy_process_group()
"""


def trained(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(script), *options),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def losses(script: Path, *options: str) -> tuple[list[float], str]:
    ran = trained(script, *options)
    for _ in range(2):
        done = "convolutions ran on convir" in ran.stdout
        if ran.returncode == 0 or not done or AT_EXIT not in ran.stderr:
            break
        ran = trained(script, *options)
    assert ran.returncode == 0, ran.stderr
    # Older versions of gloo say there who is connected.
    lines = ran.stdout.splitlines()
    (last,) = (line for line in lines if line.endswith("convolutions ran on convir"))
    return [float(line) for line in lines if LOSS.fullmatch(line)], last


def same_losses(script: Path, *options: str) -> None:
    plain, none = losses(script, *options, "--plain")
    ours, some = losses(script, *options)
    assert none.startswith("0 ")
    assert not some.startswith("0 ")
    assert len(ours) == 5
    assert ours == pytest.approx(plain, rel=1e-4)


def test_two_processes_on_the_cpu() -> None:
    same_losses(EXAMPLE, "--cpu")


def test_sharded_parameters_on_the_cpu(tmp_path: Path) -> None:
    """FSDP: a layer's filter is gathered before its convolution, and its gradient scattered."""
    script = tmp_path / "train_fsdp.py"
    script.write_text(SHARDED)
    same_losses(script)


@pytest.mark.gpu
def test_a_gpu_each() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there are fewer than two GPUs")
    same_losses(EXAMPLE)
