"""One convolution problem as data: what importers, benchmarks and tuning records speak of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from convir.dialects.conv.geometry import ROLES, Direction
from convir.dialects.conv.layouts import FILTER_TO_ACTIVATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.dialects.conv.geometry import Geometry, Role
    from convir.dialects.conv.windows import Window

COMMANDS: Mapping[str, str] = {
    "f16": "convfp16",
    "bf16": "convbfp16",
    "f32": "conv",
    "f64": "convfp64",
}
"""Element type to the first word of a MIOpenDriver line; `convfp64` is an extension of ours."""
ELEMENT_BYTES: Mapping[str, int] = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
"""Element type to its size in bytes."""
DIRECTION_FLAGS: Mapping[Direction, int] = {
    Direction.FPROP: 1,
    Direction.DGRAD: 2,
    Direction.WGRAD: 4,
}
"""Direction to its value in a line's `-F`, which sums several."""

_INPUT_FLAGS = ("--in_d", "-H", "-W")
_FILTER_FLAGS = ("--fil_d", "-y", "-x")
_PAD_FLAGS = ("--pad_d", "-p", "-q")
_STRIDE_FLAGS = ("--conv_stride_d", "-u", "-v")
_DILATION_FLAGS = ("--dilation_d", "-l", "-j")
"""Options along D, H and W, of which a problem with fewer dimensions uses the last."""


