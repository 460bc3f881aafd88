"""The steps that quantised tensors are counted in, as unsigned bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from convir.frontends.elements import Array

SIGN = 128
"""What is added to signed bytes to make them unsigned."""


def offset_of(dtype: np.dtype[np.generic]) -> int:
    """What is added to integers of a type to hold them as unsigned bytes."""
    return SIGN if dtype == np.int8 else 0


@dataclass(frozen=True)
class Steps:
    """Reals as unsigned bytes: `real = scale * (byte - zero)`."""

    scale: np.float32
    zero: int
    offset: int
    """What was added to the model's integers."""

    @staticmethod
    def of(scale: Array, zero: Array) -> Steps | None:
        """A model's scale and zero point; None unless they are of 8-bit integers, and of all."""
        if zero.dtype.name not in ("int8", "uint8") or scale.size != 1 or zero.size != 1:
            return None
        offset = offset_of(zero.dtype)
        return Steps(np.float32(scale.item()), int(zero.item()) + offset, offset)

    @property
    def signed_zero(self) -> int:
        """The model's zero point."""
        return self.zero - self.offset
