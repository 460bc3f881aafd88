"""`make demo`: every example through the `backward-data` pipeline, costed, explained, executed.

For each file: FLOPs and bytes before and after, which passes fired and why, and how far the
function after is from the function before, both run on the NumPy reference. The batch is cut
where a run would take more than a few seconds or gigabytes, which is then said.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import DiagnosticException

from convir.analysis.cost import Cost, cost_of, peak_bytes
from convir.analysis.refusal import Refusal
from convir.cli.arguments.parser import ArgumentParser
from convir.cli.files.streams import EXIT_FAILURE, EXIT_OK, guarded
from convir.dialects.context import read_module
from convir.dialects.diagnostics import diagnostic_of
from convir.passes import run
from convir.passes.builders.resized_batch import with_batch
from convir.reference.checking.check import Report, check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute

    from convir.passes.manager.remarks import Remark

TOOL = "convir demo"
PIPELINE = "backward-data"
FUNCTION = "main"
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

_MOST_FLOPS = 2e10
"""Of one evaluation: well under a second on two cores."""
_MOST_BYTES = 1 << 28
"""Of one function's tensors: both runs and the comparison stay under 1 GB."""
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


def main(argv: Sequence[str] | None = None) -> int:
    """Show the files of `argv`, by default all examples; the exit status, 1 if one is wrong."""
    return guarded(TOOL, sys.argv[1:] if argv is None else argv, _main)


def _main(argv: Sequence[str]) -> int:
    parser = ArgumentParser(TOOL, "Rewrite convolutions, say why, and check the results.")
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="MLIR text; by default the examples"
    )
    files = parser.parse(argv).files or sorted(EXAMPLES.glob("*.mlir"))
    console = Console(highlight=False)
    if not files:
        console.print(f"there are no examples in {EXAMPLES}", style="red")
        return EXIT_FAILURE
    shown = [_show(path, console) for path in files]
    return EXIT_OK if all(shown) else EXIT_FAILURE


def _show(path: Path, console: Console) -> bool:
    """Show one file; whether the function after agrees with the function before."""
    console.rule(path.name, align="left")
    try:
        before = read_module(path.read_bytes(), path.name)
        result = run(before, PIPELINE)
        console.print(_costs(_function(before), _function(result.module)))
        _print_remarks(result.remarks, console)
        executed = _execute(before)
    except DiagnosticException as error:
        console.print(Text(str(diagnostic_of(error)), style="red"))
        return False
    _print_execution(executed, console)
    return executed.report.passed


def _function(module: ModuleOp) -> FuncOp:
    return next(
        op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == FUNCTION
    )


def _costs(before: FuncOp, after: FuncOp) -> Table:
    """FLOPs and bytes before and after, and how many times less."""
    table = Table()
    for name in ("", "GFLOP", "MB moved"):
        table.add_column(name, justify="right" if name else "left")
    old, new = cost_of(before), cost_of(after)
    table.add_row("before", *_amounts(old))
    table.add_row(f"after {PIPELINE}", *_amounts(new))
    table.add_section()
    table.add_row("times less", _ratio(old.flops, new.flops), _ratio(old.bytes, new.bytes))
    return table


def _amounts(cost: Cost) -> tuple[str, str]:
    return f"{cost.flops / _GIGA:,.1f}", f"{cost.bytes / _MEGA:,.0f}"


def _ratio(old: int, new: int) -> str:
    return f"{old / new:.2f}" if new else "-"


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
    report = check(module, run(module, PIPELINE).module, FUNCTION)
    seconds = time.perf_counter() - start
    return _Executed(report, None if batch == full else batch, full, seconds)


def _leading_size(function: FuncOp) -> int:
    first = function.function_type.inputs.data[0] if function.function_type.inputs.data else None
    if not isinstance(first, TensorType):
        return 1
    shape = cast("TensorType[Attribute]", first).get_shape()
    return shape[0] if shape else 1


def _is_too_large(function: FuncOp) -> bool:
    peak = peak_bytes(function.body.blocks[0])
    return cost_of(function).flops > _MOST_FLOPS or peak > _MOST_BYTES


def _print_execution(executed: _Executed, console: Console) -> None:
    report = executed.report
    at = "as it stands"
    if executed.batch is not None:
        at = f"at batch {executed.batch} instead of {executed.full_batch}, for time and memory"
    style = "green" if report.passed else "red"
    console.print(
        Text(f"  executed {at}, {executed.seconds:.1f} s: {report}", style), soft_wrap=True
    )


if __name__ == "__main__":
    sys.exit(main())
