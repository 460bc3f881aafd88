"""The config of a depthwise convolution on planes: cuts follow from the shape."""

from __future__ import annotations

from typing import Final

from convir.lowering.kernels.host.family import OnlyConfig

FAMILY: Final = "direct-depthwise"

CONFIG: Final = OnlyConfig(FAMILY)
"""The only one."""
