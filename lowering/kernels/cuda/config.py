"""Kernel configs: one frozen dataclass per template family, one canonical string each.

A config prints as `FAMILY WORD… key=value…`, for example `igemm 128x128x32 stages=4 warps=2x4`, and
parses back from it; that string is what `configs = {cuda = "…"}` and tuning records hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from convir.lowering.kernels.protocol import KernelConfig

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.tile_schedule.partition import Partition

GROUP_WARPS = 4
"""Warps of a group that multiplies."""
MAX_CLUSTER = 8
"""Blocks of a cluster on every GPU that has them."""
ROLES = ((0, 4), (0, 8), (4, 4), (4, 8), (8, 8))
"""Warps that load and warps that multiply; no warp that loads: every warp does both."""


@runtime_checkable
class ChoosesPartition(KernelConfig, Protocol):
    """A config whose reduction may be divided in several ways."""

    def with_partition(self, partition: Partition) -> KernelConfig:
        """The config with another partition; ValueError where there is none such."""
        ...


@runtime_checkable
class ChoosesRoles(KernelConfig, Protocol):
    """A config whose warps may be divided in several ways into those that load and multiply."""

    def with_roles(self, load: int, math: int) -> KernelConfig:
        """The config with so many warps of each; ValueError where there are none such."""
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


class WithRoles:
    """A config whose blocks have warps that load and warps that multiply."""

    roles: tuple[int, int]
    """Warps that load, and warps that multiply."""

    @property
    def consumer_warpgroups(self) -> int:
        """Groups of four warps that multiply."""
        return self.roles[1] // GROUP_WARPS

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return sum(self.roles) * 32

    @property
    def roles_text(self) -> str:
        """`LOAD:MATH`, which `parse_roles` reads."""
        load, math = self.roles
        return f"{load}:{math}"

    def illegal_roles(self, known: tuple[tuple[int, int], ...]) -> str | None:
        """Why a template that has the `known` roles does not have these, or None."""
        if self.roles in known:
            return None
        return f"there are no roles of {self.roles[0]} and {self.roles[1]} warps"


def parse_roles(text: str) -> tuple[int, int]:
    """The warps that load and those that multiply, of `LOAD:MATH`.

    Raises:
        ValueError: it is none.
    """
    load, _, math = text.partition(":")
    return int(load), int(math)
