"""`implicit-gemm`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.host.contraction_family import contraction_family
from convir.lowering.kernels.host.implicit_gemm.config import CONFIG
from convir.lowering.kernels.host.implicit_gemm.launch import launch
from convir.lowering.kernels.host.implicit_gemm.predict import predict

IMPLICIT_GEMM = contraction_family(
    CONFIG,
    reads=lambda body, cpu: body.rows(cpu),
    launch=lambda problem, cpu: launch(problem.spec, cpu, problem.epilogue),
    predict=lambda problem, cpu: predict(
        problem.spec, cpu, constant_weights=problem.constant_weights
    ),
)
