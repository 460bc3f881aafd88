"""Flags as LLVM's command lines also spell them, made those that argparse knows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRUE = ("true", "1")
_FALSE = ("false", "0")


def is_option(word: str, actions: Mapping[str, argparse.Action]) -> bool:
    """Whether `word` is an option, with or without a value behind `=`."""
    return _two_dashes(word.partition("=")[0], actions) in actions


def takes_next_word(word: str, actions: Mapping[str, argparse.Action]) -> bool:
    """Whether `word` is an option whose value is the word behind it."""
    action = actions.get(_two_dashes(word, actions))
    return action is not None and action.nargs not in (0, argparse.OPTIONAL)


def respelled(argv: Sequence[str], actions: Mapping[str, argparse.Action]) -> list[str]:
    """`argv` with `-long-flag` as `--long-flag`, and `--flag=true` as `--flag`.

    An option whose value may be left out takes it behind `=` alone, so that the word behind such
    an option is never mistaken for a value.
    """
    words: list[str] = []
    is_value = False
    for word in argv:
        if is_value or not word.startswith("-"):
            words.append(word)
            is_value = False
            continue
        is_value = takes_next_word(word, actions)
        words += _respelled(word, actions)
    return words


def _respelled(word: str, actions: Mapping[str, argparse.Action]) -> list[str]:
    name, equals, value = word.partition("=")
    name = _two_dashes(name, actions)
    action = actions.get(name)
    if action is None:
        return [word]
    if action.nargs == argparse.OPTIONAL:
        return [f"{name}={value}"]
    if action.nargs != 0 or value not in (*_TRUE, *_FALSE):
        return [f"{name}{equals}{value}"]
    if value in _TRUE:
        return [name]
    return [f"--no-{name[2:]}"] if isinstance(action, argparse.BooleanOptionalAction) else []


def _two_dashes(name: str, actions: Mapping[str, argparse.Action]) -> str:
    return f"-{name}" if name not in actions and f"-{name}" in actions else name
