"""Window arithmetic of a convolution, one spatial dimension at a time, on plain integers.

For an input of size H, a filter of R taps and an output of size P, all directions share

    h = p * stride + r * dilation - pad_low        (p in [0, P), r in [0, R))

where a tap outside [0, H) reads padding: the value 0. Every question about sizes, padding, the
scatter of a backward data convolution or which elements are touched is answered here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX

from convir.dialects.conv.lattice_points import Rectangle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.dialects.conv.layouts import Layout


@dataclass(frozen=True)
class Scatter:
    """Where the output gradient lands in the zeros that a dense convolution then reads.

    Element `first + i` of the gradient, for i in [0, count), sits at `offset + i * stride` of a
    buffer of `size` elements. The input gradient is the correlation of that buffer with the
    flipped (and still dilated) filter, at stride 1 and without padding.
    """

    size: int
    offset: int
    stride: int
    first: int
    """The first gradient element that lands in the buffer; those before it read only padding."""
    count: int
    """How many gradient elements land in the buffer; 0 if every tap reads padding."""


@dataclass(frozen=True)
class Window:
    """The filter's window along one spatial dimension."""

    taps: int
    """The size R of the filter, at least 1."""
    stride: int = 1
    """Input positions between two outputs, at least 1."""
    dilation: int = 1
    """Input positions between two taps, at least 1."""
    pad_low: int = 0
    """Zeros before the first input position."""
    pad_high: int = 0
    """Zeros after the last input position."""

    @property
    def extent(self) -> int:
        """Input positions from the first to the last tap, both included."""
        return self.dilation * (self.taps - 1) + 1

    def padded(self, input_size: int) -> int:
        """The size of the input with its padding."""
        return input_size + self.pad_low + self.pad_high

    def output_size(self, input_size: int) -> int:
        """How many windows fit: the size P of the output.

        Raises:
            ValueError: not even one window fits.
        """
        slack = self.padded(input_size) - self.extent
        if slack < 0:
            raise ValueError(
                f"a filter that spans {self.extent} does not fit "
                f"a padded input of {self.padded(input_size)}"
            )
        return slack // self.stride + 1

    def smallest_input(self, output_size: int) -> int:
        """The smallest H that gives P outputs; so do the `stride - 1` sizes above it."""
        return (output_size - 1) * self.stride + self.extent - self.pad_low - self.pad_high

    def reads(self, output_position: int, tap: int) -> int:
        """The input position that `tap` of the window at `output_position` reads."""
        return output_position * self.stride + tap * self.dilation - self.pad_low

    def scatter(self, input_size: int, output_size: int) -> Scatter:
        """How the output gradient is spread for the backward data convolution."""
        reach = self.dilation * (self.taps - 1)
        size = input_size + reach
        unclipped = reach - self.pad_low
        first = max(0, -(unclipped // self.stride))
        offset = unclipped + first * self.stride
        end = min(output_size, max(0, (size - 1 - unclipped) // self.stride + 1))
        return Scatter(size, offset, self.stride, first, max(0, end - first))

    def outputs_of_tap(self, tap: int, input_size: int, output_size: int) -> range:
        """The output positions whose `tap` reads a real input position."""
        shift = self.pad_low - tap * self.dilation
        begin = max(0, -(-shift // self.stride))
        end = min(output_size, max(0, (input_size - 1 + shift) // self.stride + 1))
        return range(begin, max(begin, end))

    def inputs_read(self, input_size: int, output_size: int) -> int:
        """How many input positions any window reads."""
        reads = Rectangle(output_size, self.stride, self.taps, self.dilation)
        return reads.places_within(self.pad_low, self.pad_low + input_size)

    def outputs_used(self, input_size: int, output_size: int) -> int:
        """How many output positions have a tap on a real input position."""
        reads = Rectangle(output_size, self.stride, self.taps, self.dilation)
        return reads.columns_within(self.pad_low, self.pad_low + input_size)

    def taps_used(self, input_size: int, output_size: int) -> int:
        """How many taps read a real input position from some window."""
        reads = Rectangle(self.taps, self.dilation, output_size, self.stride)
        return reads.columns_within(self.pad_low, self.pad_low + input_size)

    def __str__(self) -> str:
        return (
            f"filter {self.taps}, stride {self.stride}, dilation {self.dilation}, "
            f"padding {self.pad_low}:{self.pad_high}"
        )


def output_shape(
    input_shape: Sequence[int],
    filter_shape: Sequence[int],
    windows: Sequence[Window],
    layouts: tuple[Layout, Layout, Layout],
) -> tuple[int, ...]:
    """The shape that fprop infers for its output, in the output's layout.

    Args:
        input_shape: sizes of the input in its layout, possibly dynamic.
        filter_shape: sizes of the filter in its layout, possibly dynamic.
        windows: one window per spatial dimension, in canonical order (D H W).
        layouts: of input, filter and output.

    Raises:
        ValueError: along some dimension not even one window fits.
    """
    input_layout, filter_layout, output_layout = layouts
    spatial: list[int] = []
    for letter, axis, window in zip(
        input_layout.spatial, input_layout.spatial_axes, windows, strict=True
    ):
        size = input_shape[axis]
        if DYNAMIC_INDEX in (size, window.taps):
            spatial.append(DYNAMIC_INDEX)
            continue
        try:
            spatial.append(window.output_size(size))
        except ValueError as error:
            raise ValueError(f"along {letter}, {error}") from None
    return output_layout.arrange(
        input_shape[input_layout.outer_axis], filter_shape[filter_layout.outer_axis], spatial
    )
