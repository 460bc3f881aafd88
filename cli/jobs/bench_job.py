"""The work of `convir-bench`: suites through backends, a table, and files."""

from __future__ import annotations

import csv
import io
import json
import platform
import sys
from collections import deque
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, track
from rich.text import Text
from xdsl.utils.exceptions import PassFailedException

from convir.api.compile import compile as convir_compile
from convir.cli.arguments.parser import UsageError
from convir.cli.files.bench_lines import named_problems
from convir.cli.files.streams import EXIT_FAILURE, EXIT_OK, write_output
from convir.cli.jobs.bench_problems import module_of, pipeline_of, precompile
from convir.cli.reports.bench_html import page_of
from convir.cli.reports.bench_table import table_of
from convir.lowering.implementations import CUDA, GEMM
from convir.reference import FloatFormat, evaluate
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.machine_load import LoadMeter, warning_of
from convir.runtime.bench.row import LIBRARY, OURS, RateUnit
from convir.runtime.bench.session import Effort, Task, geomean, run_task, speedups
from convir.runtime.cuda.toolkit import NoGpuError
from convir.runtime.devices import HOST

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.frontends.miopen import ConvLine
    from convir.runtime.bench.device import BenchDevice
    from convir.runtime.bench.row import Row
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array

SAVE_EVERY_S = 5.0
"""How often `--json` is written during a run: one that is cut off leaves what it measured."""
_PACKAGES = ("convir", "xdsl", "torch", "onnxruntime", "cupy-cuda13x")


def run_suites(
    suites: Sequence[tuple[str, Sequence[ConvLine]]], options: argparse.Namespace
) -> int:
    """Measure everything, print the table, write the files; returns the exit status."""
    device = bench_device(options)
    effort = Effort(options.seed, options.budget, options.repeats)
    problems = [problem for _, lines in suites for _, problem in named_problems(lines)]
    console, errors = Console(), Console(stderr=True)
    hidden = not errors.is_terminal
    if options.jobs > 1 and device.name != HOST:
        measured = [each for one in problems for each in (one, *device.rearranged(one))]
        ahead = precompile(measured, device.name, options.jobs, allow_tf32=options.allow_tf32)
        shown = track(
            ahead, "compiling", len(measured), console=errors, transient=True, disable=hidden
        )
        deque(shown, 0)
    rows: list[Row] = []
    dtypes = list(dict.fromkeys(problem.dtype for problem in problems))
    meter, saved = LoadMeter(), monotonic()
    # What is no file (a pipe) takes a report once.
    kept = None if options.json is None or _is_special(options.json) else options.json
    with Progress(console=errors, transient=True, disable=hidden) as progress:
        bar = progress.add_task("measuring", total=len(problems))

        def told(text: str) -> None:
            progress.update(bar, description=text[:60])

        for task in _tasks(suites, options, told):
            told(task.line)
            rows += run_task(task, device, options.peers, effort)
            progress.advance(bar)
            if kept is not None and monotonic() > saved + SAVE_EVERY_S:
                _save(kept, _report(device, rows, dtypes, meter.record()))
                saved = monotonic()
    load = meter.record()
    for suite, _ in suites:
        _print_suite(console, suite, [r for r in rows if r.suite == suite], options.peers)
    warning = warning_of(load)
    if warning is not None:
        errors.print(Text(f"convir-bench: warning: {warning}", "yellow"), soft_wrap=True)
    report = _report(device, rows, dtypes, load)
    if options.json is not None:
        _save(options.json, report)
    if options.html is not None:
        write_output(options.html, page_of(report))
    if options.csv is not None:
        write_output(options.csv, _csv(rows))
    failed = [row for row in rows if row.backend == OURS and row.failure is not None]
    return EXIT_FAILURE if failed else EXIT_OK


