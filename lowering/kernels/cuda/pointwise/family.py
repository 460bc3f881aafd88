"""`pointwise`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.pointwise import config, launch, predict

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue


def _reads(contraction: Contraction, epilogue: Epilogue) -> object:
    return reading(contraction, epilogue, launch.is_linear)


POINTWISE = Family(
    config=config.PointwiseConfig,
    reads=_reads,
    plan=launch.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
