"""What `enable` was told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

WORKSPACE_BYTES = 64 << 20
"""What the temporaries of a call may take, unless told otherwise."""

Preference: TypeAlias = Literal["faster", "convir"]
"""Whose kernel runs where both can: the faster one, or convir's."""


@dataclass(frozen=True)
class Settings:
    """How convolutions are chosen and compiled."""

    prefer: Preference = "faster"
    wait: bool = False
    """Whether a call waits until its kernel is compiled."""
    workspace_bytes: int = WORKSPACE_BYTES
    measure: bool | None = None
    """Whether both are timed where neither is known to be faster; None as
    `torch.backends.cudnn.benchmark` says."""
