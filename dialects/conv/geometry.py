"""The geometry of a convolution: what is said of it besides the shapes of its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

from convir.dialects.conv.layouts import Layout
from convir.dialects.conv.windows import Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Role: TypeAlias = Literal["input", "filter", "output"]
"""Which of the forward convolution's three tensors (or its gradient) an operand is."""
ROLES: tuple[Role, Role, Role] = ("input", "filter", "output")


class Direction(StrEnum):
    """Which of the three tensors is computed from the other two."""

    FPROP = "fprop"
    DGRAD = "dgrad"
    WGRAD = "wgrad"

    @property
    def roles(self) -> tuple[Role, Role, Role]:
        """The roles of the left operand, the right operand and the result."""
        return _ROLES_OF[self]


_ROLES_OF: Mapping[Direction, tuple[Role, Role, Role]] = {
    Direction.FPROP: ("input", "filter", "output"),
    Direction.DGRAD: ("output", "filter", "input"),
    Direction.WGRAD: ("input", "output", "filter"),
}


@dataclass(frozen=True)
class Geometry:
    """Layouts, strides, padding, dilations and groups; one of each size per spatial dimension.

    The tuples follow the canonical order of the spatial dimensions (D, H, W), whatever the layouts.
    Nothing is checked here: the verifier of the conv ops says what is wrong with a geometry.
    """

    input_layout: str
    """E.g. `NHWC`; also of the input's gradient."""
    filter_layout: str
    """E.g. `KRSC`; also of the filter's gradient."""
    output_layout: str
    """E.g. `NHWC`; also of the output's gradient."""
    strides: tuple[int, ...]
    pad_low: tuple[int, ...]
    pad_high: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1

    @property
    def layouts(self) -> tuple[Layout, Layout, Layout]:
        """The layouts of input, filter and output.

        Raises:
            ValueError: one of them is not a layout.
        """
        return (
            Layout.activation(self.input_layout),
            Layout.filter(self.filter_layout),
            Layout.activation(self.output_layout),
        )

    @property
    def spatial_rank(self) -> int:
        """How many spatial dimensions the strides speak of: 1 to 3."""
        return len(self.strides)

    def windows(self, filter_shape: Sequence[int]) -> tuple[Window, ...]:
        """The window along each spatial dimension, for a filter of this shape in its layout.

        Raises:
            ValueError: the shape, the layout and the sizes differ in their number of dimensions.
        """
        taps = (filter_shape[axis] for axis in Layout.filter(self.filter_layout).spatial_axes)
        sizes = (taps, self.strides, self.dilations, self.pad_low, self.pad_high)
        return tuple(Window(*values) for values in zip(*sizes, strict=True))
