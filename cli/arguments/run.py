"""The command line of `convir-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.cli.arguments.parser import ArgumentParser, natural
from convir.reference.limits import DEFAULT_MAX_STEPS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

TOOL = "convir-run"

REFERENCE = "reference"
DEFAULT_FUNCTION = "main"

_DESCRIPTION = """\
Run a function of a module on arrays.

An INPUT is @FILE.npy (the @ may be left out), or a type and what to fill it with:
4x8xf32=RANDOM (small integers), =NORMAL (the standard normal distribution), =ZEROS, =ONES,
=2.5, or all elements as in 2x2xf32=1,2,3,4. With no --input at all, every argument is RANDOM.
bf16 arrays are two-byte data in .npy files: the function's signature says what they are.

A .nam model is a stream: it has one --input and one --output, .wav or .npy of f32[frames]."""


def parse_arguments(argv: Sequence[str]) -> Namespace:
    """The options on `argv`.

    Raises:
        UsageError: they are wrong.
    """
    return _parser().parse(argv)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(TOOL, _DESCRIPTION)
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="MLIR text, a line of MIOpenDriver in quotes, an .onnx model or a .nam model; - or "
        "nothing: text from stdin",
    )
    add(
        "--function",
        metavar="NAME",
        help=f"the function to run: {DEFAULT_FUNCTION}, or the only one",
    )
    add(
        "--device",
        metavar="DEVICE",
        help=f"{REFERENCE} (default): evaluated by NumPy; host (default for .nam models): "
        "compiled for the CPU; cuda, cuda:1: compiled for a GPU; auto: a GPU if there is one",
    )
    passes = parser.add_mutually_exclusive_group()
    passes.add_argument(
        "-p",
        "--passes",
        "--pass-pipeline",
        dest="passes",
        metavar="PASSES",
        help="run passes first: a,b{x=1 y=2}; -p '' runs none",
    )
    passes.add_argument(
        "--pipeline",
        metavar="NAME",
        help="run a named pipeline first; by default none on the reference, and on a device "
        "`default`, as convir.compile does",
    )
    for option, what in (
        ("--input", "an argument, in order"),
        ("--output", "write a result, in order, to @FILE.npy"),
    ):
        dest = f"{option.strip('-')}s"
        add(option, action="append", dest=dest, default=[], metavar="VALUE", help=what)
    add(
        "--workspace-bytes",
        type=natural,
        metavar="N",
        help="limit on the temporaries, on a device; a larger batch runs in chunks",
    )
    add(
        "--max-steps",
        type=natural,
        default=DEFAULT_MAX_STEPS,
        metavar="N",
        help="limit on the bodies of loops, branches and calls that the reference executes "
        f"({DEFAULT_MAX_STEPS})",
    )
    add(
        "--seed",
        type=natural,
        default=0,
        metavar="N",
        help="the seed of RANDOM and NORMAL inputs (0)",
    )
    add(
        "--check",
        action="store_true",
        help="compare with the input module on the reference, and with the convolution that the "
        "module was imported from; exit 1 past the tolerance",
    )
    add(
        "--trace",
        metavar="FILE",
        help="write when each kernel ran on each thread, or on the GPU, in a second call on the "
        "device: JSON for Perfetto (ui.perfetto.dev) or chrome://tracing",
    )
    parser.add_model_size()
    add("--debug", action="store_true", help="show the traceback behind an error")
    return parser
