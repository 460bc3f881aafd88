"""The command line of `convir-opt`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import ArgumentParser, UsageError, natural
from convir.cli.arguments.pass_flags import PassFlagParser, PassFlags
from convir.cli.arguments.stages import DEVICES, STAGES, TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOL = "convir-opt"

_DESCRIPTION = "Read a module, run passes over it, print it."


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The options on `argv`.

    Raises:
        UsageError: they are wrong, or ask for a stage or a target that does not exist.
    """
    parser = _parser()
    flags = PassFlags.split(argv, parser)
    options = parser.parse(flags.others)
    _take_pass_flags(flags, options)
    _check_html(options)
    _check_choice("target", "-t", options.target, TARGETS)
    if options.compile_to is not None:
        _check_choice("stage", "--compile-to", options.compile_to, STAGES)
    return options


def _take_pass_flags(flags: PassFlags, options: argparse.Namespace) -> None:
    """Put the passes that stand on the command line as flags where `-p` puts them."""
    given = {"a pipeline": options.passes, "--pipeline": options.pipeline}
    given["--run-reproducer"] = options.run_reproducer or None
    for other, value in given.items():
        if flags.passes and value is not None:
            raise UsageError(f"{flags.first}: passes as flags cannot be combined with {other}")
    if options.run_reproducer and (options.passes is not None or options.pipeline is not None):
        raise UsageError("--run-reproducer runs the pipeline of its file: give no other pipeline")
    if flags.passes:
        options.passes = ",".join(flags.passes)


def _check_html(options: argparse.Namespace) -> None:
    """Refuse what goes with a page, without one, and what a page does not show."""
    if options.html is None:
        if options.inputs or options.census is not None or options.measure:
            raise UsageError("--input, --census and --measure are for --html FILE")
    elif options.split_input_file:
        raise UsageError("--html shows one module: it cannot be combined with --split-input-file")


def _check_choice(kind: str, option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"{option}: there is no {kind} '{value}'; there is {', '.join(known)}")


def _parser() -> ArgumentParser:
    parser = PassFlagParser(TOOL, _DESCRIPTION)
    add = parser.add_argument
    add("file", nargs="?", default="-", metavar="FILE", help="MLIR text; - or nothing: stdin")
    parser.add_output()

    passes = parser.add_argument_group("passes").add_mutually_exclusive_group()
    passes.add_argument(
        "-p", "--passes", dest="passes", metavar="PASSES", help="run passes: a,b{x=1 y=2}"
    )
    passes.add_argument(
        "--pass-pipeline",
        dest="passes",
        metavar="PASSES",
        help="run passes, in MLIR's syntax: builtin.module(a,func.func(b)); the name of a pass is "
        "also a flag, --canonicalize --cse or --PASS='x=1 y=2', run in the order of the flags",
    )
    passes.add_argument("--pipeline", metavar="NAME", help="run a named pipeline")
    passes.add_argument(
        "--run-reproducer",
        action="store_true",
        help="run the pipeline of FILE, which --crash-reproducer wrote",
    )
    _add_stage_options(parser)
    _add_input_options(parser)
    _add_check_options(parser)
    _add_report_options(parser)
    return parser


def _add_stage_options(parser: ArgumentParser) -> None:
    stages = parser.add_argument_group("stages")
    stages.add_argument("--compile-to", metavar="STAGE", help=f"stop after {_or(STAGES)}")
    stages.add_argument(
        "--dump-stages-to",
        metavar="DIR",
        help="write the IR of every stage, up to that of --compile-to or the last",
    )
    stages.add_argument(
        "--device", default="host", choices=DEVICES, help="the device to select kernels for (host)"
    )
    stages.add_argument(
        "--workspace-bytes",
        metavar="N",
        type=int,
        help="limit on the temporaries of a program",
    )
    stages.add_argument(
        "-t", "--target", default="mlir", metavar="TARGET", help=f"print {_or(TARGETS)}"
    )


def _or(names: Sequence[str]) -> str:
    return " or ".join(names)


def _add_input_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("input and verification")
    group.add_argument(
        "--split-input-file",
        action="store_true",
        help="the input is several modules, separated by lines // -----",
    )
    group.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="compare diagnostics with expected-error comments",
    )
    group.add_argument(
        "--allow-unregistered-dialect",
        action="store_true",
        help="accept operations that no dialect defines",
    )
    group.add_argument(
        "--verify-each",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="verify the module after every pass (default)",
    )


