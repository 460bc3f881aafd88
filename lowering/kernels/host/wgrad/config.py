"""The config of a gradient of weights: a model chooses registers and blocks when code is made."""

from __future__ import annotations

from typing import Final

from convir.lowering.kernels.host.family import OnlyConfig

FAMILY: Final = "wgrad"

CONFIG: Final = OnlyConfig(FAMILY)
"""The only one."""
