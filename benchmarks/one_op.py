"""Models of one operator, or of a few that networks have together, beside onnxruntime on the CPU.

    python benchmarks/one_op.py --threads 1 --json FILE
    python benchmarks/one_op.py --only Norm,softmax

One row a model (`one_op.txt`): the time of ours and of onnxruntime's, in turns in one process on
the same inputs, the ratio of the two (the fastest fifth of calls of each, so that what else the
machine does is lost), and the largest error of both from the same model in f64, over the largest
number of that. Exit status 1 if our error is past half as much again as theirs and one unit in the
last place. On a machine that others use too, `--clock cpu` counts the time that the one thread
runs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from networks import cpu_us

from convir.api.compile import compile as compile_module
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.timing import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

OPSET = 21
ERROR_RATIO = 1.5
"""Of ours from f64 over theirs; and at least one unit in the last place is allowed."""
ULP = 2.0**-23
SUITE = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Tensor:
    """An input or a weight: its name, its shape, and of an input how its numbers are spread."""

    name: str
    shape: tuple[int, ...]
    mean: float = 0.0
    deviation: float = 1.0

    @staticmethod
    def of(text: str) -> Tensor:
        """The tensor that `NAME:8x64[:MEAN:DEVIATION]` describes."""
        name, shape, *spread = text.split(":")
        return Tensor(name, tuple(map(int, shape.split("x"))), *map(float, spread))


@dataclass(frozen=True)
class Row:
    """A model: its inputs and weights, and its nodes in ONNX's text form, of which the last
    computes `y`."""

    name: str
    inputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    nodes: str

    @staticmethod
    def of(line: str) -> Row:
        """The row that a line of the suite describes."""
        name, inputs, weights, nodes = (part.strip() for part in line.split("|", maxsplit=3))
        read, constant = (tuple(map(Tensor.of, text.split())) for text in (inputs, weights))
        return Row(name, read, constant, nodes)

    def model(self) -> Any:
        """The ONNX model, without its weights' numbers."""
        declared = ", ".join(
            f"float[{','.join(map(str, tensor.shape))}] {tensor.name}"
            for tensor in (*self.inputs, *self.weights)
        )
        text = (
            f'<ir_version: 10, opset_import: ["" : {OPSET}]> '
            f"one ({declared}) => (float[] y) {{ {self.nodes} }}"
        )
        model = import_module("onnx.parser").parse_model(text)
        model.graph.output[0].type.tensor_type.ClearField("shape")
        return model


