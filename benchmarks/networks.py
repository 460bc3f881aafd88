"""Whole networks beside onnxruntime on the CPU, and beside PyTorch with cuDNN on a GPU.

    python benchmarks/networks.py --device host --threads 1 --json FILE
    python benchmarks/networks.py --device cuda --json FILE

One row a network, image size and element type: the median time of ours and of the peer's, in turns
in one process on the same image, the ratio of the two, and the largest difference of our outputs
from the peer's over the largest output. On a GPU both are one replay of a CUDA graph (events, the
L2 cache flushed before), the peer in channels_last with `cudnn.benchmark`. Exit status 1 if a
difference is past its tolerance.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from convir.api.compile import compile as compile_module
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.peers.onnx_networks import ELEMENT_TYPES, NETWORKS, in_element_type
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.bench.timing import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOLERANCES = {"f32": 2e-5, "f16": 2e-2}
"""Of the largest output: sums of up to 4608 products, some 50 layers deep."""
CASES = (
    ("resnet50", (1, 3, 224, 224)),
    ("resnet50", (8, 3, 224, 224)),
    ("centerface", (1, 3, 480, 640)),
    ("centerface", (1, 3, 128, 160)),
)
CUDA_CASES = (*CASES, ("resnet50", (32, 3, 224, 224)))
WARM_UP = 3


class Measured(NamedTuple):
    """One network, measured."""

    ours: Any
    """`Timing` in µs."""
    theirs: Any
    error: float


def main() -> int:
    """Measure every case."""
    parser = argparse.ArgumentParser(description="Time whole networks.")
    parser.add_argument("--device", default="host", choices=("host", "cuda"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=4.0, help="seconds per backend and row")
    parser.add_argument("--only", default="", help="rows that hold this text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    bench: Any = gpu_or_exit() if on_gpu else HostBench(options.threads)
    peer = "torch channels_last, one graph" if on_gpu else "onnxruntime"
    rows: list[dict[str, Any]] = []
    failed = False
    for name, shape in CUDA_CASES if on_gpu else CASES:
        for element in ("f32", "f16") if on_gpu else ("f32",):
            label = f"{name} {'x'.join(map(str, shape))} {element}"
            if options.only not in label:
                continue
            model = in_element_type(NETWORKS[name](), element)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "net.onnx")
                import_module("onnx").save(model, path)
                run = _on_gpu if on_gpu else _on_host
                found = run(bench, model, path, shape, element, options)
            ratio = found.ours.median / found.theirs.median
            failed |= not found.error <= TOLERANCES[element]
            print(
                f"{label:36s} ours {found.ours.median / 1e3:8.3f} ms  {peer} "
                f"{found.theirs.median / 1e3:8.3f} ms  ratio {ratio:.2f}  error {found.error:.1e}",
                flush=True,
            )
            for backend, timing in (("convir", found.ours), (peer, found.theirs)):
                rows.append(
                    {
                        "suite": "networks",
                        "line": label,
                        "backend": backend,
                        "us": {"median": timing.median, "p20": timing.p20, "p80": timing.p80},
                        "error": found.error,
                        "tolerance": TOLERANCES[element],
                    }
                )
    if options.json:
        command = shlex.join(["python", "benchmarks/networks.py", *sys.argv[1:]])
        environment = {**bench.describe(), "command": command}
        text = json.dumps({"environment": environment, "rows": rows}, indent=1)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    return int(failed)


def _on_host(
    bench: HostBench, model: Any, path: Path, shape: Sequence[int], element: str, options: Any
) -> Measured:
    del element
    runtime = import_module("onnxruntime")
    session_options = runtime.SessionOptions()
    session_options.intra_op_num_threads = options.threads
    session_options.log_severity_level = 4
    session = runtime.InferenceSession(
        str(path), session_options, providers=["CPUExecutionProvider"]
    )
    ours = compile_module(path, device="host", shapes=[shape], threads=options.threads)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    outputs = [ours.empty(spec) for spec in ours.outputs]
    feed = {model.graph.input[0].name: x}
    ours(x, out=outputs)
    error = _difference(outputs, session.run(None, feed))
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(x, out=outputs),
        "theirs": lambda: session.run(None, feed),
    }
    times = measure(calls, bench.clock, options.budget)
    return Measured(times["ours"], times["theirs"], error)


def _on_gpu(
    bench: Any, model: Any, path: Path, shape: Sequence[int], element: str, options: Any
) -> Measured:
    from convir.runtime.bench.peers.torch_network import TorchNetwork  # noqa: PLC0415

    torch: Any = import_module("torch")
    cupy: Any = import_module("cupy")
    x = np.random.default_rng(0).standard_normal(shape).astype(ELEMENT_TYPES[element][1])
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
    times = measure({"ours": ours.replay, "theirs": graph.replay}, bench.clock, options.budget / 8)
    return Measured(times["ours"], times["theirs"], error)


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
