"""The commands and the Python of a document, in the order in which a reader meets them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOOLS = ("convir-import", "convir-opt", "convir-run", "convir-bench", "xdsl-opt")
_COMMANDS = (*TOOLS, "python", "pytest", "pip", "make", "for")
_PROMPT = "$ "
_INDENT = "    "


@dataclass(frozen=True)
class Command:
    """One command, with the lines that continue it."""

    line: int
    text: str
    output: str | None
    """What the document says that it prints; None where it says nothing."""


@dataclass(frozen=True)
class Python:
    """A block of Python."""

    line: int
    text: str

    @property
    def output(self) -> list[str]:
        """What its calls of `print` print, by the comments behind them."""
        found = re.findall(r"^print\(.*\)  # (.*)$", self.text, re.MULTILINE)
        return [str(each) for each in found]


def blocks_of(text: str) -> Iterator[Command | Python]:
    """The blocks of a document that can be executed."""
    for line, language, lines in _blocks(text.splitlines()):
        if language == "python":
            yield Python(line, "\n".join(lines) + "\n")
        elif language in (None, "", "sh"):
            yield from _commands(line, lines)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, str | None, list[str]]]:
    """Fenced blocks with their language, and indented ones without: line, language, lines."""
    at = 0
    while at < len(lines):
        begin = at
        if lines[at].startswith("```"):
            at += 1
            while not lines[at].startswith("```"):
                at += 1
            yield begin + 2, lines[begin][3:], list(lines[begin + 1 : at])
        elif lines[at].startswith(_INDENT) and not (at and lines[at - 1].strip()):
            while at < len(lines) and (lines[at].startswith(_INDENT) or not lines[at].strip()):
                at += 1
            yield begin + 1, None, [line[len(_INDENT) :] for line in lines[begin:at]]
            continue
        at += 1


def _commands(line: int, lines: Sequence[str]) -> Iterator[Command]:
    at = 0
    while at < len(lines):
        begin = at
        prompted = lines[at].startswith(_PROMPT)
        text = lines[at].removeprefix(_PROMPT)
        at += 1
        if text.split(" ")[0] not in _COMMANDS:
            continue
        while at < len(lines) and _continues(text):
            text += "\n" + lines[at]
            at += 1
        output: list[str] = []
        while prompted and at < len(lines) and not lines[at].startswith(_PROMPT):
            output.append(lines[at])
            at += 1
        yield Command(line + begin, text, "\n".join(output) if prompted else None)


def _continues(text: str) -> bool:
    """Whether a command goes on in the next line."""
    if text.startswith("for "):
        return not text.endswith("done")
    quoted = re.sub(r"\"[^\"]*\"", "", text).count("'") % 2 == 1
    double = re.sub(r"'[^']*'", "", text).count('"') % 2 == 1
    return text.endswith("\\") or quoted or double


def inline_commands(text: str) -> list[str]:
    """The commands with options that stand in the prose of a document."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", prose)
    words = (" ".join(span.split()) for span in spans)
    return [each for each in words if each.startswith((*TOOLS, "python ")) and " --" in each]


def options_of(command: str) -> list[str]:
    """The long options that a command names."""
    return re.findall(r"(?<!\S)(--[a-z][\w-]*)", command)


def matches(expected: str, printed: str) -> bool:
    """Whether a tool printed what a document shows: white space counts as one space, and an
    ellipsis stands for anything."""
    parts = (re.escape(" ".join(part.split())) for part in expected.split("…"))
    pattern = r"\s*.*?\s*".join(parts)
    return re.search(pattern, " ".join(printed.split()), re.DOTALL) is not None
