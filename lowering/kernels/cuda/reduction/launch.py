"""The launches of a config of `reduction`, and why a config is none for a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer, Scalar
from convir.lowering.kernels.cuda.reduction.config import MOST_THREADS
from convir.lowering.kernels.cuda.reduction.program_text import ProgramText
from convir.lowering.kernels.cuda.reduction.totals import largest_bytes, region_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.cuda.launch import Argument
    from convir.lowering.kernels.cuda.reduction.config import ReductionConfig
    from convir.lowering.kernels.cuda.reduction.problem import Rows
    from convir.lowering.kernels.target import Target

WARP = 32
BATCH = 4
"""Vectors under way of a thread that reads its elements anew (`Streamed::kBatch`)."""
STATIC_BYTES = 48 << 10
"""Shared memory that a block has without asking."""
HELD_REGISTERS = 72
"""Of what a thread keeps, so that nothing spills."""
SPILLED_BYTES = 32
"""What ptxas spills of a thread to keep to a number of registers that more blocks have room for."""
_ENTRY = "reduction"


def seen_by(rows: Rows, config: ReductionConfig) -> Rows:
    """The program as a config computes it: what is read again is read as seldom as may be."""
    return rows if config.held else rows.one_pass


def units(rows: Rows, config: ReductionConfig) -> int:
    """Blocks that have different rows."""
    if rows.is_along:
        return -(-rows.images // config.y)
    return rows.images * -(-rows.columns // config.x)


def refusal(rows: Rows, config: ReductionConfig, target: Target) -> Refusal | None:
    """Why a config may not run; None if it may."""
    if config.threads > MOST_THREADS or config.threads % WARP:
        return Refusal(f"{config.threads} threads are no whole warps of a block")
    sharing = config.x if rows.is_along else config.y
    if rows.is_along and config.x & (config.x - 1):
        return Refusal(f"{config.x} threads do not meet in pairs")
    width = config.x * rows.width
    if not rows.is_along and rows.run > 1 and width % rows.run:
        return Refusal(f"{width} neighbours are no whole runs of {rows.run}")
    if config.cluster > 1:
        if not config.held:
            return Refusal("blocks of a cluster keep what they share")
        if config.cluster not in target.clusters:
            return Refusal(f"{target.arch} has no clusters of {config.cluster} blocks")
        sharing *= config.cluster
    if config.held:
        if config.splits > 1:
            return Refusal("a row that several blocks share is read again")
        if config.held * sharing < rows.positions:
            return Refusal(f"{config.held * sharing} vectors of {rows.positions} are kept")
        kept = held_registers(rows, config)
        if kept > HELD_REGISTERS or kept * config.threads * 4 > 1 << 17:
            return Refusal(f"a thread keeps {kept} registers of elements")
    elif config.splits > max(1, rows.positions // sharing):
        return Refusal(f"{config.splits} blocks do not share {rows.positions} vectors")
    if not rows.is_along and _scratch_bytes(rows, config) > STATIC_BYTES:
        return Refusal(f"totals take {_scratch_bytes(rows, config)} bytes of shared memory")
    return None


def held_registers(rows: Rows, config: ReductionConfig) -> int:
    """Registers of what a thread keeps from pass to pass."""
    return config.held * -(-ProgramText(rows).held_bytes // 4)


def launch(rows: Rows, config: ReductionConfig, target: Target) -> KernelPlan | Refusal:
    """The launches of a config, or why it is not legal for the problem."""
    refused = refusal(rows, config, target)
    if refused is not None:
        return refused
    seen = seen_by(rows, config)
    text = ProgramText(seen)
    numbers = _launches(seen, config)
    source = _source(text, config, numbers)
    arguments: list[Argument] = [
        *(Pointer("input", i) for i in text.sources),
        *(Pointer("output", i) for i in text.targets),
        Scalar(rows.images),
    ]
    is_split = config.splits > 1
    if is_split:
        arguments.append(Pointer("workspace", 0))
    blocks, sharing = units(rows, config), config.splits * config.cluster
    kernels = tuple(
        CudaKernel(
            source,
            _symbol(number),
            (blocks if number > seen.program.passes else blocks * sharing, 1, 1),
            (config.threads, 1, 1),
            arguments=tuple(arguments),
            spill_bytes=SPILLED_BYTES,
        )
        for number in numbers
    )
    return KernelPlan(kernels, (workspace_bytes(seen, config),) if is_split else ())


def workspace_bytes(seen: Rows, config: ReductionConfig) -> int:
    """What blocks leave for those of the next pass."""
    program = seen.program
    slots = config.y if seen.is_along else config.x
    each = sum(region_bytes(program, number) for number in range(1, program.passes + 1))
    return each * slots * seen.parts * config.splits * units(seen, config)


def _launches(seen: Rows, config: ReductionConfig) -> Sequence[int]:
    """The passes that are launches, by the numbers that `Streamed` has for them."""
    if config.splits == 1:
        return (0,)
    program = seen.program
    stores_rows = any(program.of_rows[store.node] for store in program.stores)
    return range(1, program.passes + 1 + stores_rows)


def _symbol(number: int) -> str:
    return f"{_ENTRY}_{number}" if number else _ENTRY


def _source(text: ProgramText, config: ReductionConfig, numbers: Sequence[int]) -> str:
    lie = "AlongRows" if text.rows.is_along else "AcrossRows"
    sizes = f"convir::Program, convir::{lie}, {config.x}, {config.y}"
    parts = ", unsigned char* __restrict__ parts" if config.splits > 1 else ""
    parameters = f"{', '.join(text.parameters)}, long long images{parts}"
    pointers = ", ".join([*(f"i{i}" for i in text.sources), *(f"o{i}" for i in text.targets)])
    cluster = f"__cluster_dims__({config.cluster}, 1, 1) " if config.cluster > 1 else ""
    lines = ['#include "reduction/kernel.cuh"', text.text]
    for number in numbers:
        given = f"{{{pointers}}}, static_cast<unsigned>(images)"
        if config.held:
            call = f"convir::OnChip<{sizes}, {config.held}, {config.cluster}>::run({given})"
        else:
            left = "parts" if config.splits > 1 else "nullptr"
            call = f"convir::Streamed<{sizes}, {config.splits}>::run<{number}>({given}, {left})"
        lines += [
            f'extern "C" __global__ void {cluster}__launch_bounds__({config.threads})',
            f"{_symbol(number)}({parameters}) {{",
            f"  {call};",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _scratch_bytes(rows: Rows, config: ReductionConfig) -> int:
    largest = largest_bytes(seen_by(rows, config).program)
    left = 3 * config.x if config.cluster > 1 else 0
    return largest * rows.parts * (config.threads + left)
