"""The config of a pool: there is nothing to choose."""

from __future__ import annotations

from typing import Final

from convir.lowering.implementations import POOLING
from convir.lowering.kernels.host.family import OnlyConfig

CONFIG: Final = OnlyConfig(POOLING)
"""The only one."""
