"""The configs of the direct templates: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from convir.lowering.kernels.cuda.config import ConfigText, sizes
from convir.lowering.kernels.cuda.direct.ring import ASYNC, Copies

GROUPED: Final = "grouped"
GROUPED_PAIRS: Final = "grouped-pairs"
GROUPED_WGRAD: Final = "grouped-wgrad"
GROUPED_WGRAD_PAIRS: Final = "grouped-wgrad-pairs"
NARROW: Final = "narrow"
SCALAR: Final = "scalar"
SHALLOW: Final = "shallow"

Math: TypeAlias = Literal["mma", "wgmma"]
"""The matrix instructions: a warp's with weights in registers, or a warpgroup's (sm_90a)."""

MMA: Final = "mma"
WGMMA: Final = "wgmma"

TILE = 16
"""Output positions of a matrix instruction."""


@dataclass(frozen=True)
class GroupedConfig:
    """How blocks and warps of `grouped_direct/kernel.cuh` share the work.

    Prints as `grouped 64x25 slice=32 rows=2 outputs=2 tiles=1 stages=2 warps=8 loaders=0
    copies=async math=mma blocks=132x1`.
    """

    channels: int
    """Output channels of a block."""
    cols: int
    """Output columns of a row of the list."""
    slice: int
    """Output channels of a warp, 16 or 32."""
    rows: int
    """Output rows of a position: rows of A are read from shared memory once for all of them."""
    outputs: int
    """Outputs of a position that are summed at once."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    warps: int
    """Warps that compute."""
    loaders: int
    """Warps that only copy rows; 0 if all warps copy between two steps. Four of them leave the
    others most of their registers, if the copy engine copies."""
    copies: Copies
    """Who copies rows."""
    math: Math
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{GROUPED} {self.channels}x{self.cols} slice={self.slice} rows={self.rows} "
            f"outputs={self.outputs} tiles={self.tiles} stages={self.stages} "
            f"warps={self.warps} loaders={self.loaders} copies={self.copies} "
            f"math={self.math} blocks={self.blocks[0]}x{self.blocks[1]}"
        )

    @property
    def step_positions(self) -> int:
        """Output positions of a block's step."""
        return self.warps * self.slice // self.channels * self.tiles * TILE


@dataclass(frozen=True)
class GroupedPairsConfig:
    """How blocks of `sm90_grouped_direct/kernel.cuh` share the work.

    Prints as `grouped-pairs 13 slots=4 parts=4 blocks=132x1`.
    """

    pairs: int
    """Pairs of output rows of a strip."""
    slots: int
    """Strips that are under way or in use."""
    parts: int
    """Blocks that share the strips of a group."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{GROUPED_PAIRS} {self.pairs} slots={self.slots} parts={self.parts} "
            f"blocks={self.blocks[0]}x{self.blocks[1]}"
        )


@dataclass(frozen=True)
class GroupedWgradConfig:
    """How blocks and warps of `grouped_wgrad/kernel.cuh` share the work.

    Prints as `grouped-wgrad 64x25 slice=32 rows=2 tiles=1 stages=2 warps=4 loaders=0 copies=async
    blocks=132x2`.
    """

    channels: int
    """Channels of A of a block."""
    cols: int
    """Output columns of a row of the list."""
    slice: int
    """Columns of B of a warp, which has 16 depths of them."""
    rows: int
    """Output rows of a position: rows of A are read from shared memory once for all of them."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    warps: int
    """Warps that compute."""
    loaders: int
    """Warps that only copy rows; 0 if all warps copy between two steps. Four of them leave the
    others most of their registers, if the copy engine copies."""
    copies: Copies
    """Who copies rows."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{GROUPED_WGRAD} {self.channels}x{self.cols} slice={self.slice} rows={self.rows} "
            f"tiles={self.tiles} stages={self.stages} warps={self.warps} loaders={self.loaders} "
            f"copies={self.copies} blocks={self.blocks[0]}x{self.blocks[1]}"
        )


@dataclass(frozen=True)
class GroupedWgradPairsConfig:
    """How blocks of `sm90_grouped_wgrad/kernel.cuh` share the work.

    Prints as `grouped-wgrad-pairs 13 slots=4 blocks=132x1`.
    """

    rows: int
    """Rows of positions of a strip."""
    slots: int
    """Strips that are under way or in use."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{GROUPED_WGRAD_PAIRS} {self.rows} slots={self.slots} "
            f"blocks={self.blocks[0]}x{self.blocks[1]}"
        )


@dataclass(frozen=True)
class NarrowConfig:
    """How blocks and warps of `few_output_channels/kernel.cuh` share the work.

    Prints as `narrow 73 depth=1 tiles=2 stages=2 warps=8 loaders=0 blocks=132x2`.
    """

    cols: int
    """Output columns of a row of the list."""
    depth: int
    """Warps that share the channels of A of a position."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    warps: int
    """Warps that compute."""
    loaders: int
    """Warps that only copy rows; 0 if all warps copy between two steps."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{NARROW} {self.cols} depth={self.depth} tiles={self.tiles} stages={self.stages} "
            f"warps={self.warps} loaders={self.loaders} blocks={self.blocks[0]}x{self.blocks[1]}"
        )

    @property
    def step_positions(self) -> int:
        """Output positions of a block's step."""
        return self.warps // self.depth * self.tiles * TILE


