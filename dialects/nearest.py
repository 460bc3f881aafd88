"""What was meant by a name that does not exist."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'NEAREST'?`; nothing where no known name is near `name` or begins with it."""
    names = list(known)
    near = get_close_matches(name, names, n=1) or [n for n in names if name and n.startswith(name)]
    return f"; did you mean '{near[0]}'?" if near else ""
