"""Several groups of a contraction as one of more channels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction


def are_neighbours(spec: Contraction) -> bool:
    """Whether the channels of a group lie behind those of the one before, in A and in C."""
    a, c = spec.a, spec.c
    return (
        a.group_stride == spec.in_channels * a.stride
        and c.group_stride == spec.out_channels * c.stride
    )


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
