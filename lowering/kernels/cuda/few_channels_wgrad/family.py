"""`few_channels_wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.few_channels_wgrad import candidates, config, launch, predict
from convir.lowering.kernels.cuda.few_channels_wgrad.problem import read

FEW_CHANNELS_WGRAD = Family(
    config=config.FewChannelsWgradConfig,
    reads=read,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
