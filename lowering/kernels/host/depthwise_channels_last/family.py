"""`depthwise-channels-last`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.contraction_family import contraction_family
from convir.lowering.kernels.host.depthwise_channels_last.blocking import cut_channels_last
from convir.lowering.kernels.host.depthwise_channels_last.config import CONFIG
from convir.lowering.kernels.host.depthwise_channels_last.launch import REFUSAL, launch
from convir.lowering.kernels.host.depthwise_channels_last.predict import predict
from convir.lowering.kernels.host.operand_stages import OperandStages

if TYPE_CHECKING:
    from convir.lowering.kernels.host.problem import HostContraction, KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> HostContraction | Refusal:
    found = body.rows(cpu)
    if isinstance(found, Refusal):
        return found
    lanes = OperandStages(found.spec, cpu).lanes
    return Refusal(REFUSAL) if cut_channels_last(found.spec, lanes) is None else found


DEPTHWISE_CHANNELS_LAST = contraction_family(
    CONFIG,
    reads=_read,
    launch=lambda problem, cpu: launch(problem.spec, cpu, problem.epilogue),
    predict=lambda problem, cpu: predict(
        problem.spec, cpu, constant_weights=problem.constant_weights
    ),
)
