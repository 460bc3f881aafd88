"""What programmatic dependent launches change: kernels of a network's CUDA graph that begin before
the one ahead has ended.

    python benchmarks/dependent_launches.py [--rounds N] [--json FILE] [NAME:BATCH …]

The networks of `torch_graphs.py`, in f16. Kernels with the same code and grid are a row: replays of
the graph in which they alone are dependent launches, beside replays of one in which none is, in
turns: kernels too for which a plan has plain launches. `behind` says whether the kernels ahead
trigger them. The last line of a network is its graph as it is planned.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from graph_models import prepared

from convir.api.compile import compile as convir_compile
from convir.runtime.cuda.device import CudaProgram
from convir.runtime.cuda.plan import PlannedLaunch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from convir.runtime.cuda.graph import CudaGraph
    from convir.runtime.cuda.plan import CudaPlan

NETWORKS = ("resnet50:1", "resnet50:32", "vit-s:32", "convnext-t:32")
BUSY_CYCLES = 400_000
"""The GPU is busy for so long until a replay is enqueued."""

_cuda: Any = torch.cuda


@dataclass(frozen=True)
class Row:
    """Kernels of one network that are alike."""

    network: str
    config: str
    blocks: int
    count: int
    behind: str
    """`y` or `n` for each of them."""
    us: float
    """What one of them takes more as a dependent launch."""


def with_dependent(plan: CudaPlan, dependent: Collection[int]) -> CudaPlan:
    """A plan in which the kernels of these numbers are dependent launches, and no others."""
    numbers = iter(range(len(plan.kernels)))
    steps = [
        replace(
            step,
            kernels=tuple(
                replace(kernel, is_dependent=next(numbers) in dependent) for kernel in step.kernels
            ),
        )
        if isinstance(step, PlannedLaunch)
        else step
        for step in plan.steps
    ]
    return replace(plan, steps=tuple(steps))


def replay_us(graph: CudaGraph) -> float:
    """By events."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    _cuda._sleep(BUSY_CYCLES)
    first.record()
    graph.replay(stream=torch.cuda.current_stream().cuda_stream)
    last.record()
    last.synchronize()
    return 1e3 * first.elapsed_time(last)


def rows_of(network: str, rounds: int) -> Iterator[Row]:
    """What each kind of kernel gains, and those together for which a plan says so."""
    name, _, batch = network.partition(":")
    model, x = prepared(name, int(batch), "cuda", torch.float16)
    executable: Any = convir_compile(model, device="cuda", example_inputs=(x,))
    loaded: CudaProgram = executable.loaded
    kernels = loaded.plan.kernels

    def graph(dependent: Collection[int]) -> CudaGraph:
        plan = with_dependent(loaded.plan, dependent)
        return CudaProgram.of_plan(plan, lambda: executable.program, loaded.index).capture(1)

    alike: dict[tuple[str, int], list[int]] = {}
    for number, kernel in enumerate(kernels):
        if kernel.triggers_dependents and not kernel.is_cooperative:  # Such a kernel waits itself.
            alike.setdefault((kernel.source, kernel.grid[0]), []).append(number)
    planned = [number for number, kernel in enumerate(kernels) if kernel.is_dependent]
    graphs = [graph(()), graph(planned), *map(graph, alike.values())]
    times: list[list[float]] = [[] for _ in graphs]
    for _ in range(rounds):
        for i in random.sample(range(len(graphs)), len(graphs)):
            times[i].append(replay_us(graphs[i]))
    none, as_planned, *each = map(median, times)
    for ((source, blocks), numbers), us in zip(alike.items(), each, strict=True):
        behind = "".join("ny"[i > 0 and kernels[i - 1].triggers_dependents] for i in numbers)
        config = source.partition("\n")[0].removeprefix("// ")
        yield Row(network, config, blocks, len(numbers), behind, (us - none) / len(numbers))
    yield Row(network, f"all {none:.1f} us", 0, len(planned), "", as_planned - none)


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NAME:BATCH")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    found: list[Row] = []
    for network in options.networks:
        for row in rows_of(network, options.rounds):
            found.append(row)
            alike = f"{row.count} x {row.blocks} blocks {row.behind}"
            print(f"{row.network:14} {row.us:+6.2f} us  {alike:32} {row.config}", flush=True)
    if options.json:
        environment = {"torch": torch.__version__, "gpu": _cuda.get_device_name()}
        text = json.dumps({"environment": environment, "rows": [*map(asdict, found)]}, indent=1)
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
