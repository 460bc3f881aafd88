"""`convir-import`: what others speak comes in, IR goes out.

    convir-import 'LINE' ['LINE' …] [-o OUT]     MIOpenDriver lines, a quoted argument each
    convir-import [-o OUT] LINE                  one line without quotes, to the end
    convir-import [-o OUT] --commands-file FILE
    convir-import FILE.onnx [-o OUT] [--input SHAPE]… [--size NAME=N]…
    convir-import FILE.nam --input 1x1x64 [-o OUT] [--model-size S]

Options of the tool stand anywhere around quoted lines, and before a line without quotes, which has
all words to the end. Several lines are several modules between lines `// -----`.
The exit status is 0, 1 after a diagnostic about a file, and 2 where the command line is wrong,
the MIOpenDriver line on it included.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import STREAM, ArgumentParser, UsageError
from convir.cli.files.chunks import SEPARATOR
from convir.cli.files.conv_lines import (
    MODEL_SUFFIXES,
    parse_argument,
    read_commands,
    split_arguments,
)
from convir.cli.files.model_files import import_model_file
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

_DESCRIPTION = (
    "Turn convolution lines of MIOpenDriver, or an .onnx or .nam model, into IR on the standard "
    "output."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool on `argv`, by default the process's own arguments; returns its exit status."""
    return guarded(TOOL, sys.argv[1:] if argv is None else argv, _main)


def _main(argv: Sequence[str]) -> int:
    parser = _parser()
    own, sources = split_arguments(argv, parser)
    options = parser.parse(own)
    if options.sources:
        raise UsageError(f"unexpected argument '{options.sources[0]}'")
    if (options.commands_file is None) == (not sources):
        raise UsageError(
            "expected a line, for example 'convfp16 -n 32 -c 64 …', a model, or --commands-file"
        )
    if any(source.endswith(MODEL_SUFFIXES) for source in sources):
        if len(sources) > 1:
            raise UsageError("a model is imported alone, with neither a line nor another model")
        return import_model_file(TOOL, sources[0], options)
    if options.inputs or options.sizes:
        raise UsageError("--input and --size are for models; a line says all of its sizes")
    if options.output is not None:
        check_writable(options.output)
    if sources:
        return _emit([parse_argument(line) for line in sources], options)
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
        help="the shape of a model input with dynamic sizes, once for each input: 1x3x224x224",
    )
    add(
        "--size",
        action="append",
        dest="sizes",
        default=[],
        metavar="NAME=N",
        help="the size of a named dimension of a model: batch=8",
    )
    parser.add_model_size()
    add("--debug", action="store_true", help="show the traceback behind an error")
    # For the help text only: lines and models are split off before argparse sees them.
    add(
        "sources",
        nargs="*",
        metavar="LINE | MODEL",
        help="'convfp16 -n 32 -c 64 -H 56 -W 56 -k 64 …' in quotes, once for each module; without "
        "quotes after all options; or the path of an .onnx or .nam file",
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
