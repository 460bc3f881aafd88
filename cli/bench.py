"""`convir-bench`: convolution lines in, a table of honest times out.

    convir-bench 'LINE' ['LINE' …] [options]
    convir-bench [options] --commands-file benchmarks/suites/transposed.txt --against torch
    convir-bench --compare OLD.json NEW.json

One row per line and backend on stdout: median [p20–p80] µs, useful GFLOP/s (or TFLOP/s) and GB/s,
share of the roofline, error beside tolerance, and last the geometric mean of each peer's time over
ours. A terminal that is too narrow shows fewer columns; in a pipe there are all. The exit status is
0, 1 if a row of ours failed, and 2 where the command line is wrong. With `--tune`
the configs of our kernels are timed instead, and recorded for later compilations.

On the host, forward and backward data have two rows of ours: the filter is an argument of each
call, or a constant of the program, rearranged once when it is loaded. A peer is compared with the
row of the same kind: PyTorch takes the filter as an argument, onnxruntime has it in the model.

A line with other layouts has a further row of ours, on channels-last operands, as PyTorch and cuDNN
have rows of both; the best of a peer's is compared with the best of ours.

`--compare` measures nothing: it prints, for two files that `--json` wrote, the time of each row
over its time before, the geometric mean for each backend, and which lines one file lacks.
"""

from __future__ import annotations

import sys
from math import inf
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import WHOLE, ArgumentParser, Part, UsageError, natural
from convir.cli.files.conv_lines import parse_argument, read_commands, split_arguments
from convir.cli.files.streams import EXIT_FAILURE, check_writable, guarded
from convir.cli.reports.reporter import Reporter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


TOOL = "convir-bench"

PEERS = {"host": ("torch", "onnxruntime", "plain"), "cuda": ("cudnn", "plain", "library")}
"""What each kind of device can be compared against."""
CLOCKS = {"host": ("host",), "cuda": ("events", "graph", "calls")}
"""What a time may be taken of, by kind of device, the default first."""
LIKELY_CONFIGS = 8
"""Configs of a kernel's preferred template that tuning measures, the best as rules have it."""
BUDGETS = {"host": 1.0, "cuda": 0.05}
"""Seconds of calls for each backend and line."""

COMPARE = "--compare"

_DESCRIPTION = "Time convolutions beside other implementations, in one run, on the same data."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool on `argv`, by default the process's own arguments; returns its exit status."""
    return guarded(TOOL, sys.argv[1:] if argv is None else argv, _main)


def _main(argv: Sequence[str]) -> int:
    parser = _parser()
    if COMPARE in argv:
        return _compare(parser.parse(argv))
    own, lines = split_arguments(argv, parser)
    options = parser.parse(own)
    if options.lines:
        raise UsageError(f"unexpected argument '{options.lines[0]}'")
    if bool(options.commands_files) == bool(lines):
        raise UsageError("expected a line, for example 'conv -n 4 -c 64 …', or --commands-file")
    _check(options)
    suites = [("command line", [parse_argument(line) for line in lines])] if lines else []
    for path in options.commands_files:
        reporter = Reporter(path)
        suites.append((path, read_commands(path, reporter)))
        if reporter.errors:
            return EXIT_FAILURE
    # NumPy takes a while to import.
    if options.tune:
        from convir.cli.jobs.bench_tune import tune_suites  # noqa: PLC0415

        return tune_suites(suites, options)
    from convir.cli.jobs.bench_job import run_suites  # noqa: PLC0415

    return run_suites(suites, options)


