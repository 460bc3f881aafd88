"""`igemm`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm80_implicit_gemm import config, launch, predict

SM80_IMPLICIT_GEMM = Family(
    name=config.FAMILY,
    plan=predict.plan,
    parse=config.parse,
    kernels=launch.kernels,
)
