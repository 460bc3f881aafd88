"""The largest tensor there can be: what a process can address."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ADDRESS_SPACE_BYTES = 1 << 47
"""What a process can address on the machines that programs run on."""

MAX_RANK = 64
"""No array has more dimensions: NumPy's limit."""


def check_addressable(shape: Sequence[int]) -> None:
    """Refuse a static shape that no memory holds, whatever its elements are.

    Raises:
        ValueError: a size is negative, or there are too many dimensions or elements.
    """
    if len(shape) > MAX_RANK:
        raise ValueError(f"no tensor has {len(shape)} dimensions")
    if any(size < 0 for size in shape):
        raise ValueError(f"no tensor has the sizes {list(shape)}")
    if prod(shape) >= ADDRESS_SPACE_BYTES or any(size >= ADDRESS_SPACE_BYTES for size in shape):
        raise ValueError(f"no address space holds a tensor of the sizes {list(shape)}")