def _compare(options: argparse.Namespace) -> int:
    from convir.cli.jobs.bench_compare import print_comparison, read_report  # noqa: PLC0415  (as above)

    if options.lines or options.commands_files or options.tune:
        raise UsageError(f"{COMPARE} only reads files: it takes no lines and no --tune")
    return print_comparison(*map(read_report, options.compare))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(TOOL, _DESCRIPTION)
    add = parser.add_argument
    add(
        "--commands-file",
        dest="commands_files",
        action="append",
        default=[],
        metavar="FILE",
        help="a suite: one line each, # comments; may be repeated",
    )
    add("--device", default="host", metavar="DEVICE", help="host (default) or cpu, cuda, cuda:1")
    add(
        "--against",
        default="",
        metavar="PEERS",
        help="comma-separated: torch and onnxruntime on the host; cudnn on a GPU; plain, convir "
        "without rewrites, on both; library, convir with cuBLAS for every contraction, on a GPU. "
        "onnxruntime has the filter as a constant of its model and is compared with convir's row "
        "of constant weights; the other peers get the filter with each call",
    )
    add(
        "--clock",
        metavar="CLOCK",
        help="on a GPU, what is timed; events (default): one call, between events; graph: the "
        "replay of a CUDA graph of one call, as in tuning; calls: the replay of a graph of many "
        "calls, per call",
    )
    add("--threads", type=int, default=1, metavar="N", help="threads on the host (1)")
    add(
        "--allow-tf32",
        action="store_true",
        help="on a GPU, multiply f32 as TF32, in convir and in the peers",
    )
    add("--seed", type=natural, default=0, metavar="N", help="the seed of the data (0)")
    add(
        "--budget",
        type=float,
        metavar="S",
        help="seconds of calls per backend and line (1 on the host, 0.05 on a GPU)",
    )
    add("--repeats", type=int, metavar="N", help="time N calls of each, instead of --budget")
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="compile a GPU's kernels with N processes before anything is timed (1)",
    )
    add(
        "--tune",
        action="store_true",
        help="measure the configs of every kernel without a tuning record, and record the times",
    )
    add(
        "--configs",
        type=int,
        metavar="N",
        help="with --tune, how many configs to measure of the family with the least predicted time "
        f"({LIKELY_CONFIGS}); a quarter as many of every other family",
    )
    add(
        "--part",
        type=Part.parse,
        metavar="I/N",
        help="with --tune, only part I of N: for N processes, each with its own GPU",
    )
    add(
        "--stale",
        action="store_true",
        help="with --tune, measure again where the code of a kernel has changed",
    )
    add(
        "--records",
        metavar="FILE",
        help="with --tune, the file for records; by default the one that compilation reads",
    )
    add("--csv", metavar="FILE", help="write the rows as CSV")
    add("--json", metavar="FILE", help="write environment, ceilings and rows as JSON")
    add("--html", metavar="FILE", help="write one page with a roofline and bars against the peers")
    add(
        COMPARE,
        nargs=2,
        metavar=("OLD.json", "NEW.json"),
        help="compare two files that --json wrote, row by row",
    )
    add("--debug", action="store_true", help="show the traceback behind an error")
    # For the help text only: lines are split off before argparse sees them.
    add("lines", nargs="*", metavar="LINE", help="'conv -n 4 -c 64 -H 56 -W 56 -k 64 …', in quotes")
    return parser


def _outputs(options: argparse.Namespace) -> list[str | None]:
    return [options.csv, options.json, options.html]


def _check(options: argparse.Namespace) -> None:
    if options.device == "cpu":  # what PyTorch and ONNX call the host
        options.device = "host"
    kind, colon, index = options.device.partition(":")
    if kind not in PEERS or (colon and not (kind == "cuda" and index.isdecimal())):
        known = "host, cpu, cuda, cuda:INDEX"
        raise UsageError(f"--device: there is no device '{options.device}'; there is {known}")
    options.peers = [name for name in options.against.split(",") if name]
    for name in options.peers:
        if name not in PEERS[kind]:
            known = ", ".join(PEERS[kind])
            raise UsageError(f"--against: {kind} has no peer '{name}'; there is {known}")
    if options.clock is None:
        options.clock = "graph" if options.tune and kind == "cuda" else CLOCKS[kind][0]
    if options.clock not in CLOCKS[kind]:
        known = ", ".join(CLOCKS[kind])
        raise UsageError(f"--clock: {kind} has no clock '{options.clock}'; there is {known}")
    if options.budget is None:
        options.budget = BUDGETS[kind]
    if options.threads < 1 or options.jobs < 1 or not 0 < options.budget < inf:
        raise UsageError("--threads and --jobs are at least 1, --budget more than 0")
    if options.repeats is not None and options.repeats < 1:
        raise UsageError("--repeats is at least 1")
    if options.allow_tf32 and kind == "host":
        raise UsageError("--allow-tf32 is for a GPU: the host multiplies f32")
    tuning = (options.stale or None, options.records, options.configs, options.part)
    if not options.tune and any(option is not None for option in tuning):
        raise UsageError("--stale, --records, --configs and --part belong to --tune")
    if options.configs is None:
        options.configs = LIKELY_CONFIGS
    if options.configs < 1:
        raise UsageError("--configs is at least 1")
    if options.part is None:
        options.part = WHOLE
    if options.tune and (options.peers or any(_outputs(options))):
        raise UsageError("--tune cannot be combined with --against, --csv, --json and --html")
    for path in _outputs(options):
        if path is not None:
            check_writable(path)


if __name__ == "__main__":
    sys.exit(main())
