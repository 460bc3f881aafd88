"""NVIDIA's compute-sanitizer over the suites, made small, and over the tests of kernels, on a GPU.

    make sanitize

Each problem of the suites keeps what chooses its kernels (types, layouts, filter, stride, groups,
direction) and loses size. The tests add every role, store and kind of holes of the templates, and
generated kernels. Memory comes straight from the driver, one allocation an array, so that an access
beside an array is seen.

All of it runs once without a tool: results start as NaN and are compared with the formula, and
every launch of a kernel is written down with the memory before it (`launch_records`). The tools
then see these launches, each kind once, and neither compilers nor PyTorch. Tests of what surrounds
launches run under the tools themselves.

racecheck takes an arrival at a barrier to order what the arriving lane did, and nothing that was
ordered before it: it sees the kernels where one lane arrives for its warp with all lanes arriving.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as convir_compile
from convir.cli.jobs.bench_problems import module_of, problems_of
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.kernels.cuda.headers import included
from convir.reference import FloatFormat, evaluate
from convir.reference.checking.compare import largest_error
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.session import tolerance_of
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.code import load_kernel
from convir.runtime.cuda.toolchain.compile import compile_cubin

SUPPORT = str(Path(__file__).parent / "support")
sys.path.insert(0, SUPPORT)

import launch_records  # noqa: E402
from gpu import VISIBLE_VARIABLE, visible_gpus  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from convir.dialects.conv.problem import ConvProblem

ROOT = Path(__file__).parents[1]
SUITES = ROOT / "benchmarks" / "suites"
TESTS: dict[str, str] = {
    "test_sm90_implicit_gemm_on_gpu.py": "",
    "test_splits_on_gpu.py": "not every_time",
    "test_every_family.py": "test_results and as-it-is",
    "test_sm90_wgrad_on_gpu.py": "",
    "test_split_on_gpu.py": "computes",
    "test_split_filter_on_gpu.py": "computes",
    "test_multi_tap_wgrad_on_gpu.py": "",
    "test_sm90_row_packed_wgrad_on_gpu.py": "every_weight",
    "test_contractions_on_gpu.py": "(small_integers and channels-last) or epilogues",
    "test_tile_schedule_on_gpu.py": "",
    "test_planar_cuda.py": "",
    "test_reduction.py": "pairwise and not any_rows",
}
"""Tests of kernels, and which of a file's."""
PROGRAMS: dict[str, str] = {
    "test_generated_on_gpu.py": "teams or views",
    "test_device.py": "scatter or loops or gemm",
}
"""Tests of programs, likewise."""
RACECHECK = "racecheck"
TOOLS = ("memcheck", RACECHECK, "initcheck")
ERRORS_FOUND = 9
"""The exit status of a tool that found something."""
LOG_BYTES = 4000
ORDER = "order"
"""The file with the names of launches: shares of it take about the same time."""
LAUNCH = "launch of "
"""What a line begins with that names a launch."""
LAUNCH_SECONDS = 30
"""How long a launch may take under a tool."""
NO_END, STATUS_NO_END = "the launch has not ended", 1
COMPILE = "compile"
"""The word for what is done to launches ahead of racecheck."""
PROBLEMS = "problems"
"""The word for small relatives of the suites' lines."""
PROBLEM_SHARES = 8
"""Processes among which the problems are shared."""
ONLY_VARIABLE = "CONVIR_SANITIZE_ONLY"
"""What `--only` says, for the processes that this one starts."""
TOOL_VARIABLE = "CONVIR_SANITIZE_TOOL"
"""Which tool they run under."""
BARRIERS, ARRIVES = "ptx/mbarrier.cuh", "arrive_for_warp"
"""A header, and what it has for one lane that arrives for its warp."""
EVERY_LANE_ARRIVES = "#define CONVIR_RACECHECK\n"
"""What that header heeds."""

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


def run_problems(share: int) -> int:
    """Run every `PROBLEM_SHARES`-th problem of the list in this process, from one on."""
    launch_records.pytest_sessionstart()
    status = 0
    for problem in test_list()[share::PROBLEM_SHARES]:
        os.environ[launch_records.LABEL_VARIABLE] = str(problem)
        reason = run(problem)
        if reason is not None:
            sys.stdout.write(f"{problem}\n{reason}\n")
            status = 1
    return status


def run_launches(share: int, shares: int, first: int) -> int:
    """Repeat every `shares`-th launch that was written down, from one on, but for the `first` ones.

    One that takes too long ends the process, and counts as wrong.
    """
    toolkit.cupy().cuda.set_allocator(None)
    folder = Path(os.environ[launch_records.FOLDER_VARIABLE])
    for name in (folder / ORDER).read_text().split()[share::shares][first:]:
        launch = as_checked(launch_records.read(folder / name), os.environ[TOOL_VARIABLE])
        # What the tool reports next is of this launch.
        sys.stdout.write(f"{LAUNCH}{launch.label}: {launch.kernel.symbol}\n")
        sys.stdout.flush()
        watchdog = threading.Timer(LAUNCH_SECONDS, give_up)
        watchdog.start()
        launch_records.repeat(launch)
        watchdog.cancel()
    return 0


