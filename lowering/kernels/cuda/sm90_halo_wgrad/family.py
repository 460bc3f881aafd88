"""`sm90_halo_wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_halo_wgrad import (
    candidates,
    config,
    launch,
    predict,
    problem,
)

SM90_HALO_WGRAD = Family(
    config=config.HaloWgradConfig,
    reads=problem.halo_wgrad_problem,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
    has_wgmma=True,
)
