"""What a call costs the host: replays of a program's CUDA graph, beside calls and PyTorch's graphs.

    python benchmarks/graph_host_time.py [--json FILE] [--rounds N]

Programs of one launch, of a cuBLAS call and a launch, and of a chain of convolutions. A round
enqueues a batch of calls on an idle GPU; the clock is the host's, around the batch, and stops
before the GPU is waited for: the batch fits the driver's queue. Replays run on buffers of the
graph; copies of inputs are a row of their own. The peer is PyTorch's graph of its own operations.
Results are checked first. Exit status 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.cli.jobs.bench_problems import LIBRARY_PIPELINE
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.bench.timing import Timing, host_us
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 32
"""Calls in a row: enough to lose the clock's own cost, few enough for the driver's queue."""
WARM_UP = 3
LAYERS, SIZE, CHANNELS = 24, 16, 32

LINE = (
    "convfp16 -n 2 -c 64 -H 28 -W 28 -k 128 -y 1 -x 1 -u 2 -v 2 -F 2 "
    "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
)


@dataclass(frozen=True)
class Case:
    """A program, and the same as a function of PyTorch tensors."""

    name: str
    source: str | ModuleOp
    peer: Callable[..., Any]
    pipeline: str = "default"


def chain() -> str:
    """A chain of convolutions, each a launch."""
    x = f"tensor<1x{SIZE}x{SIZE}x{CHANNELS}xf16>"
    w = f"tensor<{CHANNELS}x3x3x{CHANNELS}xf16>"
    layers = "\n".join(
        f"  %{i + 1} = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) "
        f"ins(%{i}, %w : {x}, {w}) outs(%init : {x})"
        for i in range(LAYERS)
    )
    return f"""
func.func @main(%0: {x}, %w: {w}) -> {x} {{
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : {x}
  %init = linalg.fill ins(%zero : f16) outs(%empty : {x}) -> {x}
{layers}
  func.return %{LAYERS} : {x}
}}"""


def chained(x: Any, w: Any) -> Any:
    """The same chain."""
    x, w = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
    for _ in range(LAYERS):
        x = torch.nn.functional.conv2d(x, w, padding=1)
    return x.permute(0, 2, 3, 1)


def strided_gradient(dy: Any, w: Any) -> Any:
    """Backward data of a 1x1 filter with a stride of 2."""
    n, rows, columns, _ = dy.shape
    dx = torch.zeros(n, 2 * rows, 2 * columns, w.shape[3], device=dy.device, dtype=dy.dtype)
    dx[:, ::2, ::2] = dy @ w[:, 0, 0]
    return dx


def cases() -> list[Case]:
    """The programs."""
    (problem,) = parse_line(LINE).problems.values()
    module = ModuleOp([function_of("main", problem)])
    return [
        Case("one launch", module, strided_gradient),
        Case("cuBLAS and a launch", module, strided_gradient, LIBRARY_PIPELINE),
        Case(f"{LAYERS} launches", chain(), chained),
    ]


def host_timing(call: Callable[[], object], rounds: int) -> Timing:
    """µs of the host for a call that only enqueues."""
    samples: list[float] = []
    for i in range(WARM_UP + rounds):
        torch.cuda.synchronize()
        us = host_us(call, BATCH)
        if i >= WARM_UP:
            samples.append(us)
    torch.cuda.synchronize()
    return Timing.of(samples)


def rows_of(case: Case, rounds: int) -> list[dict[str, Any]]:
    """The ways to call a program, timed."""
    cupy: Any = toolkit.cupy()
    executable = convir_compile(case.source, pipeline=case.pipeline, device="cuda")
    # Weights that keep the values of a chain in the range of f16.
    tensors = [
        (torch.randn(spec.shape, device="cuda") * (1.0 if i == 0 else 0.05)).half()
        for i, spec in enumerate(executable.inputs)
    ]
    expected = case.peer(*tensors).double()
    torch.cuda.synchronize()
    arrays = [cupy.from_dlpack(tensor) for tensor in tensors]
    graph = executable.graph()
    graph.outputs[0].fill(cupy.nan)
    found = torch.from_dlpack(graph(*arrays)).double()
    torch.cuda.synchronize()
    error = float((found - expected).abs().max() / expected.abs().max())
    wrong = None if error <= 0.01 else f"wrong: relative error {error:.3g}"
    out = executable.empty(executable.outputs[0])
    stream = cupy.cuda.Stream(non_blocking=True)
    peer = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(peer):
        case.peer(*tensors)
    calls: dict[str, Callable[[], object]] = {
        "replay": graph.replay,
        "replay, stream=": lambda: graph.replay(stream=stream),
        "graph call, arguments copied": lambda: graph(*arrays),
        "call, out=": lambda: executable(*arrays, out=out),
        "PyTorch graph": peer.replay,
        "PyTorch": lambda: case.peer(*tensors),
    }
    launches = executable.program.summary("cuda")
    rows: list[dict[str, Any]] = []
    for name, call in calls.items():
        timing = host_timing(call, rounds)
        us = {"median": timing.median, "p20": timing.p20, "p80": timing.p80}
        row = {"program": case.name, "steps": launches, "call": name, "us": us, "failure": wrong}
        rows.append(row)
        print(f"{case.name:22} {name:30} {timing} µs{'' if wrong is None else '  ' + wrong}")
    return rows


def main() -> None:
    """Time every program and print a table."""
    parser = argparse.ArgumentParser(description="Time what calls cost the host.")
    parser.add_argument("--json", type=Path, help="where the rows go")
    parser.add_argument("--rounds", type=int, default=101, help="batches that are timed")
    options = parser.parse_args()
    bench = gpu_or_exit()
    environment = {**bench.describe(), "clock": f"the host's, around {BATCH} calls"}
    rows = [row for case in cases() for row in rows_of(case, options.rounds)]
    if options.json is not None:
        text = json.dumps({"environment": environment, "rows": rows}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(any(row["failure"] is not None for row in rows))


if __name__ == "__main__":
    main()
