"""The config of attention: there is nothing to choose."""

from __future__ import annotations

from typing import Final

from convir.lowering.implementations import ATTENTION
from convir.lowering.kernels.host.family import OnlyConfig

CONFIG: Final = OnlyConfig(ATTENTION)
"""The only one."""
