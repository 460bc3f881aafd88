"""`stacked-wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad import config, launch, predict

SM90_ROW_PACKED_WGRAD = Family(
    name=config.FAMILY,
    plan=predict.plan,
    parse=config.StackedWgradConfig.parse,
    kernels=launch.kernels,
    with_partition=config.StackedWgradConfig.with_partition,
    with_roles=config.StackedWgradConfig.with_roles,
)