def bench_device(options: argparse.Namespace) -> BenchDevice:
    """The device that the command line names.

    Raises:
        UsageError: it cannot be used.
    """
    if options.device == HOST:
        return HostBench(options.threads)
    from convir.runtime.bench.cuda import CudaBench  # noqa: PLC0415  (needs a GPU)

    try:
        index = int(options.device.partition(":")[2] or 0)
        return CudaBench(index, options.clock, allow_tf32=options.allow_tf32)
    except NoGpuError as error:
        raise UsageError(f"--device {options.device}: {error}") from error
    except ImportError as error:
        raise UsageError(
            f"--device {options.device}: results are checked by PyTorch ({error}): "
            "pip install torch"
        ) from error


def _tasks(
    suites: Sequence[tuple[str, Sequence[ConvLine]]],
    options: argparse.Namespace,
    told: Callable[[str], None],
) -> Iterator[Task]:
    for suite, lines in suites:
        for line, problem in named_problems(lines):
            yield _task(suite, line, problem, options, told)


def _task(
    suite: str,
    line: str,
    problem: ConvProblem,
    options: argparse.Namespace,
    told: Callable[[str], None],
) -> Task:
    def compiled(backend: str, arranged: ConvProblem, weights: Array | None) -> Executable:
        executable = convir_compile(
            module_of(arranged, weights),
            pipeline=pipeline_of(backend, allow_tf32=options.allow_tf32),
            device=options.device,
            threads=options.threads,
            progress=lambda step: told(f"compiling: {step}"),
        )
        told(line)
        if backend == LIBRARY and GEMM not in executable.program.summary(CUDA):
            raise PassFailedException("no contraction of it is one matrix product")
        return executable

    def formula(inputs: Sequence[Array]) -> Array:
        return evaluate(module_of(problem), "main", inputs, float_format=FloatFormat.WIDE)[0]

    return Task(suite, line, problem, formula, compiled, allow_tf32=options.allow_tf32)


def _print_suite(console: Console, suite: str, rows: Sequence[Row], peers: Sequence[str]) -> None:
    unit = RateUnit.of(row.gflops for row in rows if row.gflops is not None)
    width = console.width if console.is_terminal else None
    _print(console, Text(suite, "bold"))
    for line in dict.fromkeys(row.line for row in rows):
        on_line = [row for row in rows if row.line == line]
        _print(console, Text(f"\n{line}", "italic"))
        head, *texts = table_of(on_line, unit, width)
        _print(console, Text(head, "bold"))
        for row, text in zip(on_line, texts, strict=True):
            _print(console, Text(text, "red" if row.failure is not None else ""))
    _print(console, Text())
    for peer in peers:
        ratios = speedups(rows, peer)
        mean = geomean(ratios)
        if mean is not None:
            means = f"geomean of {peer}'s time over ours, best layouts: {mean:.2f}"
            _print(console, Text(f"{means}, least {min(ratios):.2f} (1.0 = as fast)"))


def _print(console: Console, text: Text) -> None:
    """A line in full, which the terminal may wrap."""
    console.print(text, soft_wrap=True)


def _is_special(path: str) -> bool:
    return Path(path).exists() and not Path(path).is_file()


def _save(path: str, report: dict[str, Any]) -> None:
    write_output(path, json.dumps(report, indent=1) + "\n")


def _report(
    device: BenchDevice, rows: Sequence[Row], dtypes: Sequence[str], load: dict[str, Any] | None
) -> dict[str, Any]:
    ceilings = {
        dtype: {"gflops": c.gflops, "gbytes": c.gbytes}
        for dtype in dtypes
        for c in [device.ceilings(dtype)]
    }
    return {
        "environment": {
            **device.describe(),
            "load": load,
            "command": " ".join([sys.argv[0].rpartition("/")[2], *sys.argv[1:]]),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "packages": {name: _version(name) for name in _PACKAGES},
        },
        "ceilings": ceilings,
        "rows": [row.record() for row in rows],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    flat = [row.record() for row in rows]
    for record in flat:
        times: dict[str, float] = record.pop("us") or {}
        record |= {f"us_{name}": times.get(name) for name in ("median", "p20", "p80")}
    writer = csv.DictWriter(text, list(flat[0]) if flat else ["line"])
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()
