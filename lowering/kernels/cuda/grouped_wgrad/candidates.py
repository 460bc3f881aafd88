"""Which config of `grouped_wgrad` a problem gets, best first.

The figures behind the table are in `README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.ring import ASYNC, TMA, Copies
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.grouped_direct.candidates import (
    OLDER_REGISTERS,
    allowed_registers,
)
from convir.lowering.kernels.cuda.grouped_wgrad.config import GroupedWgradConfig
from convir.lowering.kernels.cuda.grouped_wgrad.launch import (
    TILE_M,
    accumulators,
    jobs,
    packed_groups,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_direct.launch import PackedGroups
    from convir.lowering.kernels.target import Target

OTHER_REGISTERS = 48
"""Registers of a thread for addresses, rows of A and all else but accumulators and what it holds
of C."""

COPY_REGISTERS = 15
"""Registers of a thread that also copies rows."""


@dataclass(frozen=True)
class _Shape:
    """A line of the table: a config without what the problem's sizes decide."""

    channels: int
    cols: int
    warp_channels: int
    rows: int
    tiles: int
    stages: int
    warps: int
    producer_warps: int
    resident: int
    copies: Copies = ASYNC


_STRIDED = (
    _Shape(64, 25, 32, 1, 1, 3, 8, 4, 1, TMA),
    _Shape(64, 25, 32, 1, 1, 4, 8, 4, 1, TMA),
    _Shape(64, 25, 32, 1, 1, 2, 4, 0, 2),
    _Shape(64, 25, 16, 1, 1, 2, 8, 0, 1),
)
"""For output pixels that share little of what they read."""

_NARROW_STRIDED = (
    _Shape(64, 100, 16, 1, 1, 7, 4, 4, 1, TMA),
    _Shape(64, 100, 16, 1, 1, 5, 4, 4, 1, TMA),
    _Shape(64, 25, 16, 1, 1, 3, 8, 4, 1, TMA),
    _Shape(128, 25, 16, 1, 1, 2, 8, 1, 1),
    *_STRIDED,
)
"""The same, where a warp has all columns of a group of 16."""

_DENSE = (
    _Shape(64, 25, 32, 3, 1, 3, 8, 4, 1, TMA),
    _Shape(64, 25, 32, 2, 1, 2, 4, 0, 2),
    _Shape(64, 25, 16, 2, 1, 2, 8, 0, 1),
)
"""For adjacent rows that share their windows."""

_NARROW_DENSE = (
    _Shape(64, 100, 16, 2, 1, 5, 8, 4, 1, TMA),
    _Shape(64, 25, 16, 3, 1, 4, 8, 4, 1, TMA),
    _Shape(64, 50, 16, 2, 1, 4, 8, 4, 1, TMA),
    _Shape(64, 50, 16, 2, 1, 5, 4, 1, 2, TMA),
    _Shape(64, 25, 16, 3, 1, 2, 4, 1, 2, TMA),
    _Shape(64, 25, 16, 2, 1, 2, 4, 1, 3),
    *_DENSE,
)
"""The same, where a warp has all columns of a group of 16."""

_WHOLE_DENSE = (_Shape(64, 50, 16, 2, 1, 8, 4, 4, 1, TMA), *_NARROW_DENSE)
"""The same for groups that are not merged: a warp for each part of the channels."""

_ANY = (
    _Shape(64, 25, 32, 1, 1, 1, 8, 0, 1),
    _Shape(64, 25, 16, 1, 1, 1, 4, 0, 1),
    _Shape(32, 16, 16, 1, 1, 1, 4, 0, 1),
    _Shape(16, 8, 16, 1, 1, 1, 2, 0, 1),
)


def registers(problem: DirectProblem, config: GroupedWgradConfig) -> int:
    """Registers of a thread, roughly."""
    copying = 0 if config.producer_warps else COPY_REGISTERS
    return (
        accumulators(problem, config)
        + config.rows * config.warp_channels // 4
        + OTHER_REGISTERS
        + copying
    )


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[GroupedWgradConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why the kernel family does not take it."""
    read = reading(contraction, epilogue, packed_groups, "B")
    if isinstance(read, Refusal):
        return read
    problem, packed = read
    configs = tuple(_legal(problem, packed, gpu))
    return configs or Refusal("no config has registers and shared memory for it")


def _legal(
    problem: DirectProblem, packed: PackedGroups, gpu: Target
) -> Iterator[GroupedWgradConfig]:
    for shape in (*_table(problem, packed), *_ANY):
        config = _config(problem, packed, shape, gpu)
        spare = 0 if gpu.is_hopper else OLDER_REGISTERS
        if config.copies == TMA and not gpu.is_hopper:
            continue
        if registers(problem, config) + spare > allowed_registers(config):
            continue
        if refusal(problem, packed, config, gpu) is None:
            yield config


def _table(problem: DirectProblem, packed: PackedGroups) -> tuple[_Shape, ...]:
    is_narrow = packed.out_channels == TILE_M
    if problem.rows.step == 1 and problem.row_count > 1:
        if not is_narrow:
            return _DENSE
        return _WHOLE_DENSE if packed.packed == 1 else _NARROW_DENSE
    return _NARROW_STRIDED if is_narrow else _STRIDED


def _config(
    problem: DirectProblem, packed: PackedGroups, shape: _Shape, gpu: Target
) -> GroupedWgradConfig:
    tiles = -(-problem.col_count // shape.cols)
    config = GroupedWgradConfig(
        channels=min(max(1, shape.channels // packed.in_channels), packed.groups)
        * packed.in_channels,
        cols=-(-problem.col_count // tiles),
        warp_channels=TILE_M
        if packed.out_channels % shape.warp_channels != 0
        else shape.warp_channels,
        rows=min(shape.rows, problem.row_count),
        tiles=shape.tiles,
        stages=shape.stages,
        warps=shape.warps,
        producer_warps=shape.producer_warps,
        copies=shape.copies,
        blocks=(gpu.multiprocessors, shape.resident),
    )
    sharing = jobs(packed, config)
    return replace(config, warps=max(1, shape.warps // sharing) * sharing)
