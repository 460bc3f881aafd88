"""`scalar`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.simt_direct import config, launch

SIMT_DIRECT = Family(
    name=config.FAMILY,
    plan=launch.plan,
    parse=config.parse,
    kernels=launch.kernels,
)
