"""Partitions of a product, as one canonical text each.

A product has tiles of results, and every tile is reduced in the same number of steps. A *unit* (a
block of a GPU) does steps of some tiles. A tile that one unit alone reduces is stored by it; the
others are reduced in splits, whose partial sums are added in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["data-parallel", "split-k", "stream-k"]
Reduction: TypeAlias = Literal["linear", "tree", "reduce-scatter"]
Waves: TypeAlias = Literal["persistent", "blocks"]

DATA_PARALLEL: Final = "data-parallel"
SPLIT_K: Final = "split-k"
STREAM_K: Final = "stream-k"
PERSISTENT: Final = "persistent"


@dataclass(frozen=True)
class Partition:
    """Prints as `data-parallel`, `split-k:8:tree`, `stream-k:linear` or `stream-k:tree:blocks`."""

    kind: Kind = DATA_PARALLEL
    splits: int = 1
    """Splits that split-K divides every reduction into."""
    reduction: Reduction = "linear"
    """Splits are added one after the other to the last one; or in pairs; or every unit adds a share
    of all splits, for which all units of a tile must run at the same time."""
    waves: Waves = PERSISTENT
    """Whole tiles of stream-K: each unit does some after its share, or each is one of its own."""

    def __post_init__(self) -> None:
        if (self.kind == SPLIT_K) != (self.splits > 1):
            raise ValueError(f"{self.kind} with {self.splits} splits")
        if self.kind == DATA_PARALLEL and self.reduction != "linear":
            raise ValueError("data-parallel has nothing to reduce")
        if self.reduction == "reduce-scatter" and self.kind != SPLIT_K:
            raise ValueError(f"{self.kind} is not reduced by a reduce-scatter")
        if self.kind != STREAM_K and self.waves != PERSISTENT:
            raise ValueError(f"{self.kind} has no whole tiles beside its splits")

    def __str__(self) -> str:
        if self.kind == DATA_PARALLEL:
            return self.kind
        if self.kind == SPLIT_K:
            return f"{self.kind}:{self.splits}:{self.reduction}"
        waves = "" if self.waves == PERSISTENT else f":{self.waves}"
        return f"{self.kind}:{self.reduction}{waves}"

    @staticmethod
    def parse(text: str) -> Partition:
        """The partition that prints as `text`.

        Raises:
            ValueError: none does.
        """
        kind, *rest = text.split(":")
        found: Partition | None = None
        if kind == DATA_PARALLEL and not rest:
            found = Partition()
        if kind == SPLIT_K and len(rest) == len(("splits", "reduction")) and rest[0].isdecimal():
            found = Partition(SPLIT_K, int(rest[0]), reduction_of(rest[1]))
        if kind == STREAM_K and rest:
            waves = rest[1] if len(rest) > 1 else PERSISTENT
            if waves in (PERSISTENT, "blocks"):
                found = Partition(STREAM_K, 1, reduction_of(rest[0]), waves)
        if found is None or str(found) != text:
            raise ValueError(
                f"'{text}' is not a partition: data-parallel, split-k:SPLITS:REDUCTION or "
                "stream-k:REDUCTION[:blocks], where REDUCTION is linear, tree or reduce-scatter"
            )
        return found


def reduction_of(text: str) -> Reduction:
    """The reduction called `text`.

    Raises:
        ValueError: there is none.
    """
    if text not in ("linear", "tree", "reduce-scatter"):
        raise ValueError(f"'{text}' is not a reduction: linear, tree or reduce-scatter")
    return text
