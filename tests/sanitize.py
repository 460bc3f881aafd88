"""NVIDIA's compute-sanitizer over the suites, made small, and over the tests of kernels, on a GPU.

    make sanitize

Each problem of the suites keeps what chooses its kernels (types, layouts, filter, stride, groups,
direction) and loses size. The tests add every role, store and kind of holes of the templates, and
generated kernels. Memory comes straight from the driver, one allocation an array, so that an access
beside an array is seen; results start as NaN and are compared with the formula.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

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
    from collections.abc import Iterable, Sequence

    from convir.dialects.problem import ConvProblem

ROOT = Path(__file__).parents[1]
SUITES = ROOT / "benchmarks" / "suites"
RUNTIME = ROOT / "tests" / "runtime"
TESTS: dict[str, tuple[str, str]] = {
    "wgmma": ("test_wgmma_kernels.py", ""),
    "direct": ("test_cuda_direct.py", "convfp16 or f32"),
    "wgmma wgrad": ("test_wgmma_wgrad_kernels.py", ""),
    "taps wgrad": ("test_taps_wgrad_on_gpu.py", ""),
    "stacked wgrad": ("test_stacked_wgrad_on_gpu.py", "every_weight"),
    "grouped wgrad": ("test_cuda_grouped_wgrad.py", "convfp16"),
    "implicit GEMM": (
        "test_cuda_contractions.py",
        "(small_integers and channels-last) or epilogues",
    ),
    "parts of a product": ("test_partition_on_gpu.py", ""),
    "generated": ("test_generated_on_gpu.py", "teams or views"),
    "programs": ("test_cuda_device.py", "scatter or loops or gemm"),
}
"""Tests of kernels: a file, and which of its tests."""
TOOLS = ("memcheck", "racecheck", "initcheck")
ERRORS_FOUND = 9
"""The exit status of a tool that found something."""
LOG_BYTES = 4000
SHARES = 8
"""Processes among which the problems are shared, under each tool."""

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


def run_share(share: int) -> int:
    """Run every `SHARES`-th problem of the test list in this process, from the `share`-th on."""
    toolkit.cupy().cuda.set_allocator(None)
    status = 0
    for problem in test_list()[share::SHARES]:
        # What the tool reports next is of this problem.
        sys.stdout.write(f"{problem}\n")
        sys.stdout.flush()
        reason = run(problem)
        if reason is not None:
            sys.stdout.write(f"{reason}\n")
            status = 1
    return status


class EveryArrayAlone:
    """A plugin of pytest: CuPy takes each array's memory from the driver."""

    def pytest_sessionstart(self) -> None:
        """Before the first test."""
        toolkit.cupy().cuda.set_allocator(None)


def run_tests(name: str) -> int:
    """Run some of the tests in this process."""
    file, which = TESTS[name]
    arguments = [str(RUNTIME / file), "-k", which, "-m", "gpu", "-q", "-p", "no:cacheprovider"]
    return pytest.main(["--rootdir", str(ROOT), *arguments], plugins=[EveryArrayAlone()])


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
    """Compile and run everything once, then run it under each tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma-separated")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
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
    with ThreadPoolExecutor(options.jobs) as pool:
        # What fails without a tool says more there; and kernels are compiled then.
        clean = reported("no tool", list(TESTS), pool.map(again, TESTS))
        start = time.perf_counter()
        tools = options.tools.split(",")
        names = [*(f"{PROBLEMS} {share}" for share in range(SHARES)), *TESTS]
        # All at once: a tool keeps a core busy for long, and the GPU for little of that.
        broken = {tool: pool.submit(under, tool, BROKEN_KERNEL) for tool in tools}
        runs = {tool: [pool.submit(under, tool, name) for name in names] for tool in tools}
        for tool in tools:
            blind = broken[tool].result().returncode != ERRORS_FOUND
            is_clean = reported(tool, names, (run.result() for run in runs[tool]))
            verdict = "clean" if is_clean else "not clean"
            verdict = f"{verdict}, but blind to a broken kernel" if blind else verdict
            what = f"{len(problems)} problems, tests of {', '.join(TESTS)}"
            sys.stdout.write(f"{tool}: {verdict}, {what}\n")
            sys.stdout.flush()
            clean = clean and is_clean and not blind
        sys.stdout.write(f"in {time.perf_counter() - start:.0f} s\n")
    return 0 if clean else 1


def reported(
    tool: str, names: Sequence[str], runs: Iterable[subprocess.CompletedProcess[str]]
) -> bool:
    """Whether all of some processes were clean; what the others wrote is printed."""
    failed = [(name, run) for name, run in zip(names, runs, strict=True) if run.returncode != 0]
    for name, run in failed:
        sys.stdout.write(f"{tool}, {name}: exit status {run.returncode}\n")
        sys.stdout.write(reports(run.stdout) + run.stderr[-LOG_BYTES:])
    return not failed


@cache
def devices() -> list[str]:
    """The GPUs that this process may use, by the driver's names for them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        return visible.split(",")
    return [str(i) for i in range(toolkit.cupy().cuda.runtime.getDeviceCount())]


_starts = count()


def again(inside: str, tool: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """This file again, under a tool if one is given, on the GPUs in turn."""
    command = [*tool, sys.executable, __file__, "--inside", inside]
    device = devices()[next(_starts) % len(devices())]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": device}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def under(tool: str, inside: str) -> subprocess.CompletedProcess[str]:
    """This file again, under a tool of compute-sanitizer's."""
    options = ["--tool", tool, "--error-exitcode", str(ERRORS_FOUND), "--show-backtrace", "no"]
    if tool == "memcheck":
        # CUDA's Python bindings ask for entry points that a driver may not have.
        options += ["--report-api-errors", "no"]
    return again(inside, ("compute-sanitizer", *options))


PROBLEMS, BROKEN_KERNEL = "problems", "broken"
INSIDE = {
    **{f"{PROBLEMS} {share}": partial(run_share, share) for share in range(SHARES)},
    BROKEN_KERNEL: run_broken,
    **{name: partial(run_tests, name) for name in TESTS},
}
"""What runs under a tool, by the value of `--inside`."""


if __name__ == "__main__":
    sys.exit(main())
