"""Configs of normalisations, softmax and means on a GPU, beside their predictions.

    python benchmarks/reductions.py [--json FILE] [--configs N]
    python benchmarks/reductions.py --compile    # on a machine without a GPU: fills the cache

f16. A time is of calls in a row while the GPU is busy, on the same data: what fits lies in the L2
cache, as in a network, and no launch is waited for. A row has the configs that are predicted to be
the fastest, as many of those of one block a row and of clusters, and some others, each with its µs
and the predicted ones, which are those of a call alone. Printed is what the chosen config costs
over the fastest.
"""

from __future__ import annotations

import argparse
import json
import random
from functools import partial
from math import exp, log, prod
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from convir.analysis.refusal import Refusal
from convir.api.sources import source_of
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.cuda.reduction import problem
from convir.lowering.kernels.cuda.reduction.family import REDUCTION
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.cuda.launch import LoadedKernel
from convir.runtime.cuda.toolchain.compile import compile_cubins

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.cuda.reduction.problem import Rows

GROUPS = 32
CALLS, ROUNDS = 20, 7
LEAST_ELEMENTS = 1 << 16
"""That any operand may read."""
BUSY_CYCLES = 1_000_000
OTHERS = 60
"""Configs, by predicted time, of which some further ones are taken."""

_cuda: Any = torch.cuda
_f: Any = nn.functional


class Rowwise(nn.Module):
    """What a function computes of one tensor; parameters are ones and zeros."""

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: Tensor) -> Tensor:
        """Compute y."""
        return self.compute(x)


