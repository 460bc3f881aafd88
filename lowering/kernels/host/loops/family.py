"""`loops`: what the registry knows of generated loops, which compute every kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.implementations import LOOPS as NAME
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.host.loops.config import CONFIG
from convir.lowering.kernels.host.loops.launch import launch
from convir.lowering.kernels.host.loops.predict import predict
from convir.lowering.kernels.host.problem import KernelBody

if TYPE_CHECKING:
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> KernelBody:
    del cpu
    return body


LOOPS = Family(
    name=NAME,
    sees=KernelBody,
    config=OnlyConfig,
    reads=_read,
    plan=lambda body, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda body, config, cpu: predict(body.function.body.block.ops, cpu),
    launches=lambda body, config, cpu: launch(body, cpu),
    is_total=True,
)
