"""The config of a depthwise convolution of channels last: cuts follow from the shape."""

from __future__ import annotations

from typing import Final

from convir.lowering.kernels.host.family import OnlyConfig

FAMILY: Final = "depthwise-channels-last"

CONFIG: Final = OnlyConfig(FAMILY)
"""The only one."""
