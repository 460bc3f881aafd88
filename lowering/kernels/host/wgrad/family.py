"""`wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.host.contraction_family import contraction_family
from convir.lowering.kernels.host.wgrad.config import CONFIG
from convir.lowering.kernels.host.wgrad.launch import launch
from convir.lowering.kernels.host.wgrad.predict import predict

WGRAD = contraction_family(
    CONFIG,
    reads=lambda body, cpu: body.weights(cpu),
    launch=lambda problem, cpu: launch(problem.spec, cpu),
    predict=lambda problem, cpu: predict(problem.spec, cpu),
)
