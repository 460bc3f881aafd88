"""`wgmma`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_implicit_gemm import config, launch

SM90_IMPLICIT_GEMM = Family(
    name=config.FAMILY,
    plan=launch.plan,
    parse=config.WgmmaConfig.parse,
    kernels=launch.kernels,
)
