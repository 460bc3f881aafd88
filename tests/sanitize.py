"""NVIDIA's compute-sanitizer over small relatives of every problem of the suites, on a GPU.

    make sanitize

Each problem keeps what chooses its kernels (types, layouts, filter, stride, groups, direction) and
loses size. Memory comes straight from the driver, one allocation an array, so that an access
beside an array is seen; results start as NaN and are compared with the formula.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.api.compile import compile as convir_compile
from convir.cli.bench_problems import module_of, precompile, problems_of
from convir.frontends.miopen import parse_line, strip_comment
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.session import tolerance_of
from convir.runtime.compare import largest_error
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.compile import load_kernel
from convir.runtime.reference import FloatFormat, evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.dialects.problem import ConvProblem

SUITES = Path(__file__).parents[1] / "benchmarks" / "suites"
TOOLS = ("memcheck", "racecheck", "initcheck")
ERRORS_FOUND = 9
"""The exit status of a tool that found something."""
LOG_BYTES = 4000

SMALL_BATCH, SMALL_SPATIAL, SMALL_GROUPS = 2, 9, 4
FEW_CHANNELS, MANY_CHANNELS = 64, 72
"""So many channels, and more, become `MANY_CHANNELS`: vectors divide them, tiles do not."""


BROKEN = """
extern "C" __global__ void broken(const float *uninitialised, float *out) {
  __shared__ float raced[2];
  raced[threadIdx.x / 32 % 2 ? 0 : threadIdx.x % 2] = uninitialised[threadIdx.x];
  out[threadIdx.x] = raced[0];
  if (uninitialised != nullptr) out[threadIdx.x + 64] = raced[1];
}
"""
"""Reads what nothing has written, races for shared memory, writes beside its array."""


def smaller(problem: ConvProblem) -> ConvProblem:
    """A problem of few elements that differs from `problem` in sizes alone."""
    geometry = problem.geometry
    groups = min(geometry.groups, SMALL_GROUPS)
    per_group = [channels // geometry.groups for channels in (problem.c, problem.k)]
    c, k = (n * groups if n < FEW_CHANNELS else MANY_CHANNELS for n in per_group)
    reach = [(t - 1) * d + 1 for t, d in zip(problem.taps, geometry.dilations, strict=True)]
    spatial = tuple(max(SMALL_SPATIAL + i, 2 * taps) for i, taps in enumerate(reach))
    geometry = replace(geometry, groups=groups)
    return replace(problem, n=SMALL_BATCH, c=c, k=k, spatial=spatial, geometry=geometry)


def test_list() -> list[ConvProblem]:
    """The small relatives of every line of the suites, each once."""
    lines = [
        parse_line(text)
        for suite in sorted(SUITES.glob("*.txt"))
        for text in map(strip_comment, suite.read_text().splitlines())
        if text.strip()
    ]
    return list(dict.fromkeys(smaller(problem) for problem in problems_of(lines)))


def run(problem: ConvProblem) -> str | None:
    """Compute a problem; what is wrong with the result, if anything is."""
    inputs: Sequence[Any] = HostBench(1).inputs(problem, seed=0)
    module = module_of(problem)
    expected = evaluate(module, "main", inputs, float_format=FloatFormat.WIDE)[0]
    executable = convir_compile(module, device="cuda")
    (spec,) = executable.outputs
    cupy = toolkit.cupy()
    out = cupy.asarray(np.full(spec.shape, np.nan, spec.dtype))
    executable(*inputs, out=out)
    worst = largest_error(expected, cupy.asnumpy(out), tolerance_of(problem))
    if worst.error > worst.allowed:
        return f"wrong: error {worst.error:.3g}, allowed {worst.allowed:.3g}"
    return None


def run_all() -> int:
    """Run the test list in this process."""
    toolkit.cupy().cuda.set_allocator(None)
    status = 0
    for problem in test_list():
        # What the tool reports next is of this problem.
        sys.stdout.write(f"{problem}\n")
        sys.stdout.flush()
        reason = run(problem)
        if reason is not None:
            sys.stdout.write(f"{reason}\n")
            status = 1
    return status


def run_broken() -> int:
    """Launch a kernel that does everything the tools are there to find."""
    cupy = toolkit.cupy()
    cupy.cuda.set_allocator(None)
    kernel = load_kernel(BROKEN, "broken")
    kernel((1,), (64,), (cupy.empty(64, np.float32), cupy.empty(64, np.float32)))
    cupy.cuda.Device().synchronize()
    return 0


def reports(output: str) -> str:
    """The beginning of what a tool wrote, without the problems that nothing is said of."""
    lines = output.splitlines(keepends=True)
    said = [
        line
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if not line.startswith("conv") or not following.startswith(("conv", "========= ERROR"))
    ]
    return "".join(said)[:LOG_BYTES]


def main() -> int:
    """Compile everything once, then run it under each tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma-separated")
    parser.add_argument("--jobs", type=int, default=4, help="processes that compile kernels")
    parser.add_argument("--inside", choices=INSIDE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return INSIDE[options.inside]()
    try:
        toolkit.require_gpu(0)
    except toolkit.NoGpuError as error:
        sys.stdout.write(f"nothing was checked: {error}\n")
        return 1
    problems = test_list()
    precompile(problems, "cuda", options.jobs)
    status = 0
    for tool in options.tools.split(","):
        start = time.perf_counter()
        blind = under(tool, "broken").returncode != ERRORS_FOUND
        found = under(tool, "problems")
        verdict = "clean" if found.returncode == 0 else f"exit status {found.returncode}"
        verdict = f"{verdict}, but blind to a broken kernel" if blind else verdict
        took = time.perf_counter() - start
        sys.stdout.write(f"{tool}: {verdict}, {len(problems)} problems in {took:.0f} s\n")
        if found.returncode != 0:
            sys.stdout.write(reports(found.stdout) + found.stderr[-LOG_BYTES:])
        if blind or found.returncode != 0:
            status = 1
    return status


def under(tool: str, inside: str) -> subprocess.CompletedProcess[str]:
    """This file again, under a tool."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(ERRORS_FOUND)]
    if tool == "memcheck":
        # CUDA's Python bindings ask for entry points that a driver may not have.
        command += ["--report-api-errors", "no"]
    command += ["--show-backtrace", "no", sys.executable, __file__, "--inside", inside]
    return subprocess.run(command, check=False, capture_output=True, text=True)


INSIDE = {"problems": run_all, "broken": run_broken}
"""What runs under a tool, by the value of `--inside`."""


if __name__ == "__main__":
    sys.exit(main())
