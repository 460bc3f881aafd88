"""`sm90_row_packed_wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad import (
    candidates,
    config,
    launch,
    predict,
    problem,
)

SM90_ROW_PACKED_WGRAD = Family(
    config=config.RowPackedWgradConfig,
    reads=problem.row_packed_problem,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
    has_wgmma=True,
)
