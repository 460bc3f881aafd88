"""`depthwise`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.depthwise import candidates, config, launch, predict, problem
from convir.lowering.kernels.cuda.family import Family

DEPTHWISE = Family(
    config=config.DepthwiseConfig,
    reads=problem.read,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
