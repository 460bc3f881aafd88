"""bf16 on a CPU: contraction kernels and ResNet-50 beside our own f32 and PyTorch's oneDNN.

    python benchmarks/bf16_cpu.py --threads 1 --json FILE

One row a problem of `suites/bf16-cpu.txt`: the time of our kernel in bf16 and in f32, weights
packed before, and of PyTorch in bf16 in both layouts. The last rows are ResNet-50. Everything takes
turns in one run; on one thread times are CPU times. Errors of the same problems are
those of `convir-bench --commands-file benchmarks/suites/bf16-cpu.txt --against torch`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from convir.api.compile import compile as compile_module
from convir.lowering.kernels.host.target import target
from convir.runtime.bench.candidate import Candidate
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.peers.onnx_networks import NETWORKS, in_element_type
from convir.runtime.bench.peers.torch_network import TorchNetwork
from convir.runtime.bench.timing import measure, settled_us

if TYPE_CHECKING:
    from collections.abc import Callable

SUITE = Path(__file__).parent / "suites" / "bf16-cpu.txt"
KERNELS: Any = import_module("host_kernels")
"""The script beside this one."""
IMAGES = ((1, 3, 224, 224), (8, 3, 224, 224))


def main() -> None:
    """Measure every problem, and the network."""
    parser = argparse.ArgumentParser(description="Time bf16 on a CPU.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds per backend and row")
    parser.add_argument("--only", default="", help="rows that hold this text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bench = HostBench(options.threads)
    print(
        f"{bench.describe()['cpu']}, bf16 products: {target().bf16_dot}, "
        f"AMX: {target().tiles}, {options.threads} threads"
    )
    rows = _convolutions(bench, options) + _networks(bench, options)
    if options.json:
        command = shlex.join(["python", "benchmarks/bf16_cpu.py", *sys.argv[1:]])
        environment = {**bench.describe(), "command": command}
        text = json.dumps({"environment": environment, "rows": rows}, indent=1)
        options.json.write_text(f"{text}\n", encoding="utf-8")


def _convolutions(bench: HostBench, options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for problem in KERNELS.problems([SUITE], ""):
        if options.only not in KERNELS.label(problem):
            continue
        single = replace(problem, dtype="f32")
        calls: dict[str, Callable[[], object]] = {
            "ours": KERNELS.our_calls(problem, "host", options.threads)["ours"],
            "ours f32": KERNELS.our_calls(single, "host", options.threads)["ours"],
        }
        for found in bench.peer("torch", problem, bench.inputs(problem, 0)):
            if isinstance(found, Candidate):
                calls[f"{found.backend} {found.layout}"] = found.call
        rows.append(_row(KERNELS.label(problem), measure(calls, _clock(options), options.budget)))
    return rows


def _clock(options: Any) -> Any:
    """CPU time of one thread, or the wall clock of several; behind calls that do not count, as the
    results of the implementation that had its turn before lie in the caches."""
    return settled_us if options.threads > 1 else _warm_cpu_us


def _warm_cpu_us(call: Callable[[], object], repeats: int) -> float:
    call()
    return KERNELS.cpu_us(call, repeats)


def _row(name: str, timings: dict[str, Any]) -> dict[str, Any]:
    us = {backend: timing.median for backend, timing in timings.items()}
    peers = [time for backend, time in us.items() if not backend.startswith("ours")]
    to_f32, to_peer = us["ours f32"] / us["ours"], us["ours"] / min(peers)
    times = ", ".join(f"{backend} {time:.0f}" for backend, time in us.items())
    print(f"{name:44s} f32/ours {to_f32:.2f}  ours/peer {to_peer:.2f}  µs: {times}", flush=True)
    return {"suite": "bf16-cpu", "line": name, "us": us}


def _networks(bench: HostBench, options: Any) -> list[dict[str, Any]]:
    torch = import_module("torch")
    model, halves = NETWORKS["resnet50"](), in_element_type(NETWORKS["resnet50"](), "bf16")
    rows: list[dict[str, Any]] = []
    for shape in IMAGES:
        name = f"resnet50 {'x'.join(map(str, shape))}"
        if options.only not in name:
            continue
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        half = x.astype(ml_dtypes.bfloat16)
        ours, single = (_compiled(each, shape, options.threads) for each in (halves, model))
        theirs = TorchNetwork(halves, "cpu")
        image = torch.from_numpy(x).to(torch.bfloat16)
        calls: dict[str, Callable[[], object]] = {
            "ours": lambda run=ours, x=half: run(x),
            "ours f32": lambda run=single, x=x: run(x),
            "torch": lambda run=theirs, x=image: run(x),
        }
        rows.append(_row(name, measure(calls, _clock(options), 4 * options.budget)))
    return rows


def _compiled(model: Any, shape: tuple[int, ...], threads: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        import_module("onnx").save(model, path)
        return compile_module(path, device="host", shapes=[shape], threads=threads)


if __name__ == "__main__":
    main()
