"""The launches of loops that are generated from a kernel's body: a function for each piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.launch import Argument, HostLaunch, Stage

if TYPE_CHECKING:
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


@dataclass(frozen=True)
class LoopCode:
    """The functions of one kernel; LLVM optimizes them."""

    ir: str
    """LLVM assembly."""

    is_final = False


def launch(body: KernelBody, cpu: CpuTarget) -> HostLaunch:
    """What computes the pieces of the results, one after the other.

    Raises:
        PassFailedException: an op has no code for a CPU.
    """
    # Most programs are contractions, which need no LLVM dialect: that takes long to import.
    from convir.lowering.loops.coalesce import coalesce  # noqa: PLC0415
    from convir.lowering.loops.llvm.entry import entry_of, loops_ir  # noqa: PLC0415
    from convir.lowering.loops.nests import (  # noqa: PLC0415
        lower_kernel,
        range_size,
        scalar_work,
    )

    types = body.function.function_type
    buffers = (
        *(Argument("input", index) for index in range(len(types.inputs))),
        *(Argument("output", index) for index in range(len(types.outputs))),
    )
    reused = [argument for argument, _ in body.reused]
    loops = lower_kernel(body.function, reused=reused, l1_bytes=cpu.l1_bytes)
    for function in loops:
        coalesce(function)
    # The loops are taken apart while they are converted.
    stages = tuple(
        Stage(entry_of(function), range_size(function), buffers, scalar_work(function))
        for function in loops
    )
    # Of two arguments that are one memory the loops use one: to LLVM no two overlap then.
    same = {argument: len(types.inputs) + result for argument, result in body.reused}
    ir = loops_ir(loops, cpu, noalias=not body.overlaps_partly, same=same)
    return HostLaunch(LoopCode(ir), stages)
