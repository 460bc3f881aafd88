"""The work of `convir-bench`: suites through backends, a table, and files."""

from __future__ import annotations

import csv
import io
import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.cli.bench import lines_of
from convir.cli.streams import EXIT_FAILURE, EXIT_OK, write_output
from convir.frontends.conv_module import function_of
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.row import OURS
from convir.runtime.bench.session import Task, geomean, run_task, speedups
from convir.runtime.reference import FloatFormat, evaluate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from convir.dialects.problem import ConvProblem
    from convir.frontends.miopen import ConvLine
    from convir.runtime.bench.device import BenchDevice
    from convir.runtime.bench.row import Row
    from convir.runtime.program import Array

_TEXT_COLUMNS = ("backend", "layout", "config")
_COLUMNS = (
    *_TEXT_COLUMNS,
    "µs [p20–p80]",
    "TFLOP/s",
    "GB/s",
    "roof",
    "/ ours",
    "error/allowed",
)
_PACKAGES = ("convir", "xdsl", "torch", "onnxruntime", "cupy-cuda13x")


def run_suites(
    suites: Sequence[tuple[str, Sequence[ConvLine]]], options: argparse.Namespace
) -> int:
    """Measure everything, print the table, write the files; returns the exit status."""
    device = _device(options)
    console, errors = Console(), Console(stderr=True)
    rows: list[Row] = []
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        bar = progress.add_task("measuring", total=lines_of(suites))
        for task in _tasks(suites, options):
            progress.update(bar, description=task.line[:60])
            rows += run_task(
                task, device, options.peers, seed=options.seed, budget_s=options.budget
            )
            progress.advance(bar)
    for suite, _ in suites:
        _print_suite(console, suite, [r for r in rows if r.suite == suite], options.peers)
    if options.json is not None:
        write_output(options.json, json.dumps(_report(device, rows, options), indent=1) + "\n")
    if options.csv is not None:
        write_output(options.csv, _csv(rows))
    failed = [row for row in rows if row.backend == OURS and row.failure is not None]
    return EXIT_FAILURE if failed else EXIT_OK


def _device(options: argparse.Namespace) -> BenchDevice:
    if options.device == "host":
        return HostBench(options.threads)
    from convir.runtime.bench.cuda import CudaBench  # noqa: PLC0415  (needs a GPU)

    return CudaBench(int(options.device.partition(":")[2] or 0))


def _tasks(
    suites: Sequence[tuple[str, Sequence[ConvLine]]], options: argparse.Namespace
) -> Iterator[Task]:
    for suite, lines in suites:
        for line in lines:
            for problem in line.problems.values():
                yield _task(suite, problem, options)


def _task(suite: str, problem: ConvProblem, options: argparse.Namespace) -> Task:
    module = ModuleOp([function_of("main", problem)])

    def expected(inputs: Sequence[Array]) -> Array:
        return evaluate(module, "main", inputs, float_format=FloatFormat.WIDE)[0]

    return Task(
        suite=suite,
        line=str(problem),
        problem=problem,
        compile=lambda: convir_compile(module, device=options.device, threads=options.threads),
        expected=expected,
    )


def _print_suite(console: Console, suite: str, rows: Sequence[Row], peers: Sequence[str]) -> None:
    console.rule(suite, align="left")
    for line in dict.fromkeys(row.line for row in rows):
        _print_line(console, line, [row for row in rows if row.line == line])
    for peer in peers:
        mean = geomean(speedups(rows, peer))
        if mean is not None:
            console.print(f"geomean over {peer}'s best layout: {mean:.2f}")


def _print_line(console: Console, line: str, rows: Sequence[Row]) -> None:
    table = Table(title=line, title_justify="left", show_edge=False, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in _TEXT_COLUMNS else "right")
    ours = next((row.us for row in rows if row.backend == OURS), None)
    for row in rows:
        ratio = row.us.median / ours.median if row.us is not None and ours is not None else None
        table.add_row(
            row.backend,
            row.layout,
            row.config,
            str(row.us) if row.us is not None else row.failure,
            _number(row.tflops, ".3f"),
            _number(row.gbytes, ".1f"),
            _number(row.roofline, ".0%"),
            _number(ratio, ".2f"),
            _errors(row),
        )
    console.print(table)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _errors(row: Row) -> str:
    if row.error is None or row.tolerance is None:
        return ""
    return f"{row.error:.1g}/{row.tolerance:.1g}{' WRONG' if row.failure else ''}"


def _report(
    device: BenchDevice, rows: Sequence[Row], options: argparse.Namespace
) -> dict[str, Any]:
    ceilings = {
        dtype: {"gflops": c.gflops, "gbytes": c.gbytes}
        for dtype in ("f16", "bf16", "f32", "f64")
        for c in [device.ceilings(dtype)]
    }
    return {
        "environment": {
            **device.describe(),
            "command": " ".join([sys.argv[0].rpartition("/")[2], *sys.argv[1:]]),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "packages": {
                name: _version(name)
                for name in ("convir", "xdsl", "torch", "onnxruntime", "cupy-cuda13x")
            },
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
