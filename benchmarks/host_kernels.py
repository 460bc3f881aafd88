"""Contraction kernels of the CPU, alone, beside other implementations.

    python benchmarks/host_kernels.py benchmarks/suites/dgrad-host.txt --against torch,onnxruntime

One row a problem: GFLOP/s of the useful work (the gradient's zeros never counted) of our kernel,
weights packed before or in every call, and of each peer in its layouts; then our time over the
best peer's. Everything takes turns in one run, and figures are medians.

On one thread times are CPU times by default, so that what else the machine runs does not count;
`--wall` asks for the wall clock, which more threads always use.
"""

from __future__ import annotations

import argparse
import time
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from convir.dialects.conv.geometry import Direction
from convir.dialects.conv.problem import ELEMENT_BYTES
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.bodies.contraction.convolution import Convolution, Layouts
from convir.lowering.kernels.host.target import target
from convir.runtime.arrays.border import aligned_bytes
from convir.runtime.bench.candidate import Candidate
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.timing import host_us, measure, settled_us
from convir.runtime.host.contraction import compile_contraction
from convir.runtime.host.fma_peak import fma_gflops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from convir.dialects.conv.geometry import Role
    from convir.dialects.conv.problem import ConvProblem
    from convir.lowering.bodies.contraction.spec import StorageType
    from convir.lowering.kernels.host.launch import Buffer
    from convir.runtime.program import Array

OPERANDS: dict[Buffer, Role] = {"a": "input", "b": "filter", "c": "output"}
"""The operands of a contraction, by what they are in forward and backward weight; backward data
trades A for C."""


def main() -> None:
    """Measure every problem of the suites."""
    parser = argparse.ArgumentParser(description="Time the contraction kernels of the CPU.")
    parser.add_argument("suites", nargs="+", type=Path, help="files of MIOpenDriver lines")
    parser.add_argument("--against", default="torch,onnxruntime", help="peers, or nothing")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", default="host", help="x86-64, x86-64-v3 or host")
    parser.add_argument("--only", default="", help="lines that hold this text")
    parser.add_argument("--budget", type=float, default=0.3, help="seconds per backend and line")
    parser.add_argument("--wall", action="store_true", help="wall clock on one thread too")
    options = parser.parse_args()
    clock = settled_us if options.threads > 1 else host_us if options.wall else cpu_us
    bench = HostBench(options.threads)
    print(f"{bench.describe()['cpu']}, {options.threads} threads, {clock.__name__}")
    ratios: list[float] = []
    for problem in problems(options.suites, options.only):
        calls = our_calls(problem, options.cpu, options.threads)
        arrays = [np.ones(shape, np.float32) for shape in problem.shapes[:2]]
        for peer in filter(None, options.against.split(",")):
            for found in bench.peer(peer, problem, arrays):
                if isinstance(found, Candidate):
                    calls[f"{found.backend} {found.layout}"] = found.call
        timings = {name: t.median for name, t in measure(calls, clock, options.budget).items()}
        theirs = [us for name, us in timings.items() if not name.startswith("ours")]
        ratio = timings["ours"] / min(theirs) if theirs else float("nan")
        ratios += [ratio] if theirs else []
        rates = ", ".join(f"{name} {problem.flops / us / 1e3:.1f}" for name, us in timings.items())
        print(f"{label(problem):46s} {timings['ours']:9.1f} µs  {ratio:5.2f}  GFLOP/s: {rates}")
    print(f"multiply-adds of registers alone: {fma_gflops('f32', options.threads):.1f} GFLOP/s")
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"time over the best peer's: geomean {mean:.2f}, worst {max(ratios):.2f}")


def cpu_us(call: Callable[[], object], repeats: int) -> float:
    """µs of this thread per call of `repeats` calls in a row."""
    start = time.thread_time_ns()
    for _ in range(repeats):
        call()
    return (time.thread_time_ns() - start) / (1000 * repeats)


def problems(suites: list[Path], only: str) -> Iterator[ConvProblem]:
    """The problems of all lines that hold `only`."""
    for suite in suites:
        for line in map(strip_comment, suite.read_text().splitlines()):
            if line.strip() and only in line:
                yield from parse_line(line).problems.values()


def our_calls(problem: ConvProblem, cpu: str, threads: int) -> dict[str, Callable[[], object]]:
    """Our kernel on weights that are packed already, and packing them each time."""
    x, w, y = (str(layout) for layout in problem.geometry.layouts)
    dtype = cast("StorageType", problem.dtype)
    convolution = Convolution(
        n=problem.n,
        c=problem.c,
        k=problem.k,
        inputs=problem.spatial,
        outputs=problem.output_spatial,
        windows=problem.windows,
        layouts=Layouts(x, w, y),
        groups=problem.geometry.groups,
        types=(dtype, dtype, dtype),
        element="f64" if dtype == "f64" else "f32",
    )
    direction = problem.direction
    spec = getattr(convolution, direction.value)()
    kernel = compile_contraction(spec, target(cpu))
    shapes = dict(zip(direction.roles, problem.shapes, strict=True))
    operands = dict(OPERANDS)
    if direction is Direction.DGRAD:
        operands["a"], operands["c"] = operands["c"], operands["a"]
    memory: dict[Buffer, Array] = {
        name: aligned_bytes(prod(shapes[role]) * ELEMENT_BYTES[problem.dtype], zeroed=True)
        for name, role in operands.items()
    }
    memory |= {name: aligned_bytes(size) for name, size in kernel.workspace.items()}
    addresses: dict[Buffer, int] = {name: array.ctypes.data for name, array in memory.items()}
    kernel.pack(addresses, threads)

    def packing() -> None:
        kernel.pack(addresses, threads)
        kernel.run(addresses, threads)

    # The memory lives as long as the call.
    ours: dict[str, Callable[[], object]] = {
        "ours": lambda: (kernel.run(addresses, threads), memory)
    }
    if kernel.plan.prepare:
        ours["ours with packing"] = packing
    return ours


def label(problem: ConvProblem) -> str:
    """The problem in few words."""
    taps, sizes = ("x".join(map(str, s)) for s in (problem.taps, problem.spatial))
    stride = problem.geometry.strides[0]
    groups = f" g{problem.geometry.groups}" if problem.geometry.groups > 1 else ""
    name = problem.direction.value
    return f"{name} {taps} s{stride} n{problem.n} {problem.c}→{problem.k} {sizes}{groups}"


if __name__ == "__main__":
    main()
