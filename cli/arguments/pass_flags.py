"""Passes as flags of their own, as mlir-opt takes them: `--canonicalize --cse --PASS='x=1'`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import ArgumentParser

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class PassFlags:
    """A command line without the flags that are passes, and those passes."""

    others: tuple[str, ...]
    passes: tuple[str, ...]
    """Each pass as a pipeline has it, in order."""
    first: str
    """The first flag that is a pass; empty if none is."""

    @staticmethod
    def split(argv: Sequence[str], parser: ArgumentParser) -> PassFlags:
        """Tell the passes of `argv` from the options that `parser` knows."""
        others: list[str] = []
        flags: list[str] = []
        is_value = False
        for word in argv:
            is_flag = not is_value and word.startswith("-") and not parser.knows(word)
            is_value = not is_value and parser.takes_next_word(word)
            (flags if is_flag and _is_pass(_name(word)) else others).append(word)
        passes = tuple(map(_as_text, flags))
        return PassFlags(tuple(others), passes, flags[0] if flags else "")


class PassFlagParser(ArgumentParser):
    """A parser of a command line on which passes are flags."""

    def other_flags(self) -> Sequence[str]:
        """The passes and pipelines as flags."""
        from convir.passes.manager.pipeline_text import known_names  # noqa: PLC0415  (as below)

        return [f"--{name}" for name in known_names()]


def _name(flag: str) -> str:
    return flag.partition("=")[0].lstrip("-")


def _as_text(flag: str) -> str:
    options = flag.partition("=")[2].strip()
    return f"{_name(flag)}{{{options}}}" if options else _name(flag)


def _is_pass(name: str) -> bool:
    # Only a command line with a word that is not an option asks what passes there are.
    from convir.passes.manager.pipeline_text import is_known  # noqa: PLC0415

    return is_known(name)
