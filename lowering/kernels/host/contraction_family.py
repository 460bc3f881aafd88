"""A family of the host's contraction kernels whose config leaves nothing to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.host.problem import HostContraction

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def contraction_family(
    config: OnlyConfig,
    reads: Callable[[KernelBody, CpuTarget], HostContraction | Refusal],
    launch: Callable[[HostContraction, CpuTarget], HostLaunch],
    predict: Callable[[HostContraction, CpuTarget], float],
) -> Family[HostContraction, OnlyConfig]:
    """The family whose only config is `config`.

    Args:
        config: it has the family's name.
        reads: the contraction that the family takes of a kernel, or why it takes none.
        launch: the launch of a contraction; raises ValueError where it is not legal.
        predict: the time of a contraction on one thread, in µs.
    """

    def launches(
        problem: HostContraction, chosen: OnlyConfig, cpu: CpuTarget
    ) -> HostLaunch | Refusal:
        del chosen
        try:
            return problem.launch(launch(problem, cpu))
        except ValueError as error:
            return Refusal(str(error))

    return Family(
        name=config.family,
        sees=HostContraction,
        config=OnlyConfig,
        reads=reads,
        plan=lambda problem, cpu: (config,),
        parse=config.parse,
        time=lambda problem, chosen, cpu: predict(problem, cpu),
        launches=launches,
    )
