"""Narrow groups as one group, whose weights are zeros between channels of different ones.

A register's row of 64 bytes holds the channels of several narrow groups. Their products with
the weights of other groups are zeros that cost nothing, as the register is multiplied anyway. An
Inf or NaN in one of the channels reaches the results of all groups that share a register with it.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.groups_together import are_neighbours
from convir.lowering.kernels.host.code.tile_registers import ROW_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction


def groups_together(spec: Contraction) -> int:
    """How many groups are computed as one: as few as fill rows of registers; 1 where groups are
    computed one by one."""
    if spec.groups == 1 or spec.out_channels == 1:
        return 1
    tap_bytes = spec.in_channels * STORAGE_BYTES[spec.a.type]
    together = ROW_BYTES // gcd(ROW_BYTES, tap_bytes)
    return together if are_neighbours(spec) and spec.groups % together == 0 else 1
