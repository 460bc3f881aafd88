"""`python -m convir.prebuild`: convolutions and models in, their kernels into the user's cache.

    python -m convir.prebuild --records
    python -m convir.prebuild --commands-file suite.txt --target NAME --jobs 16
    python -m convir.prebuild 'LINE' MODEL.onnx
    python -m convir.prebuild --check --commands-file suite.txt

No GPU is needed. What is common is what the lists say: `--records` takes the problems of the tuning
records that are shipped for the GPU, `--commands-file` a file of MIOpenDriver lines. `--check`
compiles nothing, and says how many of the programs the cache has all kernels of: those open without
NVRTC. What cannot be compiled is reported, and the rest goes on; the exit status is then 1.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import ArgumentParser, UsageError, natural
from convir.cli.files.conv_lines import parse_argument, read_commands, split_arguments
from convir.cli.files.streams import EXIT_FAILURE, guarded
from convir.cli.reports.reporter import Reporter

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOL = "convir.prebuild"

_DESCRIPTION = "Compile the kernels of a GPU ahead, into the user's own cache."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool on `argv`, by default the process's own arguments; returns its exit status."""
    return guarded(TOOL, sys.argv[1:] if argv is None else argv, _main)


def _main(argv: Sequence[str]) -> int:
    parser = _parser()
    own, given = split_arguments(argv, parser)
    options = parser.parse(own)
    if not (given or options.commands_files or options.records):
        raise UsageError("expected a line, a model, --commands-file or --records")
    # Imported where they are needed: NumPy and xDSL take a while.
    from convir.cli.files.bench_lines import named_problems  # noqa: PLC0415
    from convir.cli.files.conv_lines import MODEL_SUFFIXES  # noqa: PLC0415
    from convir.cli.jobs import prebuild_job  # noqa: PLC0415

    gpu = prebuild_job.gpu_of(options.target)
    sources = [each for each in given if each.endswith(MODEL_SUFFIXES)]
    lines = [parse_argument(each) for each in given if not each.endswith(MODEL_SUFFIXES)]
    for path in options.commands_files:
        reporter = Reporter(path)
        lines += read_commands(path, reporter)
        if reporter.errors:
            return EXIT_FAILURE
    sources += [line for line, _ in named_problems(lines)]
    if options.records:
        sources += prebuild_job.recorded(gpu)
    return prebuild_job.run(
        list(dict.fromkeys(sources)),
        gpu,
        options.jobs,
        allow_tf32=options.allow_tf32,
        check=options.check,
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(TOOL, _DESCRIPTION)
    add = parser.add_argument
    add(
        "--commands-file",
        dest="commands_files",
        action="append",
        default=[],
        metavar="FILE",
        help="a list: one MIOpenDriver line each, # comments; may be repeated",
    )
    add("--records", action="store_true", help="the problems of the GPU's shipped tuning records")
    add(
        "--target",
        metavar="GPU",
        help="what to compile for: the name of a file of targets/, or "
        "ARCH:MULTIPROCESSORS:SHARED_BYTES[:NAME]; by default the GPU here",
    )
    add("--jobs", type=natural, default=0, metavar="N", help="processes (one for each core)")
    add("--allow-tf32", action="store_true", help="multiply f32 as TF32")
    add("--check", action="store_true", help="compile nothing, say what the cache has")
    return parser
