"""`grouped_wgrad`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.grouped_wgrad import candidates, config, launch, predict

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue


def _reads(contraction: Contraction, epilogue: Epilogue) -> object:
    return reading(contraction, epilogue, launch.packed_groups, "B")


GROUPED_WGRAD = Family(
    config=config.GroupedWgradConfig,
    reads=_reads,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