@dataclass(frozen=True)
class ScalarConfig:
    """How threads of `simt_direct/kernel.cuh` share the work.

    Prints as `scalar 1x2 warps=4 blocks=132x2`.
    """

    rows: int
    """Output rows of a thread."""
    cols: int
    """Output columns of a thread."""
    warps: int
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each whose registers fit."""

    def __str__(self) -> str:
        return (
            f"{SCALAR} {self.rows}x{self.cols} warps={self.warps} "
            f"blocks={self.blocks[0]}x{self.blocks[1]}"
        )


@dataclass(frozen=True)
class ShallowConfig:
    """How blocks and warps of `few_input_channels/kernel.cuh` share the work.

    Prints as `shallow 2x64 tiles=2 warps=7 blocks=132x3`.
    """

    rows: int
    """Output rows of a strip."""
    columns: int
    """Output channels of a block, 32 or 64."""
    tiles: int
    """Tiles of a warp that share what it reads of the filter."""
    warps: int
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{SHALLOW} {self.rows}x{self.columns} tiles={self.tiles} warps={self.warps} "
            f"blocks={self.blocks[0]}x{self.blocks[1]}"
        )


def parse_grouped(text: str) -> GroupedConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    keys = ("slice", "rows", "outputs", "tiles", "stages", "warps", "loaders")
    taken = _taken(text, GROUPED, 2, (*keys, "copies", "math"))
    channels, cols = taken.sizes
    return GroupedConfig(
        channels, cols, *taken.numbers, copies=taken.copies, math=taken.math, blocks=taken.blocks
    )


def parse_grouped_pairs(text: str) -> GroupedPairsConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = _taken(text, GROUPED_PAIRS, 1, ("slots", "parts"))
    return GroupedPairsConfig(*taken.sizes, *taken.numbers, blocks=taken.blocks)


def parse_grouped_wgrad(text: str) -> GroupedWgradConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    keys = ("slice", "rows", "tiles", "stages", "warps", "loaders")
    taken = _taken(text, GROUPED_WGRAD, 2, (*keys, "copies"))
    channels, cols = taken.sizes
    return GroupedWgradConfig(
        channels, cols, *taken.numbers, copies=taken.copies, blocks=taken.blocks
    )


def parse_grouped_wgrad_pairs(text: str) -> GroupedWgradPairsConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = _taken(text, GROUPED_WGRAD_PAIRS, 1, ("slots",))
    return GroupedWgradPairsConfig(*taken.sizes, *taken.numbers, blocks=taken.blocks)


def parse_narrow(text: str) -> NarrowConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = _taken(text, NARROW, 1, ("depth", "tiles", "stages", "warps", "loaders"))
    return NarrowConfig(*taken.sizes, *taken.numbers, blocks=taken.blocks)


def parse_scalar(text: str) -> ScalarConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = _taken(text, SCALAR, 2, ("warps",))
    rows, cols = taken.sizes
    return ScalarConfig(rows, cols, *taken.numbers, blocks=taken.blocks)


def parse_shallow(text: str) -> ShallowConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = _taken(text, SHALLOW, 2, ("tiles", "warps"))
    rows, columns = taken.sizes
    return ShallowConfig(rows, columns, *taken.numbers, blocks=taken.blocks)


@dataclass(frozen=True)
class _Taken:
    """What the text of a config says."""

    sizes: tuple[int, ...]
    numbers: list[int]
    copies: Copies
    math: Math
    blocks: tuple[int, int]


def _taken(text: str, family: str, count: int, keys: tuple[str, ...]) -> _Taken:
    """The first so many sizes of a config, the numbers in the order of `keys`, and the rest."""
    taken = ConfigText.parse(text)
    expected = (*keys, "blocks")
    if taken.family != family or len(taken.words) != 1 or tuple(taken.values) != expected:
        raise ValueError(f"it is written {family} SIZES {'=… '.join(expected)}=…")
    counted = [key for key in keys if key not in ("copies", "math")]
    first = sizes(taken.words[0], count)
    numbers = [int(taken.values[key]) for key in counted]
    multiprocessors, resident = sizes(taken.values["blocks"], 2)
    least = [0 if key == "loaders" else 1 for key in counted]
    if (
        any(n < low for n, low in zip(numbers, least, strict=True))
        or min(*first, multiprocessors, resident) < 1
    ):
        raise ValueError("its numbers are at least 1, loaders at least 0")
    copies: dict[str, Copies] = {each: each for each in get_args(Copies)}
    math: dict[str, Math] = {each: each for each in get_args(Math)}
    named = taken.values.get("copies", ASYNC), taken.values.get("math", MMA)
    if named[0] not in copies or named[1] not in math:
        raise ValueError(f"copies are one of {', '.join(copies)}, math one of {', '.join(math)}")
    blocks = multiprocessors, resident
    return _Taken(first, numbers, copies[named[0]], math[named[1]], blocks)
