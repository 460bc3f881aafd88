"""Which config of `grouped_direct` a problem gets, best first.

The figures behind the table are in `README.md`. What moves it: weights stay in
registers, so channels of a group decide how many warps fit; a stride of 1 reads each pixel for nine
outputs, so several output rows share what is read; a strided backward pass writes four times what
it reads, so wide blocks whose stores cover whole lines win.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.config import MMA, WGMMA, Instruction
from convir.lowering.kernels.cuda.direct.problem import VECTOR
from convir.lowering.kernels.cuda.direct.ring import ASYNC, TMA, Copies
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.grouped_direct.config import GroupedDirectConfig
from convir.lowering.kernels.cuda.grouped_direct.launch import (
    packed_groups,
    refusal,
    registers,
)
from convir.lowering.kernels.cuda.registers import WARPGROUP, registers_of, traded_registers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_direct.launch import PackedGroups
    from convir.lowering.kernels.cuda.grouped_wgrad.config import GroupedWgradConfig
    from convir.lowering.kernels.target import Target

MOST_DENSE = 128
"""Channels of a single group up to which times were measured, and are predicted."""

SLICE = 32
"""Output channels of a warp, at most."""

OLDER_REGISTERS = 8
"""Registers that the instructions before sm_90 take beside."""

LEAST_USED = 8
"""Rows of an image for each that is computed beside it."""


@dataclass(frozen=True)
class _Shape:
    """A line of the table: a config without what the problem's sizes decide."""

    channels: int
    cols: int
    warp_channels: int
    rows: int
    outputs: int
    tiles: int
    warps: int
    producer_warps: int
    resident: int
    copies: Copies = ASYNC
    instruction: Instruction = MMA


_STRIDED = (
    _Shape(128, 25, 32, 1, 4, 2, 8, 0, 1),
    _Shape(128, 25, 32, 1, 2, 2, 8, 0, 1),
    _Shape(64, 25, 32, 1, 1, 4, 8, 0, 1),
    _Shape(64, 25, 32, 1, 1, 2, 8, 0, 1),
    _Shape(64, 25, 16, 1, 1, 2, 8, 0, 1),
    _Shape(32, 16, 32, 1, 1, 1, 4, 0, 1),
    _Shape(32, 16, 16, 1, 1, 1, 4, 0, 1),
    _Shape(64, 8, 16, 1, 1, 1, 4, 0, 1),
)
"""For several phases, or strided reads: what is stored, or read, outweighs the other."""

_DEEP_STRIDED = (_Shape(64, 25, 32, 1, 1, 4, 8, 0, 1), *_STRIDED)
"""The same, where a group's channels of A fill slices."""

_DENSE = (
    _Shape(64, 25, 32, 2, 2, 1, 4, 1, 2, TMA),
    _Shape(64, 25, 32, 2, 2, 1, 4, 1, 2),
    _Shape(64, 25, 16, 2, 2, 1, 8, 0, 2),
    _Shape(64, 25, 16, 5, 5, 1, 8, 4, 1),
    _Shape(32, 25, 32, 2, 2, 1, 4, 0, 2),
    _Shape(64, 25, 16, 1, 1, 1, 8, 0, 1),
    _Shape(32, 16, 32, 1, 1, 1, 4, 0, 1),
    _Shape(32, 16, 16, 1, 1, 1, 4, 0, 1),
    _Shape(64, 8, 16, 1, 1, 1, 4, 0, 1),
)
"""For one phase."""

_DEEP = (_Shape(32, 25, 32, 2, 2, 1, 12, 4, 1, TMA, WGMMA), *_DENSE)
"""The same, where a group's channels of A fill slices: their weights leave few registers."""

_SHALLOW = (
    _Shape(64, 28, 32, 4, 4, 1, 8, 1, 1, TMA),
    _Shape(64, 28, 32, 4, 4, 1, 8, 0, 1),
    _Shape(64, 25, 32, 4, 4, 1, 8, 0, 1),
    *_DENSE,
)
"""The same, where a group has 8 channels of A."""


def groups_of(problem: DirectProblem) -> PackedGroups | Refusal:
    """The groups of a contraction, or why the family does not take it."""
    contraction = problem.contraction
    if contraction.groups == problem.taps == 1:
        return Refusal("it is a matrix product")
    channels = max(contraction.in_channels, contraction.out_channels)
    if contraction.groups == 1 and channels > MOST_DENSE:
        return Refusal(f"one group of {channels} channels was never measured")
    return packed_groups(problem)


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[GroupedDirectConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why the kernel family does not take it."""
    read = reading(contraction, epilogue, groups_of)
    if isinstance(read, Refusal):
        return read
    problem, packed = read
    configs = tuple(_legal(problem, packed, gpu))
    return configs or Refusal("no config has registers and shared memory for its weights")


def _legal(
    problem: DirectProblem, packed: PackedGroups, gpu: Target
) -> Iterator[GroupedDirectConfig]:
    channels = packed.groups * packed.out_channels
    for shape in _table(problem, packed):
        if shape.channels > channels or _wastes_rows(problem, shape):
            continue
        config = _config(problem, shape, gpu)
        spare = 0 if gpu.is_hopper else OLDER_REGISTERS
        if not gpu.is_hopper and (config.copies == TMA or config.instruction == WGMMA):
            continue
        if registers(problem, packed, config) + spare > allowed_registers(config):
            continue
        if refusal(problem, packed, config, gpu) is None:
            yield config


def _table(problem: DirectProblem, packed: PackedGroups) -> tuple[_Shape, ...]:
    if len(problem.phases) > 1 or problem.cols.step > 1:
        return _DEEP_STRIDED if packed.in_channels >= SLICE else _STRIDED
    if packed.in_channels >= SLICE:
        return _DEEP
    return _SHALLOW if packed.in_channels == VECTOR else _DENSE


def _wastes_rows(problem: DirectProblem, shape: _Shape) -> bool:
    """Whether many of the output rows that share what they read lie outside of the image."""
    rows = problem.row_count
    return rows >= shape.rows and -rows % shape.rows * LEAST_USED > rows


def allowed_registers(config: GroupedDirectConfig | GroupedWgradConfig) -> int:
    """Registers that a thread which computes may have."""
    resident = config.blocks[1]
    if config.copies == TMA and config.producer_warps == WARPGROUP:
        return traded_registers(config.warps, resident)
    return registers_of(config.warps + config.producer_warps, resident)


def _config(problem: DirectProblem, shape: _Shape, gpu: Target) -> GroupedDirectConfig:
    tiles = -(-problem.col_count // shape.cols)
    rows = min(shape.rows, problem.row_count)
    return GroupedDirectConfig(
        channels=shape.channels,
        cols=-(-problem.col_count // tiles),
        warp_channels=shape.warp_channels,
        rows=rows,
        outputs=min(shape.outputs, rows) if len(problem.phases) == 1 else shape.outputs,
        tiles=shape.tiles,
        stages=2,
        warps=shape.warps,
        producer_warps=shape.producer_warps,
        copies=shape.copies,
        instruction=shape.instruction,
        blocks=(gpu.multiprocessors, shape.resident),
    )
