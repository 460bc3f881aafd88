"""`simt_wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.simt_wgrad import config, launch, predict, problem

SIMT_WGRAD = Family(
    config=config.SimtWgradConfig,
    reads=problem.read,
    plan=predict.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
