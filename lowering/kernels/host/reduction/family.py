"""`reduction`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.bodies.rows.program import RowProgram
from convir.lowering.implementations import REDUCTION as NAME
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.host.reduction.config import CONFIG
from convir.lowering.kernels.host.reduction.launch import launch
from convir.lowering.kernels.host.reduction.predict import predict
from convir.lowering.kernels.host.reduction.problem import read

REDUCTION = Family(
    name=NAME,
    sees=RowProgram,
    config=OnlyConfig,
    reads=read,
    plan=lambda program, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda program, config, cpu: predict(program, cpu),
    launches=lambda program, config, cpu: launch(program, cpu),
    is_total=True,
)
