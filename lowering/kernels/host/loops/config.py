"""The config of loops: there is nothing to choose."""

from __future__ import annotations

from typing import Final

from convir.lowering.implementations import LOOPS
from convir.lowering.kernels.host.family import OnlyConfig

CONFIG: Final = OnlyConfig(LOOPS)
"""The only one."""
