"""Whole networks beside onnxruntime on the CPU, and beside PyTorch with cuDNN on a GPU.

    python benchmarks/networks.py --device host --threads 1 --json FILE
    python benchmarks/networks.py --device cuda --json FILE

One row a network, input size and element type: the median time of ours and of the peer's, in turns
in one process on the same input, the ratio of the two and of the least times, and the largest
difference of our outputs from the peer's over the largest output. On a GPU both are one replay of a
CUDA graph (events, the L2 cache flushed before), the peer in channels_last with `cudnn.benchmark`.
Exit status 1 if a difference is past its tolerance. `network_models.py` lists the networks of the
CPU; one whose package is not installed is skipped, and the row says so. On a machine that others
use too, `--clock cpu` counts the time that the one thread runs.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from network_models import TOLERANCE, Network, networks

from convir.api.compile import compile as compile_module
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.machine_load import LoadMeter
from convir.runtime.bench.peers.onnx_networks import (
    ELEMENT_TYPES,
    NETWORKS,
    MissingModelError,
    in_element_type,
)
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.bench.timing import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from convir.runtime.bench.timing import Timing

CUDA_TOLERANCES = {"f32": TOLERANCE, "f16": 2e-2}
CUDA_CASES = (
    ("resnet50", (1, 3, 224, 224)),
    ("resnet50", (8, 3, 224, 224)),
    ("resnet50", (32, 3, 224, 224)),
    ("centerface", (1, 3, 480, 640)),
    ("centerface", (1, 3, 128, 160)),
)
WARM_UP = 3


class Measured(NamedTuple):
    """One network, measured."""

    ours: Timing
    theirs: Timing
    error: float


class Case(NamedTuple):
    """A row that is still to be measured."""

    label: str
    tolerance: float
    measure: Callable[[], Measured]


def main() -> int:
    """Measure every case."""
    parser = argparse.ArgumentParser(description="Time whole networks.")
    parser.add_argument("--device", default="host", choices=("host", "cuda"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=4.0, help="seconds per backend and row")
    parser.add_argument(
        "--clock",
        default="wall",
        choices=("wall", "cpu"),
        help="cpu: the time that the calling thread runs, on a machine that others use too",
    )
    parser.add_argument("--only", default="", help="rows that hold one of these texts: A,B")
    parser.add_argument("--limit", type=float, help="start no row after so many seconds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    if options.clock == "cpu" and (on_gpu or options.threads > 1):
        parser.error("--clock cpu is of one thread of the host")
    bench: Any = gpu_or_exit() if on_gpu else HostBench(options.threads)
    peer = "torch channels_last, one graph" if on_gpu else "onnxruntime"
    command = shlex.join(["python", "benchmarks/networks.py", *sys.argv[1:]])
    load, start = LoadMeter(), time.monotonic()
    rows: list[dict[str, Any]] = []
    ratios: list[tuple[float, str]] = []
    failed = False
    for case in _cuda_cases(bench, options) if on_gpu else _host_cases(bench, options):
        if not any(text in case.label for text in options.only.split(",")):
            continue
        if options.limit is not None and time.monotonic() - start > options.limit:
            print(f"not measured from {case.label} on: the limit of {options.limit:g} s is over")
            break
        try:
            found = case.measure()
        except MissingModelError as error:
            print(f"{case.label:36s} skipped: {error}", flush=True)
            continue
        except Exception as error:  # of any of the two: the other rows are still wanted
            print(f"{case.label:36s} failed: {type(error).__name__}: {error}", flush=True)
            failed = True
            continue
        ratio = found.ours.median / found.theirs.median
        ratios.append((ratio, case.label))
        failed |= not found.error <= case.tolerance
        print(
            f"{case.label:36s} ours {found.ours.median / 1e3:8.3f} ms  {peer} "
            f"{found.theirs.median / 1e3:8.3f} ms  ratio {ratio:.2f}  "
            f"of the least {found.ours.least / found.theirs.least:.2f}  error {found.error:.1e}",
            flush=True,
        )
        for backend, timing in (("convir", found.ours), (peer, found.theirs)):
            rows.append(
                {
                    "suite": "networks",
                    "line": case.label,
                    "backend": backend,
                    "us": asdict(timing),
                    "error": found.error,
                    "tolerance": case.tolerance,
                }
            )
        if options.json:
            environment = {**bench.describe(), "load": load.record(), "command": command}
            if options.clock == "cpu":
                environment["clock"] = "CPU time of the calling thread, around calls in a row"
            text = json.dumps({"environment": environment, "rows": rows}, indent=1)
            options.json.write_text(f"{text}\n", encoding="utf-8")
    if ratios:
        mean = math.exp(math.fsum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
        worst, label = max(ratios)
        print(f"{len(ratios)} networks: geomean {mean:.3f}, largest {worst:.2f} ({label})")
    return int(failed)


def _host_cases(bench: HostBench, options: Any) -> Iterator[Case]:
    for network in networks():
        measuring = partial(_on_host, bench, network, options)
        yield Case(network.label, network.tolerance, measuring)


def _cuda_cases(bench: Any, options: Any) -> Iterator[Case]:
    for name, shape in CUDA_CASES:
        for element in ("f32", "f16"):
            label = f"{name} {'x'.join(map(str, shape))} {element}"
            measuring = partial(_on_gpu, bench, name, shape, element, options.budget)
            yield Case(label, CUDA_TOLERANCES[element], measuring)


def cpu_us(call: Callable[[], object], repeats: int) -> float:
    """µs that this thread runs in one of `repeats` calls in a row."""
    start = time.thread_time_ns()
    for _ in range(repeats):
        call()
    return (time.thread_time_ns() - start) / (1000 * repeats)


def _on_host(bench: HostBench, network: Network, options: Any) -> Measured:
    runtime = import_module("onnxruntime")
    session_options = runtime.SessionOptions()
    session_options.intra_op_num_threads = options.threads
    session_options.log_severity_level = 4
    inputs = network.inputs()
    shapes = [array.shape for array in inputs]
    with _saved(network.model()) as path:
        session = runtime.InferenceSession(
            str(path), session_options, providers=["CPUExecutionProvider"]
        )
        ours = compile_module(path, device="host", shapes=shapes, threads=options.threads)
    outputs = [ours.empty(spec) for spec in ours.outputs]
    feed = {port.name: x for port, x in zip(session.get_inputs(), inputs, strict=True)}
    ours(*inputs, out=outputs)
    error = _difference(outputs, session.run(None, feed))
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(*inputs, out=outputs),
        "theirs": lambda: session.run(None, feed),
    }
    clock = cpu_us if options.clock == "cpu" else bench.clock
    times = measure(calls, clock, options.budget)
    return Measured(times["ours"], times["theirs"], error)


def _on_gpu(bench: Any, name: str, shape: Sequence[int], element: str, budget: float) -> Measured:
    from convir.runtime.bench.peers.torch_network import TorchNetwork  # noqa: PLC0415

    torch: Any = import_module("torch")
    cupy: Any = import_module("cupy")
    x = np.random.default_rng(0).standard_normal(shape).astype(ELEMENT_TYPES[element][1])
    model = in_element_type(NETWORKS[name](), element)
    with _saved(model) as path:
        ours = compile_module(path, device="cuda", shapes=[shape]).graph()
    for output in ours.outputs:
        output.fill(float("nan"))
    ours.inputs[0][...] = cupy.asarray(x)
    ours.replay()
    image = torch.from_numpy(x).cuda().contiguous(memory_format=torch.channels_last)
    network = TorchNetwork(model, "cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            network(image)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = network(image)
    graph.replay()
    torch.cuda.synchronize()
    error = _difference(
        [cupy.asnumpy(output) for output in ours.outputs],
        [result.float().cpu().numpy() for result in results],
    )
    times = measure({"ours": ours.replay, "theirs": graph.replay}, bench.clock, budget / 8)
    return Measured(times["ours"], times["theirs"], error)


@contextmanager
def _saved(model: Any) -> Generator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        import_module("onnx").save(model, path)
        yield path


def _difference(results: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference over the largest expected number; NaN if a result is."""
    worst = 0.0
    for result, wanted in zip(results, expected, strict=True):
        difference = np.abs(np.asarray(result, np.float64) - np.asarray(wanted, np.float64))
        worst = max(worst, float(difference.max() / np.abs(wanted).max()), key=_nan_first)
    return worst


def _nan_first(number: float) -> float:
    return float("inf") if np.isnan(number) else number


if __name__ == "__main__":
    sys.exit(main())
