"""`sm90_fused_dgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_fused_dgrad import config, launch, predict

SM90_FUSED_DGRAD = Family(
    config=config.FusedDgradConfig,
    reads=launch.fused_problem,
    plan=launch.plan,
    time=predict.predict,
    kernels=launch.kernels,
    has_wgmma=True,
)
