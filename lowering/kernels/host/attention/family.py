"""`attention`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import ATTENTION as NAME
from convir.lowering.kernels.host.attention.config import CONFIG
from convir.lowering.kernels.host.attention.launch import launch
from convir.lowering.kernels.host.attention.predict import predict
from convir.lowering.kernels.host.attention.problem import Attention, read
from convir.lowering.kernels.host.family import Family, OnlyConfig

if TYPE_CHECKING:
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


def _launch(problem: Attention, config: OnlyConfig, cpu: CpuTarget) -> HostLaunch | Refusal:
    del config
    try:
        return launch(problem, cpu)
    except ValueError as error:
        return Refusal(str(error))


ATTENTION = Family(
    name=NAME,
    sees=Attention,
    config=OnlyConfig,
    reads=read,
    plan=lambda problem, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda problem, config, cpu: predict(problem, cpu),
    launches=_launch,
)
