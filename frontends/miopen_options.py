"""The words of a MIOpenDriver convolution line: which options exist, and their values with columns.

    COMMAND [OPTION VALUE]…      e.g.  convfp16 -n 32 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 2

Long and short options may be mixed, `--name=value` is the same as `--name value`, and a leading
path to MIOpenDriver is skipped. What the options mean together is decided in `miopen`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.dialects.nearest import did_you_mean
from convir.frontends.miopen_commands import DRIVER, DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping


class LineError(ValueError):
    """What is wrong with a line, and at which column (from 1) of it."""

    def __init__(self, message: str, column: int):
        super().__init__(message)
        self.message = message
        self.column = column


@dataclass(frozen=True)
class Option:
    """One option of a line."""

    name: str
    """The long spelling, without dashes."""
    short: str
    """The short spelling: one character."""
    default: int | str
    """The value where the line does not give one; its type is the value's type."""


@dataclass(frozen=True)
class Word:
    """A word of a line and the column (from 1) at which it begins."""

    text: str
    column: int


PROBLEM_OPTIONS = (
    Option("spatial_dim", "_", 2),
    Option("forw", "F", 0),
    Option("mode", "m", "conv"),
    Option("group_count", "g", 1),
    Option("batchsize", "n", 100),
    Option("in_channels", "c", 3),
    Option("out_channels", "k", 32),
    Option("in_d", "!", 32),
    Option("in_h", "H", 32),
    Option("in_w", "W", 32),
    Option("fil_d", "@", 3),
    Option("fil_h", "y", 3),
    Option("fil_w", "x", 3),
    Option("pad_d", "$", 0),
    Option("pad_h", "p", 0),
    Option("pad_w", "q", 0),
    Option("pad_mode", "z", "default"),
    Option("conv_stride_d", "#", 1),
    Option("conv_stride_h", "u", 1),
    Option("conv_stride_w", "v", 1),
    Option("dilation_d", "^", 1),
    Option("dilation_h", "l", 1),
    Option("dilation_w", "j", 1),
    Option("trans_output_pad_d", "%", 0),
    Option("trans_output_pad_h", "Y", 0),
    Option("trans_output_pad_w", "X", 0),
    Option("in_layout", "I", ""),
    Option("fil_layout", "f", ""),
    Option("out_layout", "O", ""),
)
"""The options that say which problem it is, with the driver's own defaults."""

FIXED_OPTIONS = (
    Option("bias", "b", 0),
    Option("pad_val", "r", 0),
    Option("tensor_vect", "Z", 0),
    Option("vector_length", "L", 1),
    Option("in_cast_type", "U", "-1"),
    Option("wei_cast_type", "R", "-1"),
    Option("out_cast_type", "T", "-1"),
)
"""Options that would change the result; only their defaults are supported."""

IGNORED_OPTIONS = (
    Option("iter", "i", ""),
    Option("verify", "V", ""),
    Option("verification_cache", "C", ""),
    Option("time", "t", ""),
    Option("wall", "w", ""),
    Option("search", "s", ""),
    Option("printconv", "P", ""),
    Option("dump_output", "o", ""),
    Option("in_data", "d", ""),
    Option("weights", "e", ""),
    Option("in_bias", "a", ""),
    Option("dout_data", "D", ""),
    Option("solution", "S", ""),
    Option("gpualloc", "G", ""),
)
"""Options about how the driver runs, times and checks a problem: accepted with any value."""

_OPTIONS = (*PROBLEM_OPTIONS, *FIXED_OPTIONS, *IGNORED_OPTIONS)
_BY_SPELLING: Mapping[str, Option] = {
    **{f"--{option.name}": option for option in _OPTIONS},
    **{f"-{option.short}": option for option in _OPTIONS},
}


class Values:
    """The options of one line: what was given, where, and the defaults of the rest."""

    def __init__(self, command: Word, given: Mapping[str, Word], end: int):
        self.command = command
        self._given = given
        self._end = end

    def is_given(self, name: str) -> bool:
        """True if the line itself gives this option."""
        return name in self._given

    def column(self, *names: str) -> int:
        """The column of the first of these options that was given, else of the line's end."""
        columns = [self._given[name].column for name in names if name in self._given]
        return columns[0] if columns else self._end

    def text(self, name: str) -> str:
        """The value of a textual option."""
        return self._given[name].text if name in self._given else str(_default(name))

    def integer(self, name: str) -> int:
        """The value of a numeric option.

        Raises:
            LineError: the value is not an integer, or not one of the driver's 32 bits.
        """
        if name not in self._given:
            return int(_default(name))
        word = self._given[name]
        if re.fullmatch(r"[+-]?[0-9]{1,18}", word.text) is None:
            raise LineError(f"--{name} must be an integer, found '{word.text}'", word.column)
        if not -(2**31) <= int(word.text) < 2**31:
            raise LineError(f"--{name} must fit 32 bits, found {word.text}", word.column)
        return int(word.text)


def read_options(line: str) -> Values:
    """Split a line into its command and options.

    Raises:
        LineError: the command or an option is unknown (the nearest one is named), an option has
            no value, is given twice with different values, or asks for what is not supported.
    """
    words = [Word(match[0], match.start() + 1) for match in re.finditer(r"\S+", line)]
    end = len(line.rstrip()) + 1
    if words and words[0].text.rsplit("/", 1)[-1] == DRIVER:
        words = words[1:]
    if not words:
        raise LineError("the line has no command: expected " + ", ".join(DTYPES), end)
    command = words[0]
    if command.text not in DTYPES:
        raise LineError(
            f"unknown command '{command.text}'; expected {', '.join(DTYPES)}", command.column
        )
    given: dict[str, Word] = {}
    position = 1
    while position < len(words):
        position = _read_option(words, position, given, end)
    values = Values(command, given, end)
    for option in FIXED_OPTIONS:
        if str(values.text(option.name)) != str(option.default):
            raise LineError(
                f"--{option.name} {values.text(option.name)} is not supported: "
                f"leave it at {option.default}",
                values.column(option.name),
            )
    return values


def _read_option(words: list[Word], position: int, given: dict[str, Word], end: int) -> int:
    """Put the option at `position` into `given`; the position after its value."""
    word = words[position]
    spelling, equals, inline = word.text.partition("=")
    if not word.text.startswith("-"):
        raise LineError(f"expected an option, found '{word.text}'", word.column)
    if not word.text.startswith("--"):
        spelling, equals, inline = word.text, "", ""
    option = _BY_SPELLING.get(spelling)
    if option is None:
        near = did_you_mean(spelling, _BY_SPELLING)
        raise LineError(f"unknown option '{spelling}'{near}", word.column)
    if equals:
        value, after = Word(inline, word.column + len(spelling) + 1), position + 1
    elif position + 1 < len(words):
        value, after = words[position + 1], position + 2
    else:
        raise LineError(f"option {spelling} has no value", end)
    earlier = given.get(option.name)
    if earlier is not None and earlier.text != value.text:
        raise LineError(
            f"option {spelling} is given twice: {earlier.text} and {value.text}", value.column
        )
    given[option.name] = value
    return after


def _default(name: str) -> int | str:
    return _BY_SPELLING[f"--{name}"].default
