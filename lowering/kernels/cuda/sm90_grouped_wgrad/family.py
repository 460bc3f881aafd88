"""`grouped-wgrad-pairs`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_grouped_wgrad import config, launch

SM90_GROUPED_WGRAD = Family(
    name=config.FAMILY,
    plan=launch.plan,
    parse=config.parse,
    kernels=launch.kernels,
)
