"""Quantised networks on a CPU, beside our own f32 and onnxruntime on the same models.

    python benchmarks/int8_cpu.py --threads 1 --json FILE

Networks are quantised by `onnxruntime.quantization` on random images: unsigned activations, signed
weights per channel, QuantizeLinear and DequantizeLinear around every operator. One row a network:
the median time of ours, of onnxruntime's, which all optimise for this CPU, and of our f32, in turns
in one run; on one thread times are CPU times. `differ` is the share of our outputs that are not
onnxruntime's, and `error` the largest difference over the largest output.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.api.compile import compile as compile_module
from convir.lowering.kernels.host.target import target
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.peers.onnx_networks import NETWORKS
from convir.runtime.bench.timing import measure, settled_us

if TYPE_CHECKING:
    from collections.abc import Callable

KERNELS: Any = import_module("host_kernels")
"""The script beside this one."""
CASES = (
    ("resnet50_v1_5", (1, 3, 224, 224)),
    ("mobilenet_v2", (1, 3, 224, 224)),
    ("resnet50_v1_5", (8, 3, 224, 224)),
    ("mobilenet_v2", (8, 3, 224, 224)),
)
CALIBRATION = 2
"""Images that the ranges of activations are from."""


def main() -> None:
    """Measure every network."""
    parser = argparse.ArgumentParser(description="Time quantised networks on a CPU.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds per backend and row")
    parser.add_argument("--only", default="", help="rows that hold this text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bench, features = HostBench(options.threads), target().features
    held = [name for name in ("avx2", "avx512f", "avx512vnni") if f"+{name}," in f"{features},"]
    print(f"{bench.describe()['cpu']}, {', '.join(held)}, {options.threads} threads")
    rows = [
        _row(name, shape, options) for name, shape in CASES if options.only in _label(name, shape)
    ]
    if options.json:
        command = shlex.join(["python", "benchmarks/int8_cpu.py", *sys.argv[1:]])
        environment = {**bench.describe(), "command": command}
        text = json.dumps({"environment": environment, "rows": rows}, indent=1)
        options.json.write_text(f"{text}\n", encoding="utf-8")


def _label(name: str, shape: tuple[int, ...]) -> str:
    return f"{name} {'x'.join(map(str, shape))}"


def _row(name: str, shape: tuple[int, ...], options: Any) -> dict[str, Any]:
    x = np.random.default_rng(7).standard_normal(shape, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        single, quantised = quantised_network(name, Path(folder))
        ours, ours_f32 = (
            compile_module(path, device="host", shapes=[shape], threads=options.threads)
            for path in (quantised, single)
        )
        theirs = session(quantised, options.threads)
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(x),
        "onnxruntime": lambda: theirs.run(None, {theirs.get_inputs()[0].name: x}),
        "ours f32": lambda: ours_f32(x),
    }
    expected: Any
    (expected,) = theirs.run(None, {theirs.get_inputs()[0].name: x})
    found = np.asarray(ours(x))
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    differ = float(np.asarray(found != expected).mean())
    clock = settled_us if options.threads > 1 else KERNELS.cpu_us
    us = {backend: time.median for backend, time in measure(calls, clock, options.budget).items()}
    times = ", ".join(f"{backend} {time / 1000:.2f}" for backend, time in us.items())
    print(
        f"{_label(name, shape):28s} ours/onnxruntime {us['ours'] / us['onnxruntime']:.2f}  "
        f"f32/ours {us['ours f32'] / us['ours']:.2f}  differ {differ:.2%}  error {error:.1e}  "
        f"ms: {times}",
        flush=True,
    )
    return {"network": name, "shape": shape, "us": us, "differ": differ, "error": error}


class _Images:
    """What ranges of activations are measured on."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(1)
        shape = (1, 3, 224, 224)
        self._left = [{name: rng.standard_normal(shape, np.float32)} for _ in range(CALIBRATION)]

    def get_next(self) -> dict[str, Any] | None:
        """The next image by the name of the input; None after the last."""
        return self._left.pop() if self._left else None


def quantised_network(name: str, folder: Path) -> tuple[Path, Path]:
    """The files of a network of `NETWORKS`, and of it quantised, in `folder`."""
    onnx: Any = import_module("onnx")
    tools: Any = import_module("onnxruntime.quantization")
    prepare: Any = import_module("onnxruntime.quantization.shape_inference").quant_pre_process
    made, single, quantised = (folder / f"{part}.onnx" for part in ("made", "f32", "int8"))
    model = NETWORKS[name]()
    onnx.save(model, made)
    prepare(str(made), str(single), skip_symbolic_shape=True)
    tools.quantize_static(
        str(single),
        str(quantised),
        _Images(model.graph.input[0].name),
        quant_format=tools.QuantFormat.QDQ,
        per_channel=True,
        activation_type=tools.QuantType.QUInt8,
        weight_type=tools.QuantType.QInt8,
    )
    return single, quantised


def session(path: Path, threads: int) -> Any:
    """onnxruntime's session of a model, with all its optimisations."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
