"""`scatter`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.host.scatter.config import CONFIG, FAMILY
from convir.lowering.kernels.host.scatter.launch import launch
from convir.lowering.kernels.host.scatter.predict import predict
from convir.lowering.kernels.host.scatter.problem import Scatter, read_scatter

if TYPE_CHECKING:
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> Scatter | Refusal:
    del cpu
    if body.overlaps:
        return Refusal("its result shares memory with its source")
    return read_scatter(body.function)


SCATTER = Family(
    name=FAMILY,
    sees=Scatter,
    config=OnlyConfig,
    reads=_read,
    plan=lambda scatter, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda scatter, config, cpu: predict(scatter, cpu),
    launches=lambda scatter, config, cpu: launch(scatter, cpu),
    is_total=True,
)
