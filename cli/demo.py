"""`make demo`: every example through the `backward-data` pipeline, costed, explained, executed.

For each file: FLOPs, bytes and the time on this CPU before and after, which passes fired and why,
and how far the function after is from the function before, both run on the NumPy reference. The
batch is cut where a run would take more than a few seconds or gigabytes, which is then said. Last
comes a picture of all that, an SVG file.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.tensor import InsertSliceOp
from xdsl.utils.exceptions import DiagnosticException

from convir.analysis.cost import cost_of, peak_bytes
from convir.analysis.refusal import Refusal
from convir.api.compile import compile as convir_compile
from convir.cli.arguments.parser import ArgumentParser
from convir.cli.files.streams import EXIT_FAILURE, EXIT_OK, check_writable, guarded, write_output
from convir.cli.reports.demo_picture import Measure, Panel, Scatter, picture_of
from convir.dialects.context import read_module
from convir.dialects.diagnostics import diagnostic_of
from convir.passes import run
from convir.passes.builders.resized_batch import with_batch
from convir.reference.checking.check import Report, check
from convir.runtime.bench.timing import measure
from convir.runtime.devices import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute

    from convir.passes.manager.remarks import Remark

TOOL = "convir demo"
PIPELINE = "backward-data"
FUNCTION = "main"
PICTURE = "convir-demo.svg"
"""Where the picture goes, in the working directory."""
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

_MOST_FLOPS = 2e10
"""Of one evaluation: well under a second on two cores."""
_MOST_BYTES = 1 << 28
"""Of one function's tensors: both runs and the comparison stay under 1 GB."""
_BUDGET_S = 0.2
"""Seconds of calls of each compiled function, of which there are five at least."""
_GIGA = 1e9
_MEGA = 1e6


@dataclass(frozen=True)
class _Executed:
    """A check, and the batch it was done at."""

    report: Report
    batch: int | None
    """None if the function was run as it stands."""
    full_batch: int
    seconds: float
    ms: tuple[float, float] | None = None
    """Milliseconds of a call before and after, compiled for this CPU."""


def main(argv: Sequence[str] | None = None) -> int:
    """Show the files of `argv`, by default all examples; the exit status, 1 if one is wrong."""
    return guarded(TOOL, sys.argv[1:] if argv is None else argv, _main)


def _main(argv: Sequence[str]) -> int:
    options = _parser().parse(argv)
    files = [Path(name) for name in options.files] or sorted(EXAMPLES.glob("*.mlir"))
    console = Console(highlight=False)
    if not files:
        console.print(f"there are no examples in {EXAMPLES}", style="red")
        return EXIT_FAILURE
    check_writable(options.picture)
    shown = [_show(path, console) for path in files]
    panels = [panel for _, panel in shown if panel is not None]
    write_output(options.picture, picture_of(panels))
    console.print(f"\nthe same as a picture: {options.picture}", soft_wrap=True)
    return EXIT_OK if all(right for right, _ in shown) else EXIT_FAILURE


def _parser() -> ArgumentParser:
    parser = ArgumentParser(TOOL, "Show what the passes do to the example convolutions.")
    parser.add_argument("files", nargs="*", metavar="FILE", help="MLIR files with a @main")
    parser.add_argument(
        "-o", dest="picture", default=PICTURE, metavar="SVG", help=f"the picture ({PICTURE})"
    )
    return parser


def _show(path: Path, console: Console) -> tuple[bool, Panel | None]:
    """Show one file; whether the function after agrees with the function before, and the file's
    part of the picture."""
    console.rule(path.name, align="left")
    try:
        before = read_module(path.read_bytes(), path.name)
        result = run(before, PIPELINE)
        executed = _execute(before)
    except DiagnosticException as error:
        console.print(Text(str(diagnostic_of(error)), style="red"))
        return False, None
    measures = _measures(_function(before), _function(result.module), executed)
    console.print(_costs(measures))
    _print_remarks(result.remarks, console)
    said = _said(executed)
    style = "green" if executed.report.passed else "red"
    console.print(Text(f"  {said}", style), soft_wrap=True)
    panel = Panel(path.name, measures, _scatter(_function(before)), f"checked: {executed.report}")
    return executed.report.passed, panel


