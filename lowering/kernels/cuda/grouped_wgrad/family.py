"""`grouped-wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.grouped_wgrad import config, launch, predict

GROUPED_WGRAD = Family(
    name=config.FAMILY,
    plan=predict.plan,
    parse=config.parse,
    kernels=launch.kernels,
)
