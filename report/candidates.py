"""What might have computed a kernel: the configs that selection compared, and why they lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import GEMM
from convir.lowering.kernels.host import registry as host
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.target import CpuTarget
from convir.lowering.kernels.ranking import Prediction, Ranking

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.target import Target
    from convir.report.roofs import Machine

SHOWN = 12
"""So many losing configs are kept, the best of each family among them."""


@dataclass(frozen=True)
class Candidate:
    """A config that selection compared."""

    config: str
    family: str
    us: float
    """What it is predicted to take."""
    chosen: bool = False
    refusal: str = ""
    """Why it is not legal, where it is predicted to be faster than the choice."""


@dataclass(frozen=True)
class Decision:
    """How a kernel got its config."""

    us: float | None
    """What the choice is predicted to take; None where nothing predicts it."""
    candidates: tuple[Candidate, ...] = ()
    """The choice and some of those that lost, by predicted time."""
    considered: int = 0
    """How many configs there were in all."""
    refused: tuple[str, ...] = ()
    """Why families do not compute it: `not NAME: REASON`."""
    element: str | None = None
    """What is multiplied, where a contraction says it: `f16`, `tf32`."""


def decision_of(
    function: kernel.FuncOp, config: str, machine: Machine, constants: tuple[int, ...] = ()
) -> Decision:
    """The candidates of a kernel, predicted again as selection predicted them.

    Args:
        function: the outlined kernel.
        config: what was chosen for it.
        machine: the device's target.
        constants: the arguments that are constants of the program.
    """
    if isinstance(machine, CpuTarget):
        return _on_host(KernelBody(function, constants=constants), config, machine)
    return _on_gpu(function, config, machine)


def _on_host(body: KernelBody, config: str, cpu: CpuTarget) -> Decision:
    ranking = host.rank(body, cpu)

    def refusal(each: Prediction) -> Refusal | None:
        planned = host.plan_kernel(body, str(each.config), cpu)
        return planned if isinstance(planned, Refusal) else None

    return _decision(ranking, config, refusal)


def _on_gpu(function: kernel.FuncOp, config: str, gpu: Target) -> Decision:
    # The host needs none of the kernel families.
    from convir.lowering.kernels.cuda.problem import read_problem  # noqa: PLC0415
    from convir.lowering.kernels.library.gemm_call import GemmCall, match_gemm  # noqa: PLC0415
    from convir.lowering.kernels.library.predict import predict  # noqa: PLC0415
    from convir.lowering.kernels.registry import plan_on, rank, rank_rows  # noqa: PLC0415

    problem = read_problem(function)
    if isinstance(problem, Refusal):
        of_rows = rank_rows(function, gpu)
        no_template = (f"not template: {problem.reason}", *of_rows.refused)
        if not of_rows.predictions:
            return Decision(None, refused=no_template)
        return _decision(Ranking(of_rows.predictions, no_template), config, lambda _: None)
    ranking = rank(problem.problem, gpu)
    spec = problem.contraction
    library = match_gemm(function)
    if isinstance(library, GemmCall):
        us = predict(spec, problem.epilogue, gpu)
        ranking = Ranking.of([*ranking.predictions, Prediction(GEMM, _Gemm(), us)], [])
    else:
        ranking = Ranking(ranking.predictions, (f"not {GEMM}: {library.reason}", *ranking.refused))

    def refusal(each: Prediction) -> Refusal | None:
        if each.family == GEMM:
            return None
        planned = plan_on(gpu, problem, str(each.config))
        return planned if isinstance(planned, Refusal) else None

    element = "tf32" if spec.tf32 else str(spec.a.type)
    return _decision(ranking, config, refusal, element)


class _Gemm:
    """The config of a library's call."""

    def __str__(self) -> str:
        return GEMM


def _decision(
    ranking: Ranking,
    config: str,
    refusal: Callable[[Prediction], Refusal | None],
    element: str | None = None,
) -> Decision:
    predictions = ranking.predictions
    own = next((each for each in predictions if str(each.config) == config), None)
    us = None if own is None else own.us
    shown: list[Candidate] = []
    for each in _worth_showing(predictions, own):
        is_own = each is own
        is_faster = us is not None and not is_own and each.us < us
        refused = refusal(each) if is_faster else None
        reason = "" if refused is None else refused.reason
        shown.append(Candidate(str(each.config), each.family, each.us, is_own, reason))
    return Decision(us, tuple(shown), len(predictions), ranking.refused, element)


def _worth_showing(predictions: Collection[Prediction], own: Prediction | None) -> list[Prediction]:
    """The choice, the best of each family, and the fastest of the others."""
    best: dict[str, Prediction] = {}
    for each in predictions:
        best.setdefault(each.family, each)
    kept = [each for each in predictions if each is own or best[each.family] is each]
    for each in predictions:
        if len(kept) >= SHOWN:
            break
        if not any(each is other for other in kept):
            kept.append(each)
    return sorted(kept, key=lambda each: each.us)
