"""`sm80_implicit_gemm`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm80_implicit_gemm import (
    candidates,
    config,
    launch,
    predict,
    vector_widths,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue


def _reads(contraction: Contraction, epilogue: Epilogue) -> object:
    del epilogue
    return vector_widths.unsupported(contraction) or vector_widths.widths(contraction)


SM80_IMPLICIT_GEMM = Family(
    config=config.Sm80ImplicitGemmConfig,
    reads=_reads,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