def as_checked(launch: launch_records.Launch, tool: str) -> launch_records.Launch:
    """A launch as a tool takes it."""
    kernel = launch.kernel
    users = (text for name, text in included(kernel.source) if name != BARRIERS)
    if tool != RACECHECK or not any(ARRIVES in text for text in users):
        return launch
    return replace(launch, kernel=replace(kernel, source=EVERY_LANE_ARRIVES + kernel.source))


def compile_ahead(share: int, shares: int) -> int:
    """Compile every `shares`-th launch, from one on, as racecheck takes it."""
    folder = Path(os.environ[launch_records.FOLDER_VARIABLE])
    for name in (folder / ORDER).read_text().split()[share::shares]:
        launch = as_checked(launch_records.read(folder / name), RACECHECK)
        compile_cubin(launch.kernel.source, toolkit.architecture())
    return 0


def give_up() -> None:
    """End this process, a kernel of which does not end."""
    sys.stdout.write(f"{NO_END} after {LAUNCH_SECONDS} s\n")
    sys.stdout.flush()
    os._exit(STATUS_NO_END)


class EveryArrayAlone:
    """A plugin of pytest: CuPy takes each array's memory from the driver."""

    def pytest_sessionstart(self) -> None:
        """Before the first test."""
        toolkit.cupy().cuda.set_allocator(None)


def run_programs() -> int:
    """Run the tests of programs in this process."""
    return pytest.main(arguments_of(chosen(PROGRAMS)), plugins=[EveryArrayAlone()])


def is_chosen(name: str) -> bool:
    """Whether `--only` has a part of `name`, or says nothing."""
    only = os.environ.get(ONLY_VARIABLE, "")
    return any(part in name for part in only.split(","))


def chosen(tests: Mapping[str, str]) -> dict[str, str]:
    """Those of some tests that `--only` leaves."""
    return {file: some for file, some in tests.items() if is_chosen(file)}


def arguments_of(tests: Mapping[str, str]) -> list[str]:
    """What makes pytest run some tests."""
    which = " or ".join(f"({file} and ({some}))" if some else file for file, some in tests.items())
    files = [
        str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if path.name in tests
    ]
    # A plugin that measures, where there is one, warns of processes side by side.
    plugins = ["-p", "no:cacheprovider", "-p", "no:benchmark"]
    options = ["-m", "gpu", "-q", *plugins, "--rootdir", str(ROOT)]
    return [*files, "-k", which, *options]


def run_broken() -> int:
    """Launch a kernel that does everything the tools are there to find."""
    cupy = toolkit.cupy()
    cupy.cuda.set_allocator(None)
    kernel = load_kernel(BROKEN, "broken")
    kernel((1,), (64,), (cupy.empty(64, np.float32), cupy.empty(64, np.float32)))
    cupy.cuda.Device().synchronize()
    return 0


def reports(output: str) -> str:
    """The beginning of what a tool wrote, without the launches that nothing is said of."""
    lines = output.splitlines(keepends=True)
    said = [
        line
        for line, following in zip(lines, [*lines[1:], LAUNCH], strict=True)
        if not line.startswith(LAUNCH) or not following.startswith(LAUNCH)
    ]
    return "".join(said)[:LOG_BYTES]