def _measures(before: FuncOp, after: FuncOp, executed: _Executed) -> list[Measure]:
    old, new = cost_of(before), cost_of(after)
    measures = [
        Measure("GFLOP", old.flops / _GIGA, new.flops / _GIGA, ",.1f", ("fewer", "more")),
        Measure("MB moved", old.bytes / _MEGA, new.bytes / _MEGA, ",.0f", ("fewer", "more")),
    ]
    if executed.ms is not None:
        batch = executed.full_batch if executed.batch is None else executed.batch
        name = f"ms on this CPU, batch {batch}"
        measures.append(Measure(name, *executed.ms, ",.1f", ("faster", "slower")))
    return measures


def _scatter(function: FuncOp) -> Scatter | None:
    """The first scatter of the function, along its first two dimensions with a stride."""
    for op in function.walk():
        if not isinstance(op, InsertSliceOp):
            continue
        strides, offsets = op.static_strides.get_values(), op.static_offsets.get_values()
        pairs = [
            (stride, offset)
            for stride, offset in zip(strides, offsets, strict=True)
            if stride > 1 and offset >= 0
        ]
        if len(pairs) > 1:
            (first, row), (second, column) = pairs[:2]
            return Scatter((first, second), (row, column))
    return None


def _function(module: ModuleOp) -> FuncOp:
    return next(
        op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == FUNCTION
    )


def _costs(measures: Sequence[Measure]) -> Table:
    """Every measure before and after, and what changed in words."""
    table = Table()
    table.add_column("")
    for each in measures:
        table.add_column(each.name, justify="right")
    table.add_row("before", *(f"{each.before:{each.form}}" for each in measures))
    table.add_row(f"after {PIPELINE}", *(f"{each.after:{each.form}}" for each in measures))
    table.add_section()
    table.add_row("", *(each.change for each in measures))
    return table


def _print_remarks(remarks: Sequence[Remark], console: Console) -> None:
    """Print what fired, once each."""
    fired = dict.fromkeys(f"{r.pass_name}: {r.op}: {r.reason}" for r in remarks if r.fired)
    for line in fired:
        console.print(Text(f"  {line}"), soft_wrap=True)
    if not fired:
        console.print("  no pass fired")


def _execute(before: ModuleOp) -> _Executed:
    """Check the pipeline on `before`, at the largest batch that is quick."""
    full = _leading_size(_function(before))
    batch, module = full, before
    while batch > 1 and _is_too_large(_function(module)):
        batch = -(-batch // 2)
        smaller = with_batch(before, FUNCTION, batch)
        if isinstance(smaller, Refusal):
            report = Report(False, False, reason=f"it is too large, and {smaller}")
            return _Executed(report, None, full, 0.0)
        module = smaller
    start = time.perf_counter()
    after = run(module, PIPELINE).module
    report = check(module, after, FUNCTION)
    seconds = time.perf_counter() - start
    ms = (_compiled_ms(module), _compiled_ms(after)) if report.passed else None
    return _Executed(report, None if batch == full else batch, full, seconds, ms)


def _compiled_ms(module: ModuleOp) -> float:
    """Milliseconds of a call of the function, compiled for this CPU without further rewrites."""
    executable = convir_compile(module, pipeline="", device=HOST, function=FUNCTION)
    arguments = [np.zeros(spec.shape, spec.dtype) for spec in executable.inputs]
    timings = measure({FUNCTION: lambda: executable(*arguments)}, budget_s=_BUDGET_S)
    return timings[FUNCTION].median / 1e3


def _leading_size(function: FuncOp) -> int:
    first = function.function_type.inputs.data[0] if function.function_type.inputs.data else None
    if not isinstance(first, TensorType):
        return 1
    shape = cast("TensorType[Attribute]", first).get_shape()
    return shape[0] if shape else 1


def _is_too_large(function: FuncOp) -> bool:
    peak = peak_bytes(function.body.blocks[0])
    return cost_of(function).flops > _MOST_FLOPS or peak > _MOST_BYTES


def _said(executed: _Executed) -> str:
    """How the check went."""
    at = "as it stands"
    if executed.batch is not None:
        at = f"at batch {executed.batch} instead of {executed.full_batch}, for time and memory"
    return f"executed {at}, {executed.seconds:.1f} s: {executed.report}"


if __name__ == "__main__":
    sys.exit(main())
