"""The launches of attention: keys and values in panels, then blocks of queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.attention.blocking import cut, line_of, spread
from convir.lowering.kernels.host.attention.config import CONFIG
from convir.lowering.kernels.host.attention.kernel import ENTRY, AttentionKernel, read_beside
from convir.lowering.kernels.host.implicit_gemm.pack import panels
from convir.lowering.kernels.host.implicit_gemm.pack.panels import PackKernel
from convir.lowering.kernels.host.launch import Argument, HostLaunch, KernelCode, Stage
from convir.lowering.kernels.host.operand_stages import OperandStages

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.attention.problem import Attention
    from convir.lowering.kernels.host.code.builder import Module
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking
    from convir.lowering.kernels.host.launch import Buffer
    from convir.lowering.kernels.host.target import CpuTarget


@dataclass(frozen=True)
class _Named:
    """A kernel whose functions have names of their own."""

    prefix: str
    kernel: PackKernel

    def write(self, module: Module) -> None:
        self.kernel.write(module.within(self.prefix))


def launch(problem: Attention, cpu: CpuTarget) -> HostLaunch:
    """What computes the result of two products with passes over rows between them.

    Raises:
        ValueError: queries have to be copied, and those of its groups do not lie behind each other.
    """
    line = line_of(problem.keys)
    apart = spread(problem, line)
    stages = OperandStages(apart.scores, cpu)
    is_copied = stages.readable_rows() != "a"
    apart = replace(apart, scores=stages.spec)
    lanes = stages.lanes
    cuts = cut(apart.scores, apart.values, line, lanes)
    queries, keys, values = (Argument("input", number) for number in problem.arguments)
    kernels, launched, workspace = stages.kernels, stages.stages, dict(stages.workspace)
    read: list[Buffer | Argument] = ["a_copy" if is_copied else queries]
    matrices: tuple[tuple[Buffer, Contraction, Blocking, Argument], ...] = (
        ("keys", apart.scores, cuts.scores, keys),
        ("values", apart.values, cuts.values, values),
    )
    for name, spec, own, source in matrices:
        if own.in_place:
            read.append(source)
            continue
        packing = PackKernel(spec, lanes, own)
        kernels.append(_Named(f"{name}.", packing))
        workspace[name] = packing.packed_bytes
        launched.append(Stage(f"{name}.{panels.ENTRY}", packing.items, (source, name)))
        read.append(name)
    kernel = AttentionKernel(apart, lanes, cuts)
    kernels.append(kernel)
    beside = (Argument("input", number) for number in read_beside(problem))
    operands = (*read, Argument("output", 0), *beside)
    launched.append(Stage(ENTRY, kernel.items, operands))
    code = KernelCode((str(CONFIG), problem, cpu), tuple(kernels))
    found = HostLaunch(code, tuple(launched), workspace=workspace)
    return found.resolved({"a": queries})
