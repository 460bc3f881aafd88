"""The choices that make one instance of the template of joined phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Key, OneOf, Range

ROWS = 64
"""Output positions of a tile, one warpgroup's."""
PAIRS = 2
"""Producer threads with a warpgroup each."""
THREADS = (1 + PAIRS) * 128
STORE_COLUMNS = (64, 32)


@dataclass(frozen=True)
class JoinedConfig(Config, family="joined"):
    """Prints as `joined stages=6 store=64 blocks=132`."""

    stages: Annotated[int, Range(2)]
    """Tiles of A in flight, for each pair."""
    store_columns: Annotated[int, Key("store"), OneOf(*STORE_COLUMNS)]
    """Columns that are staged in shared memory at a time."""
    blocks: int
    """Persistent blocks at most, one for each multiprocessor."""
