"""The registers that the threads of a schedule may have."""

from __future__ import annotations

from typing import Final

WARP: Final = 32
"""Threads that step together."""

PARTITIONS = 4
PARTITION_REGISTERS = 512
"""Parts of a multiprocessor that warps are divided over, and registers of a lane in each."""

MOST_REGISTERS = 255

WARPGROUP = 4
"""Warps that trade registers together."""

PRODUCER_REGISTERS = 40
"""What a warpgroup that copies keeps, as in `pipeline/warp_specialized.cuh`."""

_STEP = 8
"""Registers are given in steps of 8."""


def registers_of(warps: int, resident: int) -> int:
    """Registers that a thread may have with `resident` blocks of `warps` in a multiprocessor."""
    of_warp = PARTITION_REGISTERS // -(-warps * resident // PARTITIONS)
    return min(MOST_REGISTERS, of_warp // _STEP * _STEP)


def traded_registers(warps: int, resident: int) -> int:
    """The same of `warps` that compute, where a warpgroup beside them copies and needs few."""
    all_warps = warps + WARPGROUP
    spare = registers_of(all_warps, resident) * all_warps - PRODUCER_REGISTERS * WARPGROUP
    return min(MOST_REGISTERS, spare // warps) // _STEP * _STEP