def last(compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`compute` of images whose channels are last."""
    return lambda x: compute(x.movedim(-1, 1)).movedim(1, -1)


COMPUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "GroupNorm, SiLU, channels last": last(lambda x: _f.silu(_f.group_norm(x, GROUPS))),
    "InstanceNorm, ReLU, channels last": last(lambda x: torch.relu(_f.instance_norm(x))),
    "GroupNorm": lambda x: _f.group_norm(x, GROUPS),
    "InstanceNorm": _f.instance_norm,
    "LayerNorm": lambda x: _f.layer_norm(x, x.shape[-1:]),
    "softmax": lambda x: torch.softmax(x, -1),
    "mean of images": lambda x: x.mean((2, 3)),
    "mean of images, channels last": lambda x: x.mean((1, 2)),
}
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "GroupNorm, SiLU, channels last": (
        *((1, 32, 32, 256), (1, 64, 64, 256), (1, 64, 64, 128), (1, 128, 128, 128)),
        *((1, 128, 128, 64), (1, 256, 256, 64), (8, 64, 64, 128), (32, 32, 32, 256)),
        *((8, 16, 16, 1280), (4, 32, 32, 512), (64, 7, 7, 512), (32, 64, 64, 256)),
    ),
    "InstanceNorm, ReLU, channels last": (
        *((1, 64, 64, 64, 32), (1, 32, 32, 32, 64), (1, 16, 16, 16, 128), (8, 64, 64, 64)),
        *((32, 16, 16, 16, 128), (4, 128, 128, 32), (2, 96, 96, 96, 32), (32, 32, 32, 32, 64)),
    ),
    "GroupNorm": ((1, 128, 64, 64), (2, 320, 64, 64), (8, 128, 64, 64), (1, 64, 128, 128)),
    "InstanceNorm": ((2, 32, 96, 96, 96), (4, 64, 128, 128)),
    "LayerNorm": ((32, 197, 768), (1, 197, 384), (32, 49, 1024), (8, 512, 64), (2, 2048, 4096)),
    "softmax": ((32, 12, 197, 197), (1, 6, 197, 197), (64, 1000), (8, 16, 1024, 1024)),
    "mean of images": ((32, 1280, 7, 7),),
    "mean of images, channels last": ((32, 7, 7, 1280), (1, 56, 56, 144), (32, 56, 56, 96)),
}


def rows_of(name: str, shape: tuple[int, ...]) -> Rows:
    """What the family reads of a program."""
    model: Any = Rowwise(COMPUTED[name]).half().eval()
    source = source_of(model, (), 1.0, None, (torch.zeros(shape).half(),))
    module = run(source.read(), "default").module
    for each in lowering_passes("cuda"):
        each.apply(new_context(), module)
    bodies = [op for op in module.walk() if isinstance(op, kernel.FuncOp)]
    found = [rows for rows in map(problem.read, bodies) if not isinstance(rows, Refusal)]
    return found[0]


def plans_of(rows: Rows, count: int) -> dict[str, tuple[KernelPlan, float]]:
    """Configs, their launches and predicted µs, the fastest first."""

    def predicted(config: Any) -> float:
        return REDUCTION.predict(rows, config, DEFAULT_TARGET)

    found: Any = REDUCTION.candidates(rows, DEFAULT_TARGET)
    ranked = sorted(found, key=predicted)
    alone = [config for config in ranked if config.cluster == 1]
    shared = [config for config in ranked if config.cluster > 1]
    some = random.Random(1).sample(ranked[:OTHERS], min(count, len(ranked[:OTHERS])))
    chosen = dict.fromkeys([*ranked[:count], *alone[:count], *shared[:count], *some])
    launched: Any = REDUCTION.launch
    return {str(each): (launched(rows, each, DEFAULT_TARGET), predicted(each)) for each in chosen}


def measured(plans: dict[str, KernelPlan], elements: int) -> dict[str, float]:
    """Medians in µs, in turns. Whatever is read is the same random numbers."""
    size = max(elements, LEAST_ELEMENTS)
    numbers = np.random.default_rng(0).standard_normal(size, dtype=np.float32).astype(np.float16)
    x: Any = torch.tensor(numbers, device="cuda")
    y = torch.empty_like(x)
    space = max(sum(plan.workspace) for plan in plans.values())
    workspace = torch.empty(space + 1, dtype=torch.uint8, device="cuda")
    memories = {"input": x.data_ptr(), "output": y.data_ptr(), "workspace": workspace.data_ptr()}
    stream = _cuda.current_stream().cuda_stream

    def launches(plan: KernelPlan) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        for each in plan.kernels:
            pointers = [a for a in each.arguments if isinstance(a, Pointer)]
            loaded = LoadedKernel(each, {at: (i, 0) for i, at in enumerate(pointers)})
            found.append(partial(loaded.launch, [memories[at.place] for at in pointers], stream))
        return found

    calls = {name: launches(plan) for name, plan in plans.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    first, last_ = (_cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(ROUNDS):
        for name, kernels in calls.items():
            _cuda._sleep(BUSY_CYCLES)
            first.record()
            for call in kernels * CALLS:
                call()
            last_.record()
            last_.synchronize()
            times[name].append(1e3 * first.elapsed_time(last_) / CALLS)
    return {name: round(median(each), 2) for name, each in times.items()}


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--configs", type=int, default=8)
    parser.add_argument("--compile", action="store_true", help="compile, and measure nothing")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    problem.PLANS_ROWS = True
    cases = [(name, shape) for name, shapes in SHAPES.items() for shape in shapes]
    planned = [plans_of(rows_of(*case), given.configs) for case in cases]
    plans = [plan for found in planned for plan, _ in found.values()]
    compile_cubins([k.source for plan in plans for k in plan.kernels], DEFAULT_TARGET.arch)
    if given.compile:
        return
    gpu_or_exit()
    rows: list[dict[str, Any]] = []
    costs: list[float] = []
    for (name, shape), found in zip(cases, planned, strict=True):
        us = measured({each: plan for each, (plan, _) in found.items()}, prod(shape))
        fastest = min(us, key=us.__getitem__)
        chosen = next(iter(us))
        costs.append(us[chosen] / us[fastest])
        print(f"{name} {shape}: {chosen} {us[chosen]}, fastest {fastest} {us[fastest]}", flush=True)
        both = {each: (us[each], round(found[each][1], 2)) for each in us}
        rows.append({"program": name, "shape": shape, "us": both})
    print(f"a choice costs {exp(sum(map(log, costs)) / len(costs)) - 1:.1%}, most {max(costs):.2f}")
    if given.json is not None:
        where = {"gpu": _cuda.get_device_name(), "torch": torch.__version__}
        text = json.dumps({"environment": where, "rows": rows}, indent=1)
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
