"""MIOpenDriver lines, in MIOpen's and in BOO's spelling, to convolution problems.

A line with `-m conv` describes a forward convolution (n x c x H x W input, k x c/g x y x x
filter); `-F` says which of forward (1), backward data (2) and backward weight (4) are wanted, as a
sum, 0 or nothing for all three.

A line with `-m trans` describes a transposed convolution of an n x c x H x W input with a
c x k/g x y x x filter. That is the backward data convolution of a problem in which c and k change
places and whose input is the line's output, of (H - 1) * stride + dilation * (y - 1) + 1 - 2 * pad
+ output_pad positions; its backward data is that problem's forward convolution. The three
functions keep the line's view: `forward` of a transposed line is a dgrad, and its backward weight
takes the line's input and the gradient of the line's output, in that order.

Layouts are written with MIOpen's letters (`NHWC` for a filter too) or with the filter's own
(`KRSC`), and default to channels first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.dialects.address_space import check_addressable
from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.layouts import (
    ACTIVATION_SPATIAL,
    FILTER_SPATIAL,
    FILTER_TO_ACTIVATION,
    Layout,
)
from convir.dialects.conv.problem import ConvProblem
from convir.dialects.conv.windows import Window
from convir.frontends.miopen_commands import DTYPES
from convir.frontends.miopen_options import LineError, Values, read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIMENSIONS = "dhw"
_MODES = ("conv", "trans")
_ALL_DIRECTIONS = 7
_FORWARD, _BACKWARD_DATA, _BACKWARD_WEIGHT = 1, 2, 4

_FUNCTIONS: Mapping[int, str] = {
    _FORWARD: "main_fwd",
    _BACKWARD_DATA: "main_bwd",
    _BACKWARD_WEIGHT: "main_wrw",
}
DIRECTIONS: Mapping[str, int] = {name: flag for flag, name in _FUNCTIONS.items()}
"""The value of `-F` for each function of a line with several directions."""
_CONV_DIRECTIONS: Mapping[int, Direction] = {
    _FORWARD: Direction.FPROP,
    _BACKWARD_DATA: Direction.DGRAD,
    _BACKWARD_WEIGHT: Direction.WGRAD,
}
_TRANS_DIRECTIONS: Mapping[int, Direction] = {
    _FORWARD: Direction.DGRAD,
    _BACKWARD_DATA: Direction.FPROP,
    _BACKWARD_WEIGHT: Direction.WGRAD,
}


@dataclass(frozen=True)
class ConvLine:
    """One line and the problems it asks for."""

    text: str
    """The line, without surrounding blanks and comment."""
    problems: Mapping[str, ConvProblem]
    """Function name to problem: `main` alone, or `main_fwd`, `main_bwd`, `main_wrw`."""
    transposed: bool = False
    """Whether it is a transposed convolution, whose problems call its input the output."""


@dataclass(frozen=True)
class _Sizes:
    """The numbers of a line along its spatial dimensions."""

    inputs: tuple[int, ...]
    taps: tuple[int, ...]
    pads: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    output_pads: tuple[int, ...]

    @property
    def windows(self) -> tuple[Window, ...]:
        """The window along each dimension."""
        sizes = (self.taps, self.strides, self.dilations, self.pads, self.pads)
        return tuple(Window(*values) for values in zip(*sizes, strict=True))


def parse_line(line: str) -> ConvLine:
    """The problems that a MIOpenDriver line asks for.

    Raises:
        LineError: the line is not one, or its sizes do not describe a convolution.
    """
    text = line.rstrip()
    values = read_options(text)
    rank = _spatial_rank(values)
    sizes = _sizes(values, rank)
    flags = _direction_flags(values)
    transposed = _choice(values, "mode", _MODES) == "trans"
    directions = _TRANS_DIRECTIONS if transposed else _CONV_DIRECTIONS
    problems = {
        _FUNCTIONS[flag]: _problem(values, sizes, directions[flag], transposed) for flag in flags
    }
    for problem in problems.values():
        _check_addressable(values, problem)
    if len(problems) == 1:
        problems = {"main": next(iter(problems.values()))}
    return ConvLine(text.strip(), problems, transposed)


def _check_addressable(values: Values, problem: ConvProblem) -> None:
    """Every tensor of a problem fits into an address space."""
    for shape in problem.shapes:
        try:
            check_addressable(shape)
        except ValueError as error:
            raise LineError(str(error), values.column("in_h", "in_w", "batchsize")) from None


def strip_comment(line: str) -> str:
    """A line of a commands file without its comment: a word that begins with `#` and the rest.

    `-#`, the depth stride, begins with a dash and is not a comment.
    """
    return re.sub(r"(?:^|\s)#.*", "", line).rstrip()


def _problem(values: Values, sizes: _Sizes, direction: Direction, transposed: bool) -> ConvProblem:
    rank = len(sizes.inputs)
    # The driver reads 0 groups as 1.
    groups = max(values.integer("group_count"), 1)
    in_layout = _activation_layout(values, "in_layout", rank)
    out_layout = _activation_layout(values, "out_layout", rank)
    filter_layout = _filter_layout(values, rank)
    channels, filters = values.integer("in_channels"), values.integer("out_channels")
    for name, count in (("in_channels", channels), ("out_channels", filters)):
        if count % groups != 0:
            raise LineError(
                f"--{name} {count} does not divide into {groups} groups", values.column(name)
            )
    spatial = sizes.inputs
    if transposed:
        in_layout, out_layout = out_layout, in_layout
        channels, filters = filters, channels
        spatial = _transposed_output(values, sizes)
    else:
        _check_output(values, sizes)
    geometry = Geometry(
        in_layout,
        filter_layout,
        out_layout,
        strides=sizes.strides,
        pad_low=sizes.pads,
        pad_high=sizes.pads,
        dilations=sizes.dilations,
        groups=groups,
    )
    return ConvProblem(
        direction,
        DTYPES[values.command.text],
        values.integer("batchsize"),
        channels,
        filters,
        spatial,
        sizes.taps,
        geometry,
    )


def _check_output(values: Values, sizes: _Sizes) -> None:
    """Every spatial dimension of a forward convolution's output has at least one position."""
    for letter, size, window in zip(_letters(sizes), sizes.inputs, sizes.windows, strict=True):
        try:
            window.output_size(size)
        except ValueError as error:
            names = (f"in_{letter}", f"fil_{letter}", f"dilation_{letter}")
            raise LineError(f"along {letter.upper()}, {error}", values.column(*names)) from None


