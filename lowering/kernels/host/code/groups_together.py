"""Several groups of a contraction as one of more channels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction


def with_groups_together(spec: Contraction, together: int) -> Contraction:
    """`spec` with `together` groups as one; its weights are not those of B."""
    if together == 1:
        return spec
    return replace(
        spec,
        groups=spec.groups // together,
        in_channels=together * spec.in_channels,
        out_channels=together * spec.out_channels,
        a=replace(spec.a, group_stride=together * spec.a.group_stride),
        c=replace(spec.c, group_stride=together * spec.c.group_stride),
    )
