"""Samples computed at once beside samples computed one by one, as a library's loop has them.

    python benchmarks/batching.py --device host --json FILE
    python benchmarks/batching.py --device cuda --json FILE

A layer is im2col and a product for each sample, with a bias (`layer`), or the products alone
(`product`). One program computes the samples one by one, each from an image into a result of its
own; the other is what `batch-gemms` makes of a loop over slices, whose remark says which trade-off
it took. One row each: median times in turns, and the first over the second. On a GPU by calls
(`events`) and by replays of a CUDA graph (`graph`). Exit status 1 if the two results differ.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.api.compile import compile as compile_module
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.tensor_passes import passes_for
from convir.passes import run
from convir.passes.batch_gemms.pass_ import BatchGemmsPass
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.bench.timing import measure
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SUITE = Path(__file__).parent / "suites" / "resnet50-n8.txt"
SMALL = ((16, 8), (16, 16), (32, 16), (64, 32))
"""Channels and size of the images of small 3x3 layers."""
CUDA_SAMPLES = 32
HOST_SAMPLES = 8
CLEANED = "canonicalize,cse"
ONE_BY_ONE, AT_ONCE = "one by one", "at once"
TOLERANCE = 1e-4
"""Of the largest result: sums of up to 4608 products in another order."""


@dataclass(frozen=True)
class Layer:
    """A forward convolution N C H W in f32."""

    n: int
    c: int
    size: int
    k: int
    taps: int
    stride: int
    pad: int
    products_only: bool = False

    @property
    def name(self) -> str:
        """In few words."""
        what = "product" if self.products_only else "layer"
        return (
            f"{what} n{self.n} {self.c}→{self.k} {self.size}² {self.taps}x{self.taps} "
            f"s{self.stride}"
        )

    @property
    def output(self) -> int:
        """Rows, and columns, of the result."""
        return (self.size + 2 * self.pad - self.taps) // self.stride + 1

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of all images, or of all im2col matrices."""
        if self.products_only:
            return self.n, self.c * self.taps**2, self.output**2
        return self.n, self.c, self.size, self.size

    @property
    def weights(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the filter's matrix and of the bias."""
        return (self.k, self.c * self.taps**2), (self.k,)

    @property
    def one_by_one(self) -> str:
        """A kernel, or two, for each sample, on an image and a result of its own."""
        image, result = _tensor(self.inputs[1:]), _tensor((self.k, self.output**2))
        arguments = ", ".join(f"%x_{i}: {image}" for i in range(self.n))
        results = ", ".join(f"%y_{i}" for i in range(self.n))
        types = ", ".join([result] * self.n)
        body = "\n".join(self._computed(i) for i in range(self.n))
        return self._function(arguments, f"({types})", body, f"{results} : {types}")

    @property
    def loop(self) -> str:
        """The same, on slices of one tensor of images, into slices of one result."""
        result = (self.n, self.k, self.output**2)
        y, part = _tensor(result), _tensor(result[1:])
        zeros = ", ".join(["0"] * (len(self.inputs) - 1))
        ones = ", ".join(["1"] * len(self.inputs))
        sizes = ", ".join(map(str, self.inputs[1:]))
        lines = [f"%r_0 = tensor.empty() : {y}"]
        for i in range(self.n):
            lines += [
                (
                    f"%x_{i} = tensor.extract_slice %x[{i}, {zeros}] [1, {sizes}] [{ones}] : "
                    f"{_tensor(self.inputs)} to {_tensor(self.inputs[1:])}"
                ),
                self._computed(i),
                (
                    f"%r_{i + 1} = tensor.insert_slice %y_{i} into %r_{i}[{i}, 0, 0] "
                    f"[1, {result[1]}, {result[2]}] [1, 1, 1] : {part} into {y}"
                ),
            ]
        arguments = f"%x: {_tensor(self.inputs)}"
        return self._function(arguments, y, "\n".join(lines), f"%r_{self.n} : {y}")

    def _function(self, images: str, types: str, body: str, returned: str) -> str:
        w, bias = map(_tensor, self.weights)
        part = _tensor((self.k, self.output**2))
        return f"""
          func.func @main({images}, %w: {w}, %k: {bias}) -> {types} {{
            %zero = arith.constant 0.0 : f32
            %zeros = arith.constant dense<0.0> : {part}
            %e = tensor.empty() : {part}
            {body}
            func.return {returned}
          }}"""

    def _computed(self, i: int) -> str:
        """The result `%y_i` of the image, or of the matrix, `%x_i`."""
        cols, part = (
            _tensor((self.weights[0][1], self.output**2)),
            _tensor((self.k, self.output**2)),
        )
        w, bias = map(_tensor, self.weights)
        if self.products_only:
            return (
                f"%y_{i} = linalg.matmul ins(%w, %x_{i} : {w}, {cols}) "
                f"outs(%zeros : {part}) -> {part}\n"
            )
        maps = ", ".join(f"affine_map<(m, n) -> ({results})>" for results in ("m, n", "m", "m, n"))
        return (
            f"{self._im2col(i)}%p_{i} = linalg.matmul ins(%w, %c_{i} : {w}, {cols}) "
            f"outs(%zeros : {part}) -> {part}\n"
            f"%y_{i} = linalg.generic {{indexing_maps = [{maps}], "
            f'iterator_types = ["parallel", "parallel"]}} ins(%p_{i}, %k : {part}, {bias}) '
            f"outs(%e : {part}) {{\n^bb0(%a: f32, %b: f32, %o: f32):\n"
            f"%s = arith.addf %a, %b : f32\nlinalg.yield %s : f32\n}} -> {part}\n"
        )

    def _im2col(self, i: int) -> str:
        c, h, t, p, s = self.c, self.size, self.taps, self.output, self.stride
        image, cols = _tensor((c, h, h)), _tensor((c * t * t, p * p))
        if t == s == 1:
            return f"%c_{i} = tensor.collapse_shape %x_{i} [[0], [1, 2]] : {image} into {cols}\n"
        border = h + 2 * self.pad
        padded, windows = _tensor((c, border, border)), _tensor((c, t, t, p, p))
        parallel = ", ".join(['"parallel"'] * 5)
        return (
            f"%q_{i} = tensor.pad %x_{i} low[0, {self.pad}, {self.pad}] "
            f"high[0, {self.pad}, {self.pad}] {{\n^bb0(%a: index, %b: index, %d: index):\n"
            f"tensor.yield %zero : f32\n}} : {image} to {padded}\n"
            f"%e_{i} = tensor.empty() : {windows}\n"
            f"%g_{i} = linalg.generic {{indexing_maps = [affine_map<(c, r, s, p, q) -> "
            f"(c, p * {s} + r, q * {s} + s)>, affine_map<(c, r, s, p, q) -> (c, r, s, p, q)>], "
            f"iterator_types = [{parallel}]}} "
            f"ins(%q_{i} : {padded}) outs(%e_{i} : {windows}) {{\n^bb0(%v: f32, %o: f32):\n"
            f"linalg.yield %v : f32\n}} -> {windows}\n"
            f"%c_{i} = tensor.collapse_shape %g_{i} [[0, 1, 2], [3, 4]] : {windows} into {cols}\n"
        )


def main() -> int:
    """Measure every layer."""
    parser = argparse.ArgumentParser(description="Time samples at once and one by one.")
    parser.add_argument("--device", default="host", choices=("host", "cuda"))
    parser.add_argument("--only", default="", help="layers that hold this text")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds per program and row")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    failed = False
    environment: dict[str, Any] = {}
    clocks: dict[str, str] = {}
    for clock in ("events", "graph") if options.device == "cuda" else ("host",):
        bench = _bench(clock)
        clocks[clock] = bench.describe()["clock"]
        environment |= bench.describe()
        print(clocks[clock])
        for layer in layers(options.device):
            if options.only not in layer.name:
                continue
            found, differs = _measured(layer, options, bench)
            failed |= differs
            rows += [{"suite": "batching", "clock": clock, **row} for row in found]
    if options.json:
        command = shlex.join(["python", "benchmarks/batching.py", *sys.argv[1:]])
        text = json.dumps(
            {"environment": {**environment, "command": command}, "rows": rows}, indent=1
        )
        options.json.write_text(f"{text}\n", encoding="utf-8")
    return int(failed)


def layers(device: str) -> Iterator[Layer]:
    """The small layers, and on the host those of ResNet-50."""
    samples = CUDA_SAMPLES if device == "cuda" else HOST_SAMPLES
    for channels, size in SMALL:
        for products_only in (True, False):
            yield Layer(samples, channels, size, channels, 3, 1, 1, products_only)
    if device == "cuda":
        return
    for line in SUITE.read_text().splitlines():
        if not strip_comment(line) or "-F 1" not in _forward(line):
            continue
        (problem,) = parse_line(_forward(line)).problems.values()
        (taps, _), (size, _) = problem.taps, problem.spatial
        geometry = problem.geometry
        yield Layer(
            problem.n, problem.c, size, problem.k, taps, geometry.strides[0], geometry.pad_low[0]
        )


def _forward(line: str) -> str:
    """The forward convolution of a line that asks for several directions."""
    head, _, rest = line.partition(" -F ")
    return f"{head} -F 1 {rest.partition(' ')[2]}"


def _bench(clock: str) -> Any:
    if clock == "host":
        return HostBench(1)
    return gpu_or_exit("graph" if clock == "graph" else "events")


def _measured(layer: Layer, options: Any, bench: Any) -> tuple[list[dict[str, Any]], bool]:
    remarks = run(layer.loop, passes_for(options.device, [BatchGemmsPass()])).remarks
    why = next((remark.reason for remark in remarks), "")
    images, *weights = _arrays([layer.inputs, *layer.weights], options.device)
    calls = {
        ONE_BY_ONE: _call(layer.one_by_one, CLEANED, [*images, *weights], options, bench),
        AT_ONCE: _call(layer.loop, f"batch-gemms,{CLEANED}", [images, *weights], options, bench),
    }
    for call, results in calls.values():
        for result in results:
            result.fill(float("nan"))
        call()
    separate, (together,) = (results for _, results in calls.values())
    difference = max(
        float(abs(one - many).max() / abs(one).max())
        for one, many in zip(separate, together, strict=True)
    )
    times = measure({name: call for name, (call, _) in calls.items()}, bench.clock, options.budget)
    first, second = (times[name].median for name in calls)
    print(
        f"{layer.name:34s} one by one {first:9.1f} µs  at once {second:9.1f} µs  "
        f"{first / second:5.2f}x  {why}",
        flush=True,
    )
    rows = [
        {
            "line": layer.name,
            "backend": name,
            "us": {"median": t.median, "p20": t.p20, "p80": t.p80},
            "reason": why,
            "error": difference,
            "tolerance": TOLERANCE,
        }
        for name, t in times.items()
    ]
    return rows, not difference <= TOLERANCE


def _call(
    text: str, passes: str, arrays: Sequence[Any], options: Any, bench: Any
) -> tuple[Callable[[], object], Sequence[Any]]:
    """A program on `arrays`, as calls or as replays, and its results."""
    program = compile_module(text, passes, device=options.device, threads=_threads(options))
    if options.device == "cuda" and "graph" in bench.describe()["clock"]:
        graph = program.graph()
        for target, array in zip(graph.inputs, arrays, strict=True):
            target[...] = array
        return graph.replay, graph.outputs
    results = [program.empty(spec) for spec in program.outputs]
    return lambda: program(*arrays, out=results), results


def _threads(options: Any) -> int | None:
    return 1 if options.device == "host" else None


def _arrays(shapes: Sequence[tuple[int, ...]], device: str) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.standard_normal(shape, np.float32) for shape in shapes]
    return arrays if device == "host" else [toolkit.cupy().asarray(array) for array in arrays]


def _tensor(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


if __name__ == "__main__":
    sys.exit(main())
