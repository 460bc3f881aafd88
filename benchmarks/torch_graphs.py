"""Networks through `torch.compile(backend="convir")`, beside eager mode and Inductor, in turns.

    python benchmarks/torch_graphs.py [--device cuda] [--dtypes float32] [--batches 1] [--threads N]
        [--peers reduce-overhead,max-autotune] [--json FILE] [NAME…]

Inductor freezes parameters. A row has milliseconds of a call of each (the median, in turns on one
input), seconds of the first call (Inductor's and convir's caches are empty), the largest error
against eager mode in f32 over the largest value, and the share of calls on convir. On a GPU calls
lie between events, and L2 is overwritten before each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from importlib import import_module
from math import exp, log
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import torch
from graph_models import NETWORKS, prepared

from convir.pytorch.graphs import reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EAGER, OURS = "eager", "convir"
SECONDS = 2.0
"""Of timed calls of one implementation."""
FLUSHED = 256 << 20
"""Bytes that are overwritten before a call on a GPU: more than its L2."""


def compiled_with(peer: str, model: Any) -> Any:
    """The model as a peer runs it."""
    if peer == EAGER:
        return model
    if peer == OURS:
        return cast("Any", torch).compile(model, backend=OURS)
    return cast("Any", torch).compile(model, mode=peer)


def timer(device: str) -> Callable[[Callable[[], Any]], float]:
    """What times one call, in milliseconds."""
    if device == "cpu":

        def on_host(call: Callable[[], Any]) -> float:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e3

        return on_host
    cache = torch.empty(FLUSHED, dtype=torch.uint8, device=device)

    def on_gpu(call: Callable[[], Any]) -> float:
        cache.fill_(1)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last)

    return on_gpu


def measured(name: str, batch: int, device: str, dtype: Any, peers: list[str]) -> dict[str, Any]:
    """The row of one network."""
    exact_model, exact_x = prepared(name, batch, device, torch.float32)
    model, x = prepared(name, batch, device, dtype)
    row: dict[str, Any] = {"name": name, "batch": batch, "dtype": str(dtype).partition(".")[2]}
    calls: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        want = exact_model(exact_x).float()
        for peer in peers:
            torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
            before = len(reports())
            function = compiled_with(peer, model)
            start = time.perf_counter()
            try:
                got = function(x)
            except Exception as error:
                row[f"{peer}_failure"] = f"{type(error).__name__}: {error}"[:200]
                continue
            if device != "cpu":
                torch.cuda.synchronize()
            row[f"{peer}_first_s"] = round(time.perf_counter() - start, 2)
            row[f"{peer}_error"] = float((got.float() - want).abs().max() / want.abs().max())
            calls[peer] = lambda function=function: function(x)
            if peer == OURS:
                found = reports()[before:]
                taken = sum(each.taken for each in found)
                row["share"] = taken / max(1, taken + sum(e.left.total() for e in found))
                row["pieces"] = sum(each.pieces for each in found)
        for peer, taken in in_turns(calls, timer(device)).items():
            row[f"{peer}_ms"] = round(taken, 3)
    return row


def in_turns(
    calls: Mapping[str, Callable[[], Any]], timed: Callable[[Callable[[], Any]], float]
) -> dict[str, float]:
    """The median time of each call, in milliseconds."""
    for call in calls.values():
        for _ in range(3):
            timed(call)
    times: dict[str, list[float]] = {peer: [] for peer in calls}
    end = time.perf_counter() + SECONDS * len(calls)
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for peer, call in calls.items():
            times[peer].append(timed(call))
    return {peer: median(taken) for peer, taken in times.items()}


def ratio(row: Mapping[str, Any], peers: list[str]) -> float | None:
    """Our time over that of the fastest other one."""
    others = [row[f"{peer}_ms"] for peer in peers if peer != OURS and f"{peer}_ms" in row]
    return row[f"{OURS}_ms"] / min(others) if others and f"{OURS}_ms" in row else None


def main() -> int:
    """Measure, print a table, and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--batches", default="1")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", default="default")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    config: Any = import_module("torch._inductor.config")
    config.freezing, config.force_disable_caches = True, True
    peers = [EAGER, *options.peers.split(","), OURS]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CONVIR_CACHE_DIR"] = cache
        for dtype in options.dtypes.split(","):
            for batch in map(int, options.batches.split(",")):
                for name in options.names:
                    kind = getattr(torch, dtype)
                    row = measured(name, batch, options.device, kind, peers)
                    row["ratio"] = ratio(row, peers)
                    rows.append(row)
                    times = ", ".join(f"{p} {row.get(f'{p}_ms', '-')}" for p in peers)
                    said = f"{row['ratio']:.2f}" if row["ratio"] else "-"
                    print(f"{name:16} {dtype} n{batch}: {times} ms; ratio {said}", flush=True)
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(f"geomean of our time over the best other one: {mean:.3f}, most {max(ratios):.2f}")
    if options.json:
        gpu = torch.cuda.get_device_name() if options.device == "cuda" else None
        environment = {
            "torch": torch.__version__,
            "device": options.device,
            "gpu": gpu,
            "threads": options.threads,
            "command": " ".join(("python benchmarks/torch_graphs.py", *sys.argv[1:])),
        }
        text = json.dumps({"environment": environment, "rows": rows}, indent=1)
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
