"""`grouped_direct`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.grouped_direct import candidates, config, launch, predict

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue


def _reads(contraction: Contraction, epilogue: Epilogue) -> object:
    return reading(contraction, epilogue, candidates.groups_of)


GROUPED_DIRECT = Family(
    config=config.GroupedDirectConfig,
    reads=_reads,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
