"""What the configs of the direct families share: their words, and how they are parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from convir.lowering.kernels.cuda.config import ConfigText, sizes
from convir.lowering.kernels.cuda.direct.ring import ASYNC, Copies

Math: TypeAlias = Literal["mma", "wgmma"]
"""The matrix instructions: a warp's with weights in registers, or a warpgroup's (sm_90a)."""

MMA: Final = "mma"
WGMMA: Final = "wgmma"

TILE = 16
"""Output positions of a matrix instruction."""


@dataclass(frozen=True)
class Taken:
    """What the text of a config says."""

    sizes: tuple[int, ...]
    numbers: list[int]
    copies: Copies
    math: Math
    blocks: tuple[int, int]


def taken_of(text: str, family: str, count: int, keys: tuple[str, ...]) -> Taken:
    """The first so many sizes of a config, the numbers in the order of `keys`, and the rest."""
    taken = ConfigText.parse(text)
    expected = (*keys, "blocks")
    if taken.family != family or len(taken.words) != 1 or tuple(taken.values) != expected:
        raise ValueError(f"it is written {family} SIZES {'=… '.join(expected)}=…")
    counted = [key for key in keys if key not in ("copies", "math")]
    first = sizes(taken.words[0], count)
    numbers = [int(taken.values[key]) for key in counted]
    multiprocessors, resident = sizes(taken.values["blocks"], 2)
    least = [0 if key == "loaders" else 1 for key in counted]
    if (
        any(n < low for n, low in zip(numbers, least, strict=True))
        or min(*first, multiprocessors, resident) < 1
    ):
        raise ValueError("its numbers are at least 1, loaders at least 0")
    copies: dict[str, Copies] = {each: each for each in get_args(Copies)}
    math: dict[str, Math] = {each: each for each in get_args(Math)}
    named = taken.values.get("copies", ASYNC), taken.values.get("math", MMA)
    if named[0] not in copies or named[1] not in math:
        raise ValueError(f"copies are one of {', '.join(copies)}, math one of {', '.join(math)}")
    blocks = multiprocessors, resident
    return Taken(first, numbers, copies[named[0]], math[named[1]], blocks)
