"""Narrow groups as one group: a tile has the products of all their channels and uses some of them.

The products of channels of different groups are left out when sums are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.amx_wgrad.blocking import TILE
from convir.lowering.kernels.host.code.groups_together import are_neighbours

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction


def groups_together(spec: Contraction) -> int:
    """How many groups share a tile; 1 where groups are computed one by one."""
    if spec.groups == 1:
        return 1
    together = TILE // max(spec.in_channels, spec.out_channels)
    fits = [count for count in range(2, together + 1) if spec.groups % count == 0]
    return max(fits) if fits and are_neighbours(spec) else 1
