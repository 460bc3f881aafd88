"""Which configs of the wgmma template for gradients of weights are legal for a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_wgrad.config import CHUNK
from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.sm90_wgrad.config import WgmmaWgradConfig
    from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem


def tiles_of(problem: WgradProblem, config: WgmmaWgradConfig) -> int:
    """Tiles of B."""
    rows = -(-problem.chunks_m // (config.block_m // CHUNK))
    # Of the last chunk a tile has a part, and others the rest.
    whole, rest = divmod(config.block_n, CHUNK)
    sharing = CHUNK // rest if rest else 1
    return rows * -(-problem.chunks_n * sharing // (whole * sharing + (rest > 0)))


def schedule_of(problem: WgradProblem, config: WgmmaWgradConfig, limit: int) -> Schedule | Refusal:
    """How blocks divide the tiles, or why `config` is not legal.

    Args:
        problem: what is computed.
        config: any config.
        limit: bytes of shared memory of a block.
    """
    reason = config.illegal()
    if reason is not None:
        return Refusal(reason)
    if config.shared_bytes > limit:
        return Refusal(f"it needs {config.shared_bytes} bytes of shared memory of {limit}")
    tiles = tiles_of(problem, config)
    try:
        return Schedule(config.partition, tiles, problem.steps, config.blocks)
    except ValueError as error:
        return Refusal(str(error))
