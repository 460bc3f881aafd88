"""The launch of a scatter: an item for each line of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.launch import Argument, HostLaunch, Stage
from convir.lowering.kernels.host.scatter.kernel import ScatterKernel

if TYPE_CHECKING:
    from convir.lowering.kernels.host.scatter.problem import Scatter
    from convir.lowering.kernels.host.target import CpuTarget


def launch(scatter: Scatter, cpu: CpuTarget) -> HostLaunch:
    """What writes the result."""
    kernel = ScatterKernel(scatter, cpu)
    buffers = Argument("input", scatter.argument), Argument("output", 0)
    return HostLaunch(kernel, (Stage(kernel.entry, kernel.items, buffers),))
