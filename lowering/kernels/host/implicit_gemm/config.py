"""The config of an implicit GEMM: a model chooses registers and blocks when code is made."""

from __future__ import annotations

from typing import Final

from convir.lowering.kernels.host.family import OnlyConfig

FAMILY: Final = "implicit-gemm"

CONFIG: Final = OnlyConfig(FAMILY)
"""The only one."""
