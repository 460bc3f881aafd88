"""The config of a gradient of weights on tile registers: blocks follow from the sizes."""

from __future__ import annotations

from typing import Final

from convir.lowering.kernels.host.family import OnlyConfig

FAMILY: Final = "amx-wgrad"

CONFIG: Final = OnlyConfig(FAMILY)
"""The only one."""
