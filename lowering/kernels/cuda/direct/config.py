"""What the configs of the direct families share: their words."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Instruction: TypeAlias = Literal["mma", "wgmma"]
"""The matrix instructions: a warp's with weights in registers, or a warpgroup's (sm_90a)."""

MMA: Final = "mma"
WGMMA: Final = "wgmma"

TILE = 16
"""Output pixels of a matrix instruction."""
