"""Arguments of a program that are given by name, put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.runtime.program import TensorSpec


def in_order(
    arguments: Sequence[Any], named: Mapping[str, Any], specs: Sequence[TensorSpec]
) -> list[Any]:
    """All arguments by position.

    Args:
        arguments: those given by position, of the first inputs.
        named: the others, by the names of the inputs.
        specs: the program's inputs.

    Raises:
        TypeError: an input is given twice, or not at all, or there is none of a name.
    """
    names = [spec.name for spec in specs]
    for name in named:
        if not name or name not in names:
            known = ", ".join(repr(one) for one in names if one) or "none"
            raise TypeError(f"the program has no input called {name!r}; it has {known}")
        if name in names[: len(arguments)]:
            raise TypeError(f"the input {name!r} is given twice")
    missing = [name for name in names[len(arguments) :] if name not in named]
    if missing:
        raise TypeError(f"the input {missing[0]!r} is not given")
    return [*arguments, *(named[name] for name in names[len(arguments) :])]
