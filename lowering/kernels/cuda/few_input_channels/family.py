"""`shallow`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.few_input_channels import config, launch

FEW_INPUT_CHANNELS = Family(
    name=config.FAMILY,
    plan=launch.plan,
    parse=config.parse,
    kernels=launch.kernels,
)
