"""Kernel configs: one frozen dataclass per template family, one canonical string each.

A config prints as `FAMILY WORD… key=value…`, for example `igemm 128x128x32 stages=4 warps=2x4`, and
parses back from it; that string is what `configs = {cuda = "…"}` and tuning records hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class KernelConfig(Protocol):
    """The choices that make one instance of a template."""

    def __str__(self) -> str:
        """The canonical string, which the family's `parse` reads."""
        ...


@dataclass(frozen=True)
class ConfigText:
    """A config's canonical string, taken apart."""

    family: str
    words: tuple[str, ...]
    """What stands before the first `key=value`, without the family."""
    values: dict[str, str]

    @staticmethod
    def parse(text: str) -> ConfigText:
        """Take `text` apart.

        Raises:
            ValueError: it is empty, repeats a key, or has a word behind a `key=value`.
        """
        family, *rest = text.split(" ") if text else [""]
        words = tuple(part for part in rest if "=" not in part)
        pairs = [part.split("=", 1) for part in rest if "=" in part]
        values = {pair[0]: pair[1] for pair in pairs}
        if not family or tuple(rest[: len(words)]) != words or len(values) != len(pairs):
            raise ValueError(f"'{text}' is no kernel config")
        return ConfigText(family, words, values)


def sizes(text: str, count: int) -> tuple[int, ...]:
    """The integers of `128x64x32`.

    Raises:
        ValueError: there are not `count` of them.
    """
    found = tuple(int(part) for part in text.split("x"))
    if len(found) != count:
        raise ValueError(f"'{text}' is not {count} sizes")
    return found
