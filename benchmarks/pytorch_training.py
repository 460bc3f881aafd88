"""Training steps of unmodified models: enabled beside plain PyTorch, in turns in one process.

    python benchmarks/pytorch_training.py --device cuda --json FILE
    python benchmarks/pytorch_training.py --device cpu --scale 0.1 --models resnet50,decoder

Per model: the sum over all convolution calls of a step, of the times that were measured when a
shape was first seen; an eager step; on a GPU the step as one CUDA graph; peak memory; and the loss
of the first steps of either. Times are medians, in turns in random order.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from training_models import WORKLOADS, prepared

import convir.pytorch
from convir.pytorch.dispatch import forget

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

LEARNING_RATE = 1e-3
MODES = ("pytorch", "convir")


class Step:
    """A model, an input and an optimiser: a call is one step of training."""

    def __init__(self, name: str, device: str, scale: float, dtype: Any) -> None:
        self.model, self.x = prepared(name, device, scale, dtype)
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), LEARNING_RATE)
        self.device = device

    def __call__(self) -> Any:
        """The loss, which is not waited for."""
        self.optimizer.zero_grad(set_to_none=True)
        y = self.model(self.x)
        loss = y.float().square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def in_mode(mode: str, prefer: Any) -> AbstractContextManager[None]:
    """Plain PyTorch, or what `enable(measure=True, wait=True)` gives."""
    if mode == "pytorch":
        return nullcontext()
    return convir.pytorch.enabled(prefer=prefer, wait=True, measure=True)


def wait(device: str) -> None:
    """Until the GPU has done all."""
    if device != "cpu":
        torch.cuda.synchronize()


def seconds(call: Callable[[], Any], device: str) -> float:
    """Of one call, to its end."""
    wait(device)
    start = perf_counter()
    call()
    wait(device)
    return perf_counter() - start


def conv_times() -> dict[str, Any]:
    """Of the census after one step: the sum of its convolution calls, µs, and the worst row."""
    rows = convir.pytorch.census()
    known = [r for r in rows if r.convir_us is not None and r.pytorch_us is not None]
    counts = {id(r): r.convir_calls + r.pytorch_calls for r in rows}
    plain = sum(counts[id(r)] * (r.pytorch_us or 0) for r in known)
    taken = [r for r in known if r.runs == "convir"]
    ours = sum(
        counts[id(r)] * ((r.convir_us if r.runs == "convir" else r.pytorch_us) or 0) for r in known
    )
    ratios = [(r.pytorch_us or 0) / (r.convir_us or 1) for r in taken]
    return {
        "rows": len(rows),
        "measured": len(known),
        "taken": len(taken),
        "pytorch_us": plain,
        "convir_us": ours,
        "least_ratio": min(ratios, default=None),
    }


def graphed(step: Step) -> Callable[[], None]:
    """The step as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def in_turns(calls: dict[str, Callable[[], Any]], device: str, rounds: int) -> dict[str, float]:
    """The median time of each, ms."""
    times: dict[str, list[float]] = {mode: [] for mode in calls}
    for _ in range(rounds):
        for mode in random.sample(list(calls), len(calls)):
            times[mode].append(seconds(calls[mode], device))
    return {mode: 1e3 * median(each) for mode, each in times.items()}


def measured(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Everything of one model."""
    device = given.device
    dtype = getattr(torch, given.dtype or (WORKLOADS[name].dtype if device != "cpu" else "float32"))
    found: dict[str, Any] = {"model": name, "dtype": str(dtype)[6:], "scale": given.scale}
    losses: dict[str, list[float]] = {}
    steps: dict[str, Step] = {}
    for mode in MODES:
        steps[mode] = step = Step(name, device, given.scale, dtype)
        with in_mode(mode, given.prefer):
            forget()
            losses[mode] = [float(step())]
            if mode == "convir":  # Rows of one step, all decided.
                found["convolutions"] = conv_times()
                found["census"] = [asdict(row) for row in convir.pytorch.census()]
            losses[mode] += [float(step()) for _ in range(2)]
            if device != "cpu":
                torch.cuda.reset_peak_memory_stats()
                step()
                found[f"peak_{mode}_bytes"] = torch.cuda.max_memory_allocated()
    found["losses"] = losses

    eager: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(given.rounds):
        for mode in random.sample(MODES, len(MODES)):
            with in_mode(mode, given.prefer):
                eager[mode].append(seconds(steps[mode], device))
    found["eager_ms"] = {mode: 1e3 * median(times) for mode, times in eager.items()}
    if device != "cpu" and not given.no_graph:
        graphs: dict[str, Callable[[], Any]] = {}
        for mode in MODES:
            with in_mode(mode, given.prefer):
                graphs[mode] = graphed(steps[mode])
        found["graph_ms"] = in_turns(graphs, device, given.rounds)
    return found


def shown(row: dict[str, Any]) -> str:
    """A line of the table."""
    convolutions, eager = row["convolutions"], row["eager_ms"]
    sums = convolutions["pytorch_us"], convolutions["convir_us"]
    parts = [
        f"{row['model']:12} {row['dtype']:8}",
        f"convolutions {sums[0]:8.0f} -> {sums[1]:8.0f} µs",
        f"({convolutions['taken']} of {convolutions['rows']} taken)",
        f"eager {eager['pytorch']:.2f} -> {eager['convir']:.2f} ms",
    ]
    if "graph_ms" in row:
        graph = row["graph_ms"]
        parts.append(f"graph {graph['pytorch']:.2f} -> {graph['convir']:.2f} ms")
    parts.append(f"loss {row['losses']['pytorch'][-1]:.5f} {row['losses']['convir'][-1]:.5f}")
    return "  ".join(parts)


def main() -> None:
    """Measure the models that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", default=",".join(WORKLOADS))
    parser.add_argument("--scale", type=float, default=1.0, help="of channels, depth and images")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dtype", default="", help="instead of each model's own")
    parser.add_argument("--prefer", choices=("faster", "convir"), default="faster")
    parser.add_argument("--no-tf32", action="store_true")
    parser.add_argument("--no-graph", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    if given.no_tf32:
        torch.backends.cudnn.allow_tf32 = False
    rows: list[dict[str, Any]] = []
    for name in given.models.split(","):
        rows.append(measured(name, given))
        print(shown(rows[-1]), flush=True)
    if given.json:
        environment = {"torch": torch.__version__, "python": sys.version.split()[0]}
        if given.device != "cpu":
            environment |= {
                "gpu": torch.cuda.get_device_name(),
                "cudnn": str(torch.backends.cudnn.version()),
            }
        given.json.write_text(json.dumps({"environment": environment, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
