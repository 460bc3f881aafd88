"""The config of a reduction: there is nothing to choose."""

from __future__ import annotations

from typing import Final

from convir.lowering.implementations import REDUCTION
from convir.lowering.kernels.host.family import OnlyConfig

CONFIG: Final = OnlyConfig(REDUCTION)
"""The only one."""
