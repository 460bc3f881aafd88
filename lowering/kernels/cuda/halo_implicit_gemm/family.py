"""`halo_implicit_gemm`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.halo_implicit_gemm import config, launch, predict

HALO_IMPLICIT_GEMM = Family(
    config=config.HaloImplicitGemmConfig,
    reads=launch.read,
    plan=launch.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
