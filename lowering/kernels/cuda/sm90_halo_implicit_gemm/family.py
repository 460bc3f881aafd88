"""`sm90_halo_implicit_gemm`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm import (
    candidates,
    config,
    launch,
    predict,
    problem,
)

SM90_HALO_IMPLICIT_GEMM = Family(
    config=config.HaloConfig,
    reads=problem.halo_problem,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
    has_wgmma=True,
)