def _transposed_output(values: Values, sizes: _Sizes) -> tuple[int, ...]:
    """Sizes of a transposed convolution's output, which its problem calls the input."""
    outputs: list[int] = []
    for letter, size, window, output_pad in zip(
        _letters(sizes), sizes.inputs, sizes.windows, sizes.output_pads, strict=True
    ):
        if output_pad >= window.stride:
            name = f"trans_output_pad_{letter}"
            raise LineError(
                f"--{name} {output_pad} must be less than the stride {window.stride}",
                values.column(name),
            )
        output = window.smallest_input(size) + output_pad
        if output < 1:
            raise LineError(
                f"the output's {letter.upper()} would be {output}",
                values.column(f"in_{letter}", f"pad_{letter}"),
            )
        outputs.append(output)
    return tuple(outputs)


def _sizes(values: Values, rank: int) -> _Sizes:
    letters = _DIMENSIONS[-rank:]

    def along(name: str, smallest: int) -> tuple[int, ...]:
        return tuple(_at_least(values, name.format(letter), smallest) for letter in letters)

    for name in ("batchsize", "in_channels", "out_channels"):
        _at_least(values, name, 1)
    _at_least(values, "group_count", 0)
    sizes = _Sizes(
        inputs=along("in_{}", 1),
        taps=along("fil_{}", 1),
        pads=along("pad_{}", 0),
        strides=along("conv_stride_{}", 1),
        dilations=along("dilation_{}", 1),
        output_pads=along("trans_output_pad_{}", 0),
    )
    return _with_pad_mode(values, sizes)


