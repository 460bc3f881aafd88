"""`convir-import`: what others speak comes in, IR goes out.

    convir-import [-o OUT] LINE          one MIOpenDriver line, quoted or as separate words
    convir-import [-o OUT] --commands-file FILE
    convir-import [-o OUT] [--input SHAPE]… [--size NAME=N]… FILE.onnx
    convir-import [-o OUT] --input 1x1x64 [--model-size S] FILE.nam

Options of the tool come before the line; whatever follows the line's first word belongs to it.
The exit status is 0, 1 after a diagnostic about a file, and 2 where the command line is wrong,
the MIOpenDriver line on it included.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import STREAM, ArgumentParser, UsageError
from convir.cli.files.chunks import SEPARATOR
from convir.cli.files.conv_lines import parse_argument, read_commands, split_arguments
from convir.cli.files.model_files import MODEL_SUFFIXES, import_model_file
from convir.cli.files.streams import (
    EXIT_FAILURE,
    EXIT_OK,
    STDIN_NAME,
    check_writable,
    guarded,
    write_output,
    write_stdout,
)
from convir.cli.reports.reporter import Reporter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from convir.frontends.miopen import ConvLine

TOOL = "convir-import"

_VALUED = ("-o", "--commands-file", "--input", "--size", "--model-size")
"""The options that take a value."""

_DESCRIPTION = (
    "Turn convolution lines of MIOpenDriver, or an .onnx or .nam model, into IR on the standard "
    "output."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool on `argv`, by default the process's own arguments; returns its exit status."""
    return guarded(TOOL, sys.argv[1:] if argv is None else argv, _main)


def _main(argv: Sequence[str]) -> int:
    own, words = split_arguments(argv, _VALUED)
    if words and words[0].endswith(MODEL_SUFFIXES):
        options = _parser().parse([*own, *words[1:]])
        return import_model_file(TOOL, words[0], options)
    options = _parser().parse(own)
    if (options.commands_file is None) == (not words):
        raise UsageError(
            "expected a line, for example 'convfp16 -n 32 -c 64 …', a model, or --commands-file"
        )
    if options.inputs or options.sizes:
        raise UsageError("--input and --size are for models; a line says all of its sizes")
    if options.output is not None:
        check_writable(options.output)
    if words:
        return _emit([parse_argument(" ".join(words))], options)
    reporter = Reporter(STDIN_NAME if options.commands_file == STREAM else options.commands_file)
    lines = read_commands(options.commands_file, reporter)
    return EXIT_FAILURE if reporter.errors else _emit(lines, options)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(TOOL, _DESCRIPTION)
    add = parser.add_argument
    parser.add_output()
    add(
        "--commands-file",
        metavar="FILE",
        help=f"one line each, # comments; the modules are separated by lines {SEPARATOR}",
    )
    add(
        "--input",
        action="append",
        dest="inputs",
        default=[],
        metavar="SHAPE",
        help="the shape of a model's input, in order, where it leaves sizes open: 1x3x224x224",
    )
    add(
        "--size",
        action="append",
        dest="sizes",
        default=[],
        metavar="NAME=N",
        help="the size of a dimension that a model gives a name: batch=8",
    )
    parser.add_model_size()
    add("--debug", action="store_true", help="show the traceback of a defect of convir")
    # For the help text only: the line's words are split off before argparse sees them.
    add(
        "line",
        nargs="*",
        metavar="LINE",
        help="convfp16 -n 32 -c 64 -H 56 -W 56 -k 64 …, or the path of an .onnx or .nam file",
    )
    return parser


def _emit(lines: Sequence[ConvLine], options: argparse.Namespace) -> int:
    from convir.frontends.conv_module import module_of_line  # noqa: PLC0415  (slow to import)

    modules = [str(module_of_line(line)) for line in lines] or ["builtin.module {\n}"]
    text = f"\n{SEPARATOR}\n".join(modules) + "\n"
    if options.output is None:
        write_stdout(text)
    else:
        write_output(options.output, text)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
