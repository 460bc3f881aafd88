"""The launch of passes over rows: an item for each row, or for each block of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.program import Load
from convir.lowering.bodies.rows.softmax import with_maxima_of_numbers
from convir.lowering.kernels.host.launch import Argument, HostLaunch, Stage
from convir.lowering.kernels.host.reduction.kernel import RowKernel
from convir.lowering.kernels.host.reduction.predict import operations

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import RowProgram
    from convir.lowering.kernels.host.target import CpuTarget


def launch(program: RowProgram, cpu: CpuTarget) -> HostLaunch:
    """What computes the results of a program."""
    program = with_maxima_of_numbers(program)
    kernel = RowKernel(program, cpu)
    sources = {node.source.index for node in program.nodes if isinstance(node, Load)}
    buffers = (
        *(Argument("input", index) for index in sorted(sources)),
        *(Argument("output", store.target.index) for store in program.stores),
    )
    stage = Stage(kernel.entry, kernel.items, buffers, operations(program))
    return HostLaunch(kernel, (stage,))
