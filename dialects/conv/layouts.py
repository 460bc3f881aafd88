"""Layouts of convolution operands: the order of their named dimensions, as `NHWC` or `KRSC`.

Activations (inputs, outputs and their gradients) have N, C and the spatial dimensions W, HW or
DHW. Filters have K (output channels), C (input channels of one group) and the taps S, RS or TRS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SPATIAL_RANK = 3
ACTIVATION_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
"""Spatial letters of an activation by spatial rank, slowest first."""
FILTER_SPATIAL = {1: "S", 2: "RS", 3: "TRS"}
"""Tap letters of a filter by spatial rank, in the order of the activation's."""
FILTER_TO_ACTIVATION = {"K": "N", "C": "C", "T": "D", "R": "H", "S": "W"}
"""The letters by which MIOpen calls a filter's dimensions: those of an activation."""


@dataclass(frozen=True)
class Layout:
    """The named dimensions of one operand, slowest first."""

    letters: str
    """One letter a dimension, e.g. `NHWC`."""
    outer: str
    """The letter that is neither spatial nor C: `N` of an activation, `K` of a filter."""
    spatial: str
    """The spatial letters in canonical order: D H W, or T R S."""

    @staticmethod
    def activation(letters: str) -> Layout:
        """The layout of an activation, such as `NHWC`, `NCW` or `NCDHW`.

        Raises:
            ValueError: the letters are not N, C and W, HW or DHW, each once.
        """
        return _layout(letters, "N", ACTIVATION_SPATIAL, "an activation", "NHWC")

    @staticmethod
    def filter(letters: str) -> Layout:
        """The layout of a filter, such as `KRSC`, `RSCK` or `KCTRS`.

        Raises:
            ValueError: the letters are not K, C and S, RS or TRS, each once.
        """
        return _layout(letters, "K", FILTER_SPATIAL, "a filter", "KRSC")

    @property
    def rank(self) -> int:
        """How many dimensions the operand has."""
        return len(self.letters)

    @property
    def spatial_rank(self) -> int:
        """How many of them are spatial."""
        return len(self.spatial)

    @property
    def outer_axis(self) -> int:
        """The axis of N or K."""
        return self.letters.index(self.outer)

    @property
    def channel_axis(self) -> int:
        """The axis of C."""
        return self.letters.index("C")

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The axes of the spatial dimensions, in canonical order."""
        return tuple(self.letters.index(letter) for letter in self.spatial)

    def arrange(self, outer: int, channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """The shape of an operand with these sizes, in this layout."""
        sizes = {self.outer: outer, "C": channels, **dict(zip(self.spatial, spatial, strict=True))}
        return tuple(sizes[letter] for letter in self.letters)

    def __str__(self) -> str:
        return self.letters


def _layout(
    letters: str, outer: str, spatial_letters: Mapping[int, str], what: str, example: str
) -> Layout:
    spatial = spatial_letters.get(len(letters) - 2)
    if spatial is None or sorted(letters) != sorted(outer + "C" + spatial):
        known = ", ".join(f"{outer}{text}C" for text in spatial_letters.values())
        raise ValueError(
            f"'{letters}' is not the layout of {what}: "
            f"expected a permutation of {known} (for example {example})"
        )
    return Layout(letters, outer, spatial)
