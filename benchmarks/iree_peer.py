# pyright: reportMissingModuleSource=false
"""Strided backward data beside IREE's llvm-cpu: `python benchmarks/iree_peer.py`.

IREE compiles what `convert-conv-to-linalg` prints, for this processor: as it is, with its own
pipeline for backward data, and after our `backward-data`. It gets its operands on its device; the
filter comes with each call, as it does to ours.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line, strip_comment
from convir.passes import run
from convir.reference import FloatFormat, evaluate
from convir.reference.checking.compare import largest_error
from convir.runtime.bench.ceilings import host_ceilings
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.row import OURS, Row
from convir.runtime.bench.session import tolerance_of
from convir.runtime.bench.timing import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from convir.dialects.conv.problem import ConvProblem

SUITE = Path(__file__).parent / "suites" / "dgrad-host.txt"
LINES = 4
"""The first lines of the suite: 1x1 and 3x3 at stride 2."""

ITS_PIPELINE = "builtin.module(iree-preprocessing-backward-data-conv-pipeline)"
FORMS = {
    "as it is": ("convert-conv-to-linalg", ()),
    "its pipeline": (
        "convert-conv-to-linalg",
        (f"--iree-preprocessing-pass-pipeline={ITS_PIPELINE}",),
    ),
    "our pipeline": ("backward-data", ()),
}
"""What IREE compiles: our passes before it, and its options."""


def main() -> None:
    """Measure every problem and print a table."""
    parser = argparse.ArgumentParser(description="Time strided backward data beside IREE.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds per backend and line")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    bench = HostBench(options.threads)
    driver = _driver(options.threads)
    rows: list[Row] = []
    for problem in _problems():
        of_line = measured(problem, bench, driver, options.budget)
        rows += of_line
        print(problem)
        ours = of_line[0].us
        for row in of_line:
            if row.us is None or ours is None:
                print(f"  {row.backend:7s} {row.config:13s} {row.failure}")
                continue
            ratio = row.us.median / ours.median
            wrong = "" if row.failure is None else f"  {row.failure}"
            print(f"  {row.backend:7s} {row.config:13s} {row.us!s:>30s} µs {ratio:8.2f}{wrong}")
    if options.json is not None:
        options.json.write_text(json.dumps(report(bench, rows), indent=1) + "\n")


def measured(problem: ConvProblem, bench: HostBench, driver: str, budget_s: float) -> list[Row]:
    """Our row, and one of IREE for each form."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in problem.shapes[:2]]
    executable = convir_compile(_module(problem), device="host", threads=bench.threads)
    out = executable.empty(executable.outputs[0])
    calls: dict[str, Callable[[], Any]] = {OURS: lambda: executable(*inputs, out=out)}
    failures: dict[str, str] = {}
    for form in FORMS:
        try:
            calls[form] = _iree_call(problem, form, driver, inputs)
        except RuntimeError as error:
            failures[form] = str(error).splitlines()[0]
    timings = measure(calls, bench.clock, budget_s)
    expected = evaluate(_module(problem), "main", inputs, float_format=FloatFormat.WIDE)[0]
    relative = tolerance_of(problem)
    ceilings = host_ceilings(problem.dtype, bench.threads)
    rows: list[Row] = []
    for name in (OURS, *FORMS):
        error = allowed = None
        failure = failures.get(name)
        if name in timings:
            worst = largest_error(expected, np.asarray(calls[name]()), relative)
            error, allowed = worst.error, worst.allowed
            failure = f"wrong: error {error:.3g}" if error > allowed else None
        rows.append(
            Row(
                suite="iree",
                line=str(problem),
                backend=OURS if name == OURS else "iree",
                layout="as given",
                config="implicit-gemm" if name == OURS else name,
                weights="argument",
                us=timings.get(name),
                flops=problem.flops,
                nbytes=problem.bytes,
                floor_us=ceilings.floor_us(problem.flops, problem.bytes),
                error=error,
                tolerance=allowed,
                failure=failure,
            )
        )
    return rows


def report(bench: HostBench, rows: list[Row]) -> dict[str, Any]:
    """What `--json` writes, as `convir-bench` does."""
    ceilings = host_ceilings("f32", bench.threads)
    environment = {
        **bench.describe(),
        "command": " ".join(["python", "benchmarks/iree_peer.py", *sys.argv[1:]]),
        "python": platform.python_version(),
        "iree": import_module("iree.compiler.version").VERSION,
    }
    return {
        "environment": environment,
        "ceilings": {"f32": {"gflops": ceilings.gflops, "gbytes": ceilings.gbytes}},
        "rows": [row.record() for row in rows],
    }


def _problems() -> Iterator[ConvProblem]:
    lines = [strip_comment(line) for line in SUITE.read_text().splitlines()]
    for line in [line for line in lines if line.strip()][:LINES]:
        yield from parse_line(line).problems.values()


def _module(problem: ConvProblem) -> ModuleOp:
    return ModuleOp([function_of("main", problem)])


def _driver(threads: int) -> str:
    """The driver that runs on `threads` threads."""
    if threads == 1:
        return "local-sync"
    flags = import_module("iree.runtime.flags")
    flags.parse_flags(f"--task_topology_max_group_count={threads}")
    return "local-task"


def _iree_call(
    problem: ConvProblem, form: str, driver: str, inputs: list[Any]
) -> Callable[[], Any]:
    pipeline, options = FORMS[form]
    module = run(_module(problem), pipeline).module
    _sink_init(module)
    compiler: Any = import_module("iree.compiler.tools")
    code = compiler.compile_str(
        str(module),
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", *options],
    )
    runtime: Any = import_module("iree.runtime")
    config = runtime.Config(driver)
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code))
    function = context.modules.module["main"]
    arguments = [runtime.asdevicearray(config.device, array) for array in inputs]
    return lambda: function(*arguments)


def _sink_init(module: ModuleOp) -> None:
    """Put fills behind the scatters: its pass copies them there, after what reads the copies."""
    for fill in [op for op in module.walk() if op.name == "linalg.fill"]:
        readers = {use.operation for use in fill.results[0].uses}
        first = next(op for op in module.walk() if op in readers)
        empty = fill.operands[1].owner
        for op in (empty, fill):
            if isinstance(op, Operation):
                op.detach()
                Rewriter.insert_op(op, InsertPoint.before(first))


if __name__ == "__main__":
    main()
