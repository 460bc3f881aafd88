"""The configs of a family that are worth considering: legal ones, by predicted time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from convir.analysis.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Config = TypeVar("_Config")


def fastest(
    configs: Iterable[_Config], judged: Callable[[_Config], float | Refusal], most: int
) -> tuple[_Config, ...] | Refusal:
    """The first `most` configs by predicted time, or why there are none: the last refusal.

    Args:
        configs: in the order that counts where times are equal.
        judged: the predicted time of a config in µs, or why it is not legal.
        most: how many are wanted.
    """
    legal: list[tuple[float, _Config]] = []
    refused = Refusal("no config is legal")
    for config in configs:
        found = judged(config)
        if isinstance(found, Refusal):
            refused = found
        else:
            legal.append((found, config))
    legal.sort(key=lambda each: each[0])
    return tuple(config for _, config in legal[:most]) or refused