def main() -> int:
    """Run everything once and write its launches down, then repeat them under each tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma-separated")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument(
        "--only", default="", help=f"comma-separated: {PROBLEMS}, or parts of names of test files"
    )
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        what, *numbers = options.inside.split()
        return INSIDE[what](*map(int, numbers))
    os.environ[ONLY_VARIABLE] = options.only
    if not any(map(is_chosen, (PROBLEMS, *TESTS, *PROGRAMS))):
        parser.error(f"--only {options.only}: neither {PROBLEMS} nor a file of tests")
    try:
        toolkit.require_gpu(0)
    except toolkit.NoGpuError as error:
        sys.stdout.write(f"nothing was checked: {error}\n")
        return 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        os.environ[launch_records.FOLDER_VARIABLE] = folder
        start = time.perf_counter()
        clean = write_down(pool, options.jobs)
        names = launch_records.longest_first(Path(folder))
        count = len(names)
        Path(folder, ORDER).write_text("\n".join(names))
        sys.stdout.write(f"{count} launches in {time.perf_counter() - start:.0f} s\n")
        sys.stdout.flush()
        tools = options.tools.split(",")
        if RACECHECK in tools:
            names = [f"{COMPILE} {share} {options.jobs}" for share in range(options.jobs)]
            clean = reported("no tool", names, pool.map(again, names)) and clean
        # All at once: a tool keeps a core busy for long, and the GPU for little of that.
        shares = max(1, options.jobs // len(tools) - 1)
        names = [f"launches {share} {shares}" for share in range(min(shares, count))]
        programs = chosen(PROGRAMS)
        names += ["programs"] if programs else []
        broken = {tool: pool.submit(under, tool, "broken") for tool in tools}
        runs = {tool: [pool.submit(to_the_end, tool, name) for name in names] for tool in tools}
        for tool in tools:
            blind = broken[tool].result().returncode != ERRORS_FOUND
            is_clean = reported(tool, names, (run.result() for run in runs[tool]))
            verdict = "clean" if is_clean else "not clean"
            verdict = f"{verdict}, but blind to a broken kernel" if blind else verdict
            what = ", ".join([f"{count} launches", *(f"tests of {file}" for file in programs)])
            seconds = f"{time.perf_counter() - start:.0f} s"
            sys.stdout.write(f"{tool}: {verdict}, {what}, after {seconds}\n")
            sys.stdout.flush()
            clean = clean and is_clean and not blind
    return 0 if clean else 1


def write_down(pool: ThreadPoolExecutor, jobs: int) -> bool:
    """Run the problems and the tests of kernels without a tool; whether all were right."""
    names = [f"{PROBLEMS} {share}" for share in range(PROBLEM_SHARES)]
    names = names if is_chosen(PROBLEMS) else []
    problems = pool.map(again, names)
    tests = chosen(TESTS)
    ran: list[subprocess.CompletedProcess[str]] = []
    if tests:
        workers = str(max(1, jobs - len(names)))
        plugin = ["-p", launch_records.__name__, "-n", workers, "--dist", "worksteal"]
        ran.append(started([sys.executable, "-m", "pytest", *plugin, *arguments_of(tests)]))
        sys.stdout.write(f"{ran[0].stdout.rstrip().splitlines()[-1] if ran[0].stdout else ''}\n")
    are_right = reported("no tool", ["tests"] * len(ran), ran)
    return reported("no tool", names, problems) and are_right


def reported(
    tool: str, names: Sequence[str], runs: Iterable[subprocess.CompletedProcess[str]]
) -> bool:
    """Whether all of some processes were clean; what the others wrote is printed."""
    failed = [(name, run) for name, run in zip(names, runs, strict=True) if run.returncode != 0]
    for name, run in failed:
        sys.stdout.write(f"{tool}, {name}: exit status {run.returncode}\n")
        sys.stdout.write(reports(run.stdout) + run.stderr[-LOG_BYTES:])
    return not failed


_starts = count()


def again(
    inside: str, tool: str = "", command: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """This file again, under a tool's command if one is given, on the GPUs in turn."""
    gpus = visible_gpus() or ["0"]
    environment = {VISIBLE_VARIABLE: gpus[next(_starts) % len(gpus)], TOOL_VARIABLE: tool}
    return started([*command, sys.executable, __file__, "--inside", inside], environment)


def started(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a process gives that finds the modules that tests share."""
    path = os.pathsep.join([SUPPORT, *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=given)


def to_the_end(tool: str, inside: str) -> subprocess.CompletedProcess[str]:
    """`under`, with a new process behind each launch that did not end, or that ended the tool."""
    if not inside.startswith("launches"):
        return under(tool, inside)
    output, errors, status, first = "", "", 0, 0
    while True:
        run = under(tool, f"{inside} {first}")
        output, errors, status = output + run.stdout, errors + run.stderr, status or run.returncode
        begun = sum(line.startswith(LAUNCH) for line in run.stdout.splitlines())
        first += begun
        if not begun or run.returncode in (0, ERRORS_FOUND):
            return subprocess.CompletedProcess(run.args, status, output, errors)


def under(tool: str, inside: str) -> subprocess.CompletedProcess[str]:
    """This file again, under a tool of compute-sanitizer's."""
    options = ["--tool", tool, "--error-exitcode", str(ERRORS_FOUND), "--show-backtrace", "no"]
    if tool == "memcheck":
        # CUDA's Python bindings ask for entry points that a driver may not have.
        options += ["--report-api-errors", "no"]
    return again(inside, tool, ("compute-sanitizer", *options))


INSIDE: dict[str, Callable[..., int]] = {
    PROBLEMS: run_problems,
    COMPILE: compile_ahead,
    "launches": run_launches,
    "programs": run_programs,
    "broken": run_broken,
}
"""What runs in a process of its own, by the first word of `--inside`; numbers follow."""


if __name__ == "__main__":
    sys.exit(main())
