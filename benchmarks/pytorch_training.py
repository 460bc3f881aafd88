"""Training steps of unmodified models: enabled beside plain PyTorch, in turns in one process.

    python benchmarks/pytorch_training.py --device cuda --json FILE
    python benchmarks/pytorch_training.py --device cpu --scale 0.1 --models resnet50,decoder
    python benchmarks/pytorch_training.py --device cuda --compile   # fills the caches alone

Per model: the sum over all convolution calls of a step, of the times that were measured when a
shape was first seen; every taken row timed again beside PyTorch's; an eager step; on a GPU the step
as one CUDA graph; peak memory; and the loss of the first steps of either. Times are medians, in
turns in random order. `torch.backends.cudnn.benchmark` is on for both.
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
from convir.pytorch.rows import known_rows
from convir.pytorch.taken import DTYPES
from convir.pytorch.timing import gpu_seconds, host_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from convir.pytorch.rows import CensusRow, Row

LEARNING_RATE = 1e-3
BLOCK = 5
"""Steps between two waits for the GPU, as in a training loop."""
AGAIN = 15
"""How often a taken row and PyTorch's kernel are timed again."""
BITS = 100
"""How often a taken row runs on the same operands, for the same bits."""
MODES = ("pytorch", "convir")

_cuda: Any = torch.cuda


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
    """Plain PyTorch, or what `enable(measure=True)` gives."""
    if mode == "pytorch":
        return nullcontext()
    return convir.pytorch.enabled(prefer=prefer, measure=True)


def compiled(step: Step) -> None:
    """Run a step, and wait until all that it asks for is compiled."""
    step()
    for row in known_rows():
        if row.waiting is not None:
            row.waiting.programs.result()


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


def run_again(row: Row) -> dict[str, Any]:
    """Of a taken row, on new tensors: how much faster than PyTorch's kernel it is, in turns, and
    whether it gives the same bits every time.
    """
    signature, options = row.signature, row.signature.options
    device = "cpu" if signature.device == "host" else signature.device
    dtype = DTYPES[signature.dtype]

    def tensor(like: Any) -> Any:
        made = torch.empty_strided(like.shape, like.strides, dtype=dtype, device=device)
        return made.normal_()

    a, b = (tensor(each) for each in signature.operands)
    bias = torch.zeros(signature.result.shape[1], dtype=dtype, device=device)
    bias = bias if signature.bias else None
    words = (options.stride, options.padding, options.dilation, options.transposed)
    rest = (*words, options.output_padding, options.groups)
    result: Any = torch.empty_strided(
        signature.result.shape, signature.result.strides, dtype=dtype, device=device
    )

    def theirs() -> Any:
        if signature.direction == "forward":
            return torch.ops.aten.convolution(a, b, bias, *rest)
        is_data = signature.direction == "backward data"
        given = (a, result, b) if is_data else (b, a, result)
        return torch.ops.aten.convolution_backward(*given, None, *rest, [is_data, not is_data, 0])

    clock = host_seconds if device == "cpu" else gpu_seconds
    run: Any = row.run
    calls: dict[str, Callable[[], Any]] = {"convir": lambda: run(a, b, bias), "pytorch": theirs}
    for call in (*calls.values(), *calls.values()):
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(AGAIN):
        for name in random.sample(list(calls), len(calls)):
            times[name].append(clock(calls[name]))
    first = run(a, b, bias)
    return {
        "timed_again": median(times["pytorch"]) / median(times["convir"]),
        "same_bits": all(torch.equal(first, run(a, b, bias)) for _ in range(BITS)),
    }


def told(row: CensusRow) -> dict[str, Any]:
    """A row of the census, without what its line says."""
    entry = asdict(row)
    if row.line:
        for name in ("shapes", "strides", "options", "dtype", "device"):
            del entry[name]
    return entry


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
    steps = {mode: Step(name, device, given.scale, dtype) for mode in MODES}
    forget()
    with in_mode("convir", given.prefer):
        compiled(Step(name, device, given.scale, dtype))
        Step(name, device, given.scale, dtype)()  # All rows are decided.
        for row in known_rows():
            row.convir_calls = row.pytorch_calls = 0
    losses: dict[str, list[float]] = {}
    for mode in MODES:
        with in_mode(mode, given.prefer):
            losses[mode] = [float(steps[mode]())]
            if mode == "convir":  # Of one step.
                found["convolutions"] = conv_times()
                found["census"] = [told(row) for row in convir.pytorch.census()]
            losses[mode] += [float(steps[mode]()) for _ in range(2)]
    found["losses"] = losses
    for row, entry in zip(known_rows(), found["census"], strict=True):
        entry |= run_again(row) if row.run is not None else {}
    again = [entry for entry in found["census"] if "timed_again" in entry]
    found["convolutions"] |= {
        "least_again": min((entry["timed_again"] for entry in again), default=None),
        "same_bits": sum(entry["same_bits"] for entry in again),
    }
    if device != "cpu":
        for mode in MODES:
            with in_mode(mode, given.prefer):
                torch.cuda.reset_peak_memory_stats()
                steps[mode]()
                found[f"peak_{mode}_bytes"] = torch.cuda.max_memory_allocated()

    def block(mode: str) -> Callable[[], None]:
        def call() -> None:
            for _ in range(BLOCK):
                steps[mode]()

        return call

    eager: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(given.rounds):
        for mode in random.sample(MODES, len(MODES)):
            with in_mode(mode, given.prefer):
                eager[mode].append(seconds(block(mode), device) / BLOCK)
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
        f"({convolutions['taken']} of {convolutions['rows']} taken,",
        f"again at least {convolutions['least_again'] or 1:.2f},",
        f"same bits {convolutions['same_bits']})",
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
    parser.add_argument("--compile", action="store_true", help="fill the caches, measure nothing")
    parser.add_argument("--no-tf32", action="store_true")
    parser.add_argument("--no-graph", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    if given.no_tf32:
        torch.backends.cudnn.allow_tf32 = False
    environment: dict[str, Any] = {"torch": torch.__version__, "python": sys.version.split()[0]}
    if given.device != "cpu":
        properties: Any = _cuda.get_device_properties(0)
        environment |= {
            "gpu": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "cudnn": str(torch.backends.cudnn.version()),
            "cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        }
    rows: list[dict[str, Any]] = []
    for name in given.models.split(","):
        if given.compile:
            dtype = getattr(torch, given.dtype or WORKLOADS[name].dtype)
            with convir.pytorch.enabled(measure=True):
                compiled(Step(name, given.device, given.scale, dtype))
            continue
        rows.append(measured(name, given))
        print(shown(rows[-1]), flush=True)
        if given.json:
            given.json.write_text(
                json.dumps({"environment": environment, "rows": rows}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