@dataclass(frozen=True)
class ConvProblem:
    """The sizes, geometry, direction and element type of one convolution.

    All operands and the result have elements of `dtype`; f16 and bf16 accumulate in f32.

    Raises:
        ValueError: on construction, if the sizes do not describe a convolution.
    """

    direction: Direction
    dtype: str
    """`f16`, `bf16`, `f32` or `f64`."""
    n: int
    """Batch size."""
    c: int
    """Channels of the input, all groups together."""
    k: int
    """Channels of the output, all groups together."""
    spatial: tuple[int, ...]
    """Sizes of the input (D, H, W)."""
    taps: tuple[int, ...]
    """Sizes of the filter (T, R, S)."""
    geometry: Geometry

    def __post_init__(self) -> None:
        if self.dtype not in COMMANDS:
            raise ValueError(f"element type {self.dtype} is not one of {', '.join(COMMANDS)}")
        for name, size, smallest in (
            ("the batch size", self.n, 0),
            ("the number of input channels", self.c, 0),
            ("the number of output channels", self.k, 0),
            *(("an input size", size, 0) for size in self.spatial),
            *(("a filter size", size, 1) for size in self.taps),
            *(("a stride", size, 1) for size in self.geometry.strides),
            *(("a dilation", size, 1) for size in self.geometry.dilations),
            *(("padding", size, 0) for size in self.geometry.pad_low + self.geometry.pad_high),
            ("the number of groups", self.geometry.groups, 1),
        ):
            if size < smallest:
                raise ValueError(f"{name} must be at least {smallest}, found {size}")
        for name, channels in (("input", self.c), ("output", self.k)):
            if channels % self.geometry.groups != 0:
                raise ValueError(
                    f"{channels} {name} channels do not divide into {self.geometry.groups} groups"
                )
        geometry = self.geometry
        sizes = (geometry.strides, geometry.dilations, geometry.pad_low, geometry.pad_high)
        ranks = {len(values) for values in (self.spatial, self.taps, *sizes)}
        if len(ranks | {layout.spatial_rank for layout in geometry.layouts}) != 1:
            raise ValueError("sizes and layouts differ in their number of spatial dimensions")
        for letter, size, window in zip(
            self.geometry.layouts[0].spatial, self.spatial, self.windows, strict=True
        ):
            try:
                window.output_size(size)
            except ValueError as error:
                raise ValueError(f"along {letter}, {error}") from None

    @property
    def windows(self) -> tuple[Window, ...]:
        """The window along each spatial dimension."""
        return self.geometry.windows(self.filter_shape)

    @property
    def output_spatial(self) -> tuple[int, ...]:
        """Sizes of the output (O, P, Q)."""
        return tuple(w.output_size(h) for w, h in zip(self.windows, self.spatial, strict=True))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input (or its gradient) in its layout."""
        return self.geometry.layouts[0].arrange(self.n, self.c, self.spatial)

    @property
    def filter_shape(self) -> tuple[int, ...]:
        """The shape of the filter (or its gradient) in its layout."""
        per_group = self.c // self.geometry.groups
        return self.geometry.layouts[1].arrange(self.k, per_group, self.taps)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output (or its gradient) in its layout."""
        return self.geometry.layouts[2].arrange(self.n, self.k, self.output_spatial)

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The shapes of the left operand, the right operand and the result."""
        by_role: dict[Role, tuple[int, ...]] = {
            "input": self.input_shape,
            "filter": self.filter_shape,
            "output": self.output_shape,
        }
        lhs, rhs, result = self.direction.roles
        return by_role[lhs], by_role[rhs], by_role[result]

    def axes(self, role: Role) -> list[int]:
        """Where the axes N (or K), C and the spatial ones stand in the layout of `role`."""
        layout = self.geometry.layouts[ROLES.index(role)]
        ordered = (layout.outer, "C", *layout.spatial)
        return [layout.letters.index(letter) for letter in ordered]

    @property
    def channels_last(self) -> ConvProblem:
        """The same problem with channels innermost in every operand, as in `NHWC` and `KRSC`."""
        geometry = self.geometry
        inputs, filters, outputs = (
            layout.outer + layout.spatial + "C" for layout in geometry.layouts
        )
        arranged = replace(
            geometry, input_layout=inputs, filter_layout=filters, output_layout=outputs
        )
        return replace(self, geometry=arranged)

    def transposition(self, role: Role, other: ConvProblem) -> list[int]:
        """The axis of an operand here that each axis of its layout in `other` comes from."""
        at = ROLES.index(role)
        letters = self.geometry.layouts[at].letters
        return [letters.index(letter) for letter in other.geometry.layouts[at].letters]

    @property
    def accumulator(self) -> str:
        """The type that products are summed in."""
        return "f64" if self.dtype == "f64" else "f32"

    @property
    def flops(self) -> int:
        """Multiplications and additions of the formula, taps in the padding included."""
        per_output = prod(self.taps) * (self.c // self.geometry.groups)
        return 2 * self.n * prod(self.output_spatial) * self.k * per_output

    @property
    def bytes(self) -> int:
        """Bytes that the formula touches: each element that is read or written, once.

        Input positions that a stride skips, taps and gradients that only meet padding do not
        count where they are read; the result counts in full.
        """
        sizes = list(zip(self.windows, self.spatial, self.output_spatial, strict=True))
        touched: dict[Role, int] = {
            "input": self.n * self.c * prod(w.inputs_read(h, p) for w, h, p in sizes),
            "filter": prod(self.filter_shape)
            // prod(self.taps)
            * prod(w.taps_used(h, p) for w, h, p in sizes),
            "output": self.n * self.k * prod(w.outputs_used(h, p) for w, h, p in sizes),
        }
        lhs, rhs, _ = self.direction.roles
        elements = touched[lhs] + touched[rhs] + prod(self.shapes[2])
        return elements * ELEMENT_BYTES[self.dtype]

    def line(self) -> str:
        """The MIOpenDriver line of this problem, in its canonical order.

        Raises:
            ValueError: it has no such line, because its padding is asymmetric.
        """
        geometry, rank = self.geometry, len(self.spatial)
        if geometry.pad_low != geometry.pad_high:
            raise ValueError("a MIOpenDriver line cannot say asymmetric padding")
        words = [COMMANDS[self.dtype]]
        if rank != 2:
            words += ["--spatial_dim", str(rank)]
        words += ["-n", str(self.n), "-c", str(self.c), *_options(_INPUT_FLAGS, self.spatial)]
        words += ["-k", str(self.k), *_options(_FILTER_FLAGS, self.taps)]
        words += _options(_PAD_FLAGS, geometry.pad_low)
        words += _options(_STRIDE_FLAGS, geometry.strides)
        words += _options(_DILATION_FLAGS, geometry.dilations)
        words += ["-g", str(geometry.groups), "-F", str(DIRECTION_FLAGS[self.direction])]
        filter_layout = "".join(FILTER_TO_ACTIVATION[x] for x in geometry.filter_layout)
        words += ["--in_layout", geometry.input_layout, "--fil_layout", filter_layout]
        return " ".join([*words, "--out_layout", geometry.output_layout])

    def __str__(self) -> str:
        try:
            return self.line()
        except ValueError:
            return repr(self)


def _options(flags: tuple[str, str, str], values: tuple[int, ...]) -> list[str]:
    words = ((flag, str(value)) for flag, value in zip(flags[-len(values) :], values, strict=True))
    return [word for pair in words for word in pair]
