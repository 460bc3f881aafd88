"""`grouped`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.grouped_direct import config, launch, predict

GROUPED_DIRECT = Family(
    name=config.FAMILY,
    plan=predict.plan,
    parse=config.parse,
    kernels=launch.kernels,
)