def _add_check_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("checks, executed on the NumPy reference")
    group.add_argument(
        "--check-each",
        action="store_true",
        help="execute every function before and after each pass that changes it, and compare",
    )
    group.add_argument(
        "--check-budget",
        metavar="BYTES[,FLOPS]",
        help="limit of one execution (4e9,1e12); a function above the limit is not executed, "
        "with a warning",
    )
    group.add_argument(
        "--check-seed", metavar="N", type=natural, default=0, help="the seed of the inputs (0)"
    )


def _add_report_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("reports, on stderr")
    add = group.add_argument
    add(
        "--remarks",
        nargs="?",
        metavar="FILE.json",
        help="print what each pass rewrote or refused, and why; with FILE.json, write that as JSON",
    )
    add(
        "--html",
        metavar="FILE",
        help="write a page of what each pass did, the kernels and their candidates, and the plan "
        "of memory; without a pipeline, of `default` for --device. FILE of the input may then be "
        "a MIOpenDriver line in quotes, an .onnx or a .nam model",
    )
    add(
        "--input",
        action="append",
        dest="inputs",
        default=[],
        metavar="SHAPE",
        help="with --html, the shape of an input of a model with open sizes, once for each input",
    )
    add(
        "--measure",
        action="store_true",
        help="with --html, compile and run the program on random inputs, and show what each kernel "
        "takes beside what was predicted",
    )
    add(
        "--census",
        metavar="FILE.json",
        help="with --html, what `python -m convir.pytorch --census=FILE.json` wrote",
    )
    add(
        "--timing",
        "--mlir-timing",
        action="store_true",
        help="print the wall time of each phase and pass",
    )
    add(
        "--pass-statistics",
        "--mlir-pass-statistics",
        action="store_true",
        help="print for each pass its runs, the runs that changed the module, and its rewrites",
    )
    add(
        "--dump-pass-pipeline",
        action="store_true",
        help="print the pipeline that runs",
    )
    add(
        "--crash-reproducer",
        "--mlir-pass-pipeline-crash-reproducer",
        metavar="FILE",
        help="if a pass fails, write the input IR and the pipeline, for --run-reproducer",
    )
    add("--debug", action="store_true", help="show the traceback behind an error")
    _add_print_options(parser)
    group = parser.add_argument_group("information on stdout, without reading input")
    add = group.add_argument
    add("--list-passes", action="store_true", help="list passes and pipelines")
    add("--show-dialects", action="store_true", help="list the dialects that can be read")


def _add_print_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("printing")
    add = group.add_argument
    for option, when in (
        ("print-ir-before-all", "before every pass"),
        ("print-ir-after-all", "after every pass"),
        ("print-ir-after-change", "after every pass that changed it"),
    ):
        add(f"--{option}", f"--mlir-{option}", action="store_true", help=f"print the IR {when}")
    for when in ("before", "after"):
        add(
            f"--print-ir-{when}",
            f"--mlir-print-ir-{when}",
            action="extend",
            type=_names,
            default=[],
            metavar="PASS",
            help=f"print the IR {when} the passes of these names, separated by commas",
        )
    add(
        "--print-ir-tree-dir",
        "--mlir-print-ir-tree-dir",
        metavar="DIR",
        help="write what the options above print to files DIR/MODULE/NUMBER_PASS.mlir; the IR "
        "after every pass if none of them is given",
    )
    for option, what in (
        ("print-op-generic", "operations in their generic form"),
        ("print-debuginfo", "the location of every operation"),
    ):
        add(f"--{option}", f"--mlir-{option}", action="store_true", help=f"print {what}")
    add(
        "--elide-constants-if-larger",
        "--mlir-elide-elementsattrs-if-larger",
        type=natural,
        metavar="N",
        help="print constants of more than N elements as dense_resource<__elided__>, without "
        "their values",
    )
    add(
        "--mlir-print-ir-module-scope",
        "--mlir-disable-threading",
        action="store_true",
        help="accepted for compatibility with mlir-opt, without effect",
    )


def _names(text: str) -> list[str]:
    return text.split(",")
