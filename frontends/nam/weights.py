"""The weights of a model, taken one tensor after the other."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from convir.dialects.conv.constant import range_key
from convir.frontends.elements import constant
from convir.frontends.nam.errors import NamError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation

    from convir.frontends.nam.model import NamFile, WaveNet


class Weights:
    """The list of a model's weights, and how many of them were taken."""

    def __init__(self, source: NamFile, net: WaveNet) -> None:
        self._file = source.file
        self._where = f"{net.path}.weights" if net.path else "weights"
        self._values = net.weights
        self._taken = 0

    def take(self, shape: Sequence[int]) -> Operation:
        """A constant of the next weights, in row-major order.

        Raises:
            NamError: there are not so many left.
        """
        begin, self._taken = self._taken, self._taken + prod(shape)
        values = self._values[begin : self._taken]
        if len(values) < prod(shape):
            message = f"has {len(self._values)} numbers, fewer than its model needs"
            raise NamError(self._file, f"{self._where} {message}")
        key = range_key(self._where, begin, self._taken)
        return constant(values.reshape(shape), self._file, key)

    def last(self) -> float:
        """The last weight, a single number.

        Raises:
            NamError: there is none left, or more than one.
        """
        left = len(self._values) - self._taken
        if left != 1:
            message = f"has {len(self._values)} numbers, its model needs {self._taken + 1}"
            raise NamError(self._file, f"{self._where} {message}")
        return float(self._values[-1])
