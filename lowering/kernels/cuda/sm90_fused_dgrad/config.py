"""The choices that make one instance of the template of joined phases."""

from __future__ import annotations

from dataclasses import dataclass

from convir.lowering.kernels.cuda.config import ConfigText

FAMILY = "joined"
ROWS = 64
"""Output positions of a tile, one warpgroup's."""
PAIRS = 2
"""Producer threads with a warpgroup each."""
THREADS = (1 + PAIRS) * 128
STORE_COLUMNS = (64, 32)

_KEYS = ("stages", "store", "blocks")


@dataclass(frozen=True)
class JoinedConfig:
    """Prints as `joined stages=6 store=64 blocks=132`."""

    stages: int
    """Tiles of A in flight, for each pair."""
    store_columns: int
    """Columns that are staged in shared memory at a time."""
    blocks: int
    """Persistent blocks at most, one for each multiprocessor."""

    def __str__(self) -> str:
        return f"{FAMILY} stages={self.stages} store={self.store_columns} blocks={self.blocks}"

    @staticmethod
    def parse(text: str) -> JoinedConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        parts = ConfigText.parse(text)
        if parts.family != FAMILY or parts.words or tuple(parts.values) != _KEYS:
            raise ValueError(f"it is written {FAMILY} {'=… '.join(_KEYS)}=…")
        config = JoinedConfig(*(int(parts.values[key]) for key in _KEYS))
        if config.stages < 2 or config.store_columns not in STORE_COLUMNS or config.blocks < 1:
            raise ValueError("it has 2 stages or more, stores 64 or 32 columns, and has blocks")
        return config
