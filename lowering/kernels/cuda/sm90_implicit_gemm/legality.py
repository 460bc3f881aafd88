"""Which configs of the wgmma template are legal for a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import WgmmaConfig
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import WgmmaProblem


def shared_bytes(problem: WgmmaProblem, config: WgmmaConfig) -> int:
    """Dynamic shared memory of a block that computes `problem`."""
    return config.shared_bytes(
        problem.columns,
        weights_by_depth=problem.weights_by_depth,
        result_bytes=problem.result_bytes,
    )


def illegality(problem: WgmmaProblem, config: WgmmaConfig, limit: int) -> str | None:
    """Why the template, or `limit` bytes of shared memory, refuses `config`; None if legal."""
    reason = config.illegal()
    if reason is not None:
        return reason
    piece = problem.columns // len(problem.pieces)
    if problem.fused_holes and config.store_columns < problem.columns:
        return "holes behind narrow rows are stored with them, whole"
    if len(problem.pieces) > 1 and piece % config.store_columns:
        return "staged columns belong to different positions"
    needed = shared_bytes(problem, config)
    if needed > limit:
        return f"it needs {needed} bytes of shared memory of {limit}"
    return None


def is_legal(problem: WgmmaProblem, config: WgmmaConfig, limit: int) -> bool:
    """Whether nothing refuses `config`."""
    return illegality(problem, config, limit) is None
