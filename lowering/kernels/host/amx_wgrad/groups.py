"""Narrow groups as one group: a tile has the products of all their channels and uses some of them.

The products of channels of different groups are left out when sums are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.amx_wgrad.blocking import TILE

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction


def groups_together(spec: Contraction) -> int:
    """How many groups share a tile; 1 where groups are computed one by one."""
    if spec.groups == 1:
        return 1
    together = TILE // max(spec.in_channels, spec.out_channels)
    behind = spec.a.group_stride == spec.in_channels * spec.a.stride
    behind &= spec.c.group_stride == spec.out_channels * spec.c.stride
    fits = [count for count in range(2, together + 1) if spec.groups % count == 0]
    return max(fits) if behind and fits else 1
