"""`taps-wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.multi_tap_wgrad import config, launch, predict

MULTI_TAP_WGRAD = Family(
    name=config.FAMILY,
    plan=predict.plan,
    parse=config.parse,
    kernels=launch.kernels,
    with_partition=config.TapsWgradConfig.with_partition,
    with_roles=config.TapsWgradConfig.with_roles,
)
