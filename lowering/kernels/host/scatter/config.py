"""The config of a scatter: there is nothing to choose."""

from __future__ import annotations

from typing import Final

from convir.lowering.kernels.host.family import OnlyConfig

FAMILY: Final = "scatter"

CONFIG: Final = OnlyConfig(FAMILY)
"""The only one."""
