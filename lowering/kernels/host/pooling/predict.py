"""What a pool takes: a step for each tap of a window along each of its dimensions, and traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.kernels.host.pooling.problem import Pool
    from convir.lowering.kernels.host.target import CpuTarget

TAP = 2.0
"""Cycles of loading a vector and combining it."""
ROW = 10.0
"""Cycles of each row of results, beside its vectors."""


def predict(pool: Pool, cpu: CpuTarget) -> float:
    """µs on one thread."""
    lanes = cpu.lanes(32)
    rows, columns = pool.rows, pool.columns
    line, result = columns.size * pool.inner, columns.outputs * pool.inner
    down = -(-line // lanes) * rows.taps
    across = -(-result // lanes) * columns.taps
    each = TAP * (down + across) + ROW
    nbytes = 4 * pool.planes * (rows.size * line + rows.outputs * result)
    cycles = pool.planes * rows.outputs * each
    return cpu.launch + max(cycles / cpu.clock_mhz, cpu.traffic_us(nbytes))
