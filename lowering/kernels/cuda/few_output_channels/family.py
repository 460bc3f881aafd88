"""`narrow`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.few_output_channels import config, launch

FEW_OUTPUT_CHANNELS = Family(
    name=config.FAMILY,
    plan=launch.plan,
    parse=config.parse,
    kernels=launch.kernels,
)
