"""The command line of `convir-opt`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import ArgumentParser, UsageError, natural
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
    options = _parser().parse(argv)
    _check_choice("target", "-t", options.target, TARGETS)
    if options.compile_to is not None:
        _check_choice("stage", "--compile-to", options.compile_to, STAGES)
    return options


def _check_choice(kind: str, option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"{option}: there is no {kind} '{value}'; there is {', '.join(known)}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(TOOL, _DESCRIPTION)
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
        help="the same, as MLIR writes it: builtin.module(a,func.func(b))",
    )
    passes.add_argument("--pipeline", metavar="NAME", help="run a named pipeline")
    _add_stage_options(parser)
    _add_input_options(parser)
    _add_check_options(parser)
    _add_report_options(parser)
    return parser


def _add_stage_options(parser: ArgumentParser) -> None:
    stages = parser.add_argument_group("stages")
    stages.add_argument("--compile-to", metavar="STAGE", help=f"stop after {_or(STAGES)}")
    stages.add_argument("--dump-stages-to", metavar="DIR", help="write the IR of every stage")
    stages.add_argument(
        "--device", default="host", choices=DEVICES, help="whose kernels are selected (host)"
    )
    stages.add_argument(
        "--workspace-bytes",
        metavar="N",
        type=int,
        help="the most that the temporaries of a program may take",
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
        help="the input is several modules between lines // -----",
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
        help="run every function after each pass that changed it, and compare with before",
    )
    group.add_argument(
        "--check-budget",
        metavar="BYTES[,FLOPS]",
        help="warn `not checked` instead where one run takes more (4e9,1e12)",
    )
    group.add_argument(
        "--check-seed", metavar="N", type=natural, default=0, help="the seed of the inputs (0)"
    )


def _add_report_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("reports, on stderr")
    group.add_argument(
        "--remarks", action="store_true", help="what each pass did or refused to do, and why"
    )
    group.add_argument("--timing", action="store_true", help="wall time by phase and pass")
    for option, when in (
        ("--print-ir-before-all", "before every pass"),
        ("--print-ir-after-all", "after every pass"),
        ("--print-ir-after-change", "after every pass that changed it"),
    ):
        group.add_argument(option, action="store_true", help=f"the IR {when}")
    group.add_argument(
        "--print-op-generic", action="store_true", help="print operations in their generic form"
    )
    group.add_argument("--debug", action="store_true", help="show the traceback behind an error")
    group.add_argument(
        "--list-passes", action="store_true", help="list passes and pipelines on stdout, and stop"
    )
