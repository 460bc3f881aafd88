"""Data-parallel training on convir's convolutions: PyTorch's DDP, which needs no change.

    torchrun --nproc-per-node 2 examples/train_ddp.py            # a GPU each, NCCL
    torchrun --nproc-per-node 2 examples/train_ddp.py --cpu      # gloo
    torchrun --nproc-per-node 2 examples/train_ddp.py --cpu --plain   # PyTorch's own kernels

Every process prints nothing but the first one, which prints the loss of each step.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import convir.pytorch

dist: Any = torch.distributed


def model() -> nn.Module:
    """A small image classifier."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, groups=4),
        nn.ReLU(),
        nn.Conv2d(32, 32, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def train(device: Any, steps: int, rank: int) -> None:
    """The same weights everywhere, other images in each process."""
    cast("Any", torch).manual_seed(0)
    on_gpu = device.type == "cuda"
    net = DistributedDataParallel(model().to(device), [device.index] if on_gpu else None)
    optimizer: Any = torch.optim.SGD(net.parameters(), 0.1)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        images = torch.randn(8, 3, 32, 32, generator=generator).to(device)
        labels = torch.randint(10, (8,), generator=generator).to(device)
        loss: Any = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"{float(total) / dist.get_world_size():.6f}", flush=True)


def main() -> None:
    """Join the other processes, and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--plain", action="store_true", help="PyTorch's own kernels")
    parser.add_argument("--steps", type=int, default=5)
    given = parser.parse_args()
    dist.init_process_group("gloo" if given.cpu else "nccl")
    device = torch.device("cpu")
    if not given.cpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    ours = convir.pytorch.enabled(prefer="convir", wait=True)
    with nullcontext() if given.plain else ours:
        train(device, given.steps, dist.get_rank())
        taken = sum(row.convir_calls for row in convir.pytorch.census())
    if dist.get_rank() == 0:
        print(f"{taken} convolutions ran on convir", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
