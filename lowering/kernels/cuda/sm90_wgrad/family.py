"""`wgmma-wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_wgrad import config, launch

SM90_WGRAD = Family(
    name=config.FAMILY,
    plan=launch.plan,
    parse=config.WgmmaWgradConfig.parse,
    kernels=launch.kernels,
    with_partition=config.WgmmaWgradConfig.with_partition,
    with_roles=config.WgmmaWgradConfig.with_roles,
)
