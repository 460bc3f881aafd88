"""`grouped_planes`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.grouped_planes import candidates, config, launch, predict, problem

GROUPED_PLANES = Family(
    config=config.GroupedPlanesConfig,
    reads=problem.read,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
"""Groups of 4 to 32 channels whose operands are planes."""