def _with_pad_mode(values: Values, sizes: _Sizes) -> _Sizes:
    """What `--pad_mode` makes of the paddings: `valid` none, `same` the driver's symmetric rule."""
    mode = _choice(values, "pad_mode", ("default", "same", "valid"))
    undilated = all(d == 1 for d in sizes.dilations) or all(t == 1 for t in sizes.taps)
    if mode == "default" or values.text("mode") == "trans" or not undilated:
        return sizes
    pads = tuple(
        max(taps - (size % stride or stride), 0) // 2 if mode == "same" else 0
        for size, taps, stride in zip(sizes.inputs, sizes.taps, sizes.strides, strict=True)
    )
    return replace(sizes, pads=pads)


def _spatial_rank(values: Values) -> int:
    """The number of spatial dimensions; where it is not given, layouts of another rank say it."""
    rank = values.integer("spatial_dim")
    column = values.column("spatial_dim")
    if rank not in ACTIVATION_SPATIAL:
        raise LineError(f"--spatial_dim must be 1, 2 or 3, found {rank}", column)
    layouts = ("in_layout", "fil_layout", "out_layout")
    ranks = {len(values.text(name)) - 2 for name in layouts if values.text(name)}
    if values.is_given("spatial_dim") or not ranks:
        return rank
    if len(ranks) > 1 or not ranks <= set(ACTIVATION_SPATIAL):
        raise LineError("the layouts do not have 3, 4 or 5 letters each", values.column(*layouts))
    return ranks.pop()


def _activation_layout(values: Values, name: str, rank: int) -> str:
    text = values.text(name)
    letters = text.upper() or "NC" + ACTIVATION_SPATIAL[rank]
    return _checked_layout(values, name, letters, rank)


def _filter_layout(values: Values, rank: int) -> str:
    text = values.text("fil_layout").upper()
    if "N" in text:
        own_letters = {other: letter for letter, other in FILTER_TO_ACTIVATION.items()}
        text = "".join(own_letters.get(letter, letter) for letter in text)
    letters = text or "KC" + FILTER_SPATIAL[rank]
    return _checked_layout(values, "fil_layout", letters, rank)


def _checked_layout(values: Values, name: str, letters: str, rank: int) -> str:
    parse = Layout.filter if name == "fil_layout" else Layout.activation
    try:
        layout = parse(letters)
    except ValueError as error:
        raise LineError(f"--{name}: {error}", values.column(name)) from None
    if layout.spatial_rank != rank:
        raise LineError(
            f"--{name} {letters} has {layout.spatial_rank} spatial dimensions, not {rank}",
            values.column(name),
        )
    return letters


def _direction_flags(values: Values) -> tuple[int, ...]:
    flags = values.integer("forw")
    if not 0 <= flags <= _ALL_DIRECTIONS:
        raise LineError(
            f"--forw must be a sum of 1 (forward), 2 (backward data) and 4 (backward weight), "
            f"or 0 for all, found {flags}",
            values.column("forw"),
        )
    return tuple(flag for flag in _FUNCTIONS if (flags or _ALL_DIRECTIONS) & flag)


def _letters(sizes: _Sizes) -> str:
    return _DIMENSIONS[-len(sizes.inputs) :]


def _at_least(values: Values, name: str, smallest: int) -> int:
    value = values.integer(name)
    if value < smallest:
        raise LineError(f"--{name} must be at least {smallest}, found {value}", values.column(name))
    return value


def _choice(values: Values, name: str, choices: tuple[str, ...]) -> str:
    value = values.text(name)
    if value not in choices:
        raise LineError(
            f"--{name} must be {', '.join(choices[:-1])} or {choices[-1]}, found '{value}'",
            values.column(name),
        )
    return value
