"""The sizes of a problem in a source: constants of its code, and parameters of its entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.launch import Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.kernels.protocol import Size

ANY_SIZE = (1 << 31) - 1
"""Stands in code for the size of an axis that a launch hands over: no index reaches it."""


def value_of(size: Size) -> int:
    """The number, whoever is given it."""
    return size.value if isinstance(size, Scalar) else size


@dataclass(frozen=True)
class Sizes:
    """Named sizes, those that the code depends on apart from those that a launch hands over."""

    constants: Mapping[str, int]
    scalars: Mapping[str, Scalar]

    @staticmethod
    def of(sizes: Mapping[str, Size]) -> Sizes:
        """What each size is, by its type."""
        return Sizes(
            {name: size for name, size in sizes.items() if not isinstance(size, Scalar)},
            {name: size for name, size in sizes.items() if isinstance(size, Scalar)},
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of an entry, in the order of `arguments`."""
        return tuple(f"long long {name}" for name in self.scalars)

    @property
    def arguments(self) -> tuple[Scalar, ...]:
        """What a launch hands over."""
        return tuple(self.scalars.values())
