"""What the operands of a contraction weigh in memory, and what copying them takes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction, StorageType

COPY_CYCLES = 1.0
"""Of an element that is moved to where its neighbours are."""


def elements(spec: Contraction) -> tuple[int, int, int]:
    """Elements of A that may be read, of B, and of C."""
    axes = spec.phases[0].axes
    a = (
        prod(axis.extent for axis in axes)
        * spec.in_channels
        * (1 if spec.shares_rows else spec.groups)
    )
    b = spec.taps * spec.in_channels * spec.out_channels * spec.groups
    c = sum(phase.pixels for phase in spec.phases) * spec.out_channels * spec.groups
    return a, b, c


def operand_bytes(spec: Contraction) -> int:
    """Bytes of all operands, once each."""
    types = spec.a.type, spec.b.type, spec.c.type
    return sum(
        count * STORAGE_BYTES[kind] for count, kind in zip(elements(spec), types, strict=True)
    )


def copied_elements(spec: Contraction, read: StorageType) -> int:
    """Elements of A, and of C where B is computed, that kernels do not read where they lie.

    Args:
        spec: the contraction.
        read: the type that kernels read.
    """
    a, _, c = elements(spec)
    copied = a if spec.a.stride != 1 or spec.a.type != read else 0
    if spec.result == "B" and (spec.c.stride != 1 or spec.c.type != read):
        copied += c
    return copied
