"""`multi_tap_wgrad`: what the registry knows of the family."""

from __future__ import annotations

from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.multi_tap_wgrad import (
    candidates,
    config,
    launch,
    predict,
    problem,
)

MULTI_TAP_WGRAD = Family(
    config=config.MultiTapWgradConfig,
    reads=problem.multi_tap_problem,
    plan=candidates.plan,
    time=predict.predict,
    kernels=launch.kernels,
)
