"""The warps of a block that have roles: who loads, and who multiplies."""

from __future__ import annotations

from convir.lowering.kernels.cuda.config import Config
from convir.lowering.kernels.cuda.old_spelling import read_config
from convir.lowering.kernels.registry import family_of


def warp_roles(config: str) -> dict[str, int]:
    """So many warps of a block are `producer`, `consumer` and the like; empty without roles."""
    family = family_of(config)
    parsed = None if family is None else family.parse(read_config(config))
    return parsed.warp_roles if isinstance(parsed, Config) else {}