def rows(path: Path) -> list[Row]:
    """The rows of a suite; lines that begin with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Row.of(line) for line in lines if line and not line.startswith("#")]


def main() -> int:
    """Measure every row."""
    parser = argparse.ArgumentParser(description="Time models of one operator.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds per backend and row")
    parser.add_argument(
        "--clock",
        default="wall",
        choices=("wall", "cpu"),
        help="cpu: the time that the calling thread runs, on a machine that others use too",
    )
    parser.add_argument("--only", default="", help="rows whose name holds one of these, by comma")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.clock == "cpu" and options.threads > 1:
        parser.error("--clock cpu is of one thread")
    bench = HostBench(options.threads)
    records: list[dict[str, Any]] = []
    failed = False
    for row in rows(SUITE):
        if not any(text in row.name for text in options.only.split(",")):
            continue
        try:
            times, errors = _measured(row, bench, options)
        except Exception as error:
            print(
                f"{row.name:24s} {type(error).__name__}: {str(error).splitlines()[0]}", flush=True
            )
            failed = True
            continue
        is_exact = errors["convir"] <= max(ERROR_RATIO * errors["onnxruntime"], ULP)
        failed |= not is_exact
        ours, theirs = times["convir"].p20, times["onnxruntime"].p20
        print(
            f"{row.name:24s} ours {ours:9.1f} µs  onnxruntime {theirs:9.1f} µs  "
            f"ratio {ours / theirs:5.2f}  error {errors['convir']:.1e} against "
            f"{errors['onnxruntime']:.1e}{'' if is_exact else '  past 1.5 times'}",
            flush=True,
        )
        for backend, timing in times.items():
            spread = {"median": timing.median, "p20": timing.p20, "p80": timing.p80}
            found = {"line": row.name, "backend": backend, "us": spread, "error": errors[backend]}
            records.append({"suite": "one_op", **found})
    if options.json:
        command = shlex.join(["python", "benchmarks/one_op.py", *sys.argv[1:]])
        environment = {**bench.describe(), "command": command}
        if options.clock == "cpu":
            environment["clock"] = "CPU time of the calling thread, around calls in a row"
        text = json.dumps({"environment": environment, "rows": records}, indent=1)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    return int(failed)


def _measured(
    row: Row, bench: HostBench, options: Any
) -> tuple[Mapping[str, Any], dict[str, float]]:
    """The times in µs and the errors from f64, of both backends."""
    onnx, runtime = import_module("onnx"), import_module("onnxruntime")
    model, random = row.model(), np.random.default_rng(0)
    for tensor in row.weights:
        numbers = random.uniform(0.5, 1.5, tensor.shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, tensor.name))
    del model.graph.input[len(row.inputs) :]
    feed = {
        tensor.name: random.normal(tensor.mean, tensor.deviation, tensor.shape).astype(np.float32)
        for tensor in row.inputs
    }
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.log_severity_level = 4
    session = runtime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    ours = compile_module(model, device="host", threads=options.threads)
    inputs, outputs = list(feed.values()), [ours.empty(spec) for spec in ours.outputs]
    for output in outputs:
        output.fill(np.nan)
    calls: dict[str, Callable[[], object]] = {
        "convir": lambda: ours(*inputs, out=outputs),
        "onnxruntime": lambda: session.run(None, feed),
    }
    calls["convir"]()
    exact = _in_f64(model, feed)
    errors = {
        "convir": _error(outputs[0], exact),
        "onnxruntime": _error(session.run(None, feed)[0], exact),
    }
    clock = cpu_us if options.clock == "cpu" else bench.clock
    return measure(calls, clock, options.budget), errors


def _in_f64(model: Any, feed: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float64]:
    """What the model computes of the same numbers in f64."""
    known = {
        each.name: import_module("onnx").numpy_helper.to_array(each).astype(np.float64)
        for each in model.graph.initializer
    }
    known |= {name: numbers.astype(np.float64) for name, numbers in feed.items()}
    for node in model.graph.node:
        attributes = {
            each.name: import_module("onnx").helper.get_attribute_value(each)
            for each in node.attribute
        }
        known[node.output[0]] = _node_in_f64(
            node.op_type, attributes, [known[name] for name in node.input]
        )
    return known["y"]


def _node_in_f64(
    kind: str, attributes: Mapping[str, Any], values: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    torch: Any = import_module("torch")
    functions = torch.nn.functional
    x, *rest = [torch.from_numpy(np.asarray(value)) for value in values] or [None]
    window = {
        "kernel_size": attributes.get("kernel_shape"),
        "stride": attributes.get("strides", 1),
        "padding": attributes.get("pads", [0, 0])[:2],
    }
    conv = {
        "stride": attributes.get("strides", 1),
        "padding": attributes.get("pads", [0, 0])[:2],
        "groups": attributes.get("group", 1),
    }
    axes = [int(axis) for axis in rest[0]] if kind.startswith("Reduce") and rest else None
    computed: dict[str, Callable[[], Any]] = {
        "Add": lambda: x + rest[0],
        "AveragePool": lambda: functions.avg_pool2d(x, **window, count_include_pad=False),
        "BatchNormalization": lambda: functions.batch_norm(x, rest[2], rest[3], rest[0], rest[1]),
        "Constant": lambda: torch.tensor(next(iter(attributes.values()))),
        "Conv": lambda: functions.conv2d(x, rest[0], **conv),
        "ConvTranspose": lambda: functions.conv_transpose2d(x, rest[0], **conv),
        "Div": lambda: x / rest[0],
        "Erf": lambda: torch.erf(x),
        "Exp": lambda: torch.exp(x),
        "Gelu": lambda: functions.gelu(
            x, approximate=attributes.get("approximate", b"none").decode()
        ),
        "GlobalAveragePool": lambda: x.mean((2, 3), keepdim=True),
        "GroupNormalization": lambda: functions.group_norm(x, attributes["num_groups"], *rest),
        "InstanceNormalization": lambda: functions.instance_norm(x, weight=rest[0], bias=rest[1]),
        "LRN": lambda: functions.local_response_norm(x, attributes["size"]),
        "LayerNormalization": lambda: functions.layer_norm(x, x.shape[-1:], *rest),
        "LogSoftmax": lambda: functions.log_softmax(x, -1),
        "MatMul": lambda: x @ rest[0],
        "MaxPool": lambda: functions.max_pool2d(x, **window),
        "Mish": lambda: functions.mish(x),
        "Mul": lambda: x * rest[0],
        "ReduceMax": lambda: x.amax(axes, keepdim=True),
        "ReduceMean": lambda: x.mean(axes, keepdim=True),
        "ReduceSum": lambda: x.sum(axes, keepdim=True),
        "Cos": lambda: torch.cos(x),
        "HardSwish": lambda: functions.hardswish(x),
        "Log": lambda: torch.log(x),
        "Pow": lambda: torch.pow(x, rest[0]),
        "Reciprocal": lambda: 1 / x,
        "Relu": lambda: functions.relu(x),
        "Sin": lambda: torch.sin(x),
        "Softplus": lambda: functions.softplus(x),
        "Sigmoid": lambda: torch.sigmoid(x),
        "Softmax": lambda: functions.softmax(x, attributes.get("axis", -1)),
        "Sqrt": lambda: torch.sqrt(x),
        "Sub": lambda: x - rest[0],
        "Tanh": lambda: torch.tanh(x),
    }
    return computed[kind]().numpy()


def _error(result: Any, exact: NDArray[np.float64]) -> float:
    difference = np.abs(np.asarray(result, np.float64) - exact).max() / np.abs(exact).max()
    return float("inf") if np.isnan(difference) else float(difference)


if __name__ == "__main__":
    sys.exit(main())
