"""Command lines: an argument parser whose errors are one line and name what was meant."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from convir.cli.arguments.spelling import is_option, respelled, takes_next_word
from convir.dialects.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

STREAM = "-"
"""How a command line names the standard input, or the standard output."""


class UsageError(Exception):
    """The command line is wrong, or names what cannot be read or written: exit 2."""


@dataclass(frozen=True)
class Part:
    """One of several parts that work is divided into, one for each process."""

    number: int
    """From 1."""
    count: int

    @staticmethod
    def parse(text: str) -> Part:
        """The part that is written like `2/4`.

        Raises:
            argparse.ArgumentTypeError: there is no such part.
        """
        number, slash, count = text.partition("/")
        if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return Part(int(number), int(count))
        raise argparse.ArgumentTypeError(f"'{text}' is not a part such as 2/4")


WHOLE = Part(1, 1)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Shows `--option[=VALUE]` for a value that may be left out, and must stand behind `=`."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if action.nargs != argparse.OPTIONAL or not action.option_strings:
            return super()._format_action_invocation(action)
        return ", ".join(f"{option}[={action.metavar}]" for option in action.option_strings)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs != argparse.OPTIONAL or not action.option_strings:
            return super()._format_args(action, default_metavar)
        return f"[={action.metavar}]"


class ArgumentParser(argparse.ArgumentParser):
    """argparse without abbreviations and without exits: an error raises `UsageError`.

    Flags may be spelled as LLVM spells them: `-flag`, `--flag=true`.
    """

    def __init__(self, tool: str, description: str):
        super().__init__(
            prog=tool,
            description=description,
            allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )
        self.add_argument("--version", action=_PrintVersion)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with argparse's message."""
        raise UsageError(message)

    def other_flags(self) -> Sequence[str]:
        """What may be meant by an unknown flag beside the options."""
        return ()

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """The parsed command line.

        Raises:
            UsageError: an option is unknown (the nearest one is suggested) or misused.
        """
        namespace, unknown = self.parse_known_args(respelled(argv, self._option_string_actions))
        if not unknown:
            return namespace
        name = unknown[0].split("=")[0]
        if not name.startswith("-"):
            raise UsageError(f"unexpected argument '{name}'")
        near = did_you_mean(name, (*self._option_string_actions, *self.other_flags()))
        raise UsageError(f"unknown option '{name}'{near}")

    def knows(self, word: str) -> bool:
        """Whether `word` is one of the options, with or without a value."""
        return is_option(word, self._option_string_actions)

    def takes_next_word(self, word: str) -> bool:
        """Whether `word` is an option whose value is the word behind it."""
        return takes_next_word(word, self._option_string_actions)

    def add_model_size(self) -> None:
        """Add the option `--model-size`, for tools that read .nam models."""
        self.add_argument(
            "--model-size",
            type=float,
            default=1.0,
            metavar="S",
            help="which of the models in a .nam file, from 0 (the smallest) to 1 (the largest)",
        )

    def add_output(self) -> None:
        """Add `-o`: where the IR is written."""
        self.add_argument(
            "-o",
            dest="output",
            type=_file_or_stdout,
            metavar="OUT",
            help="write the IR to OUT instead of stdout, which is also called -",
        )


class _PrintVersion(argparse.Action):
    """Prints the tool, its version and xDSL's on stdout, and ends the process, as --help does."""

    def __init__(self, option_strings: Sequence[str], dest: str):
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        """Print, and end."""
        from importlib.metadata import version  # noqa: PLC0415  (slow to import)

        from convir import __version__  # noqa: PLC0415

        sys.stdout.write(f"{parser.prog} {__version__} (xDSL {version('xdsl')})\n")
        parser.exit()


def natural(text: str) -> int:
    """A number that can seed a random generator, or count bytes.

    Raises:
        ValueError: it is negative, or no integer.
    """
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


natural.__name__ = "natural number"  # what argparse calls the type in its message


def _file_or_stdout(text: str) -> str | None:
    """The file that is written to; None for `-`, the standard output."""
    return None if text == STREAM else text
