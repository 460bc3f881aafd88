"""The families of kernels that compute contractions on a GPU, and those of passes over rows.

Selection takes the config that is predicted to be the fastest of all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import once_for_equal_bodies
from convir.dialects.entry_points import CUDA_KERNELS, installed
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.cuda.block_diagonal.family import BLOCK_DIAGONAL
from convir.lowering.kernels.cuda.col2im.family import COL2IM
from convir.lowering.kernels.cuda.depthwise.family import DEPTHWISE
from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.few_channels_wgrad.family import FEW_CHANNELS_WGRAD
from convir.lowering.kernels.cuda.few_input_channels.family import FEW_INPUT_CHANNELS
from convir.lowering.kernels.cuda.few_output_channels.family import FEW_OUTPUT_CHANNELS
from convir.lowering.kernels.cuda.grouped_direct.family import GROUPED_DIRECT
from convir.lowering.kernels.cuda.grouped_planes.family import GROUPED_PLANES
from convir.lowering.kernels.cuda.grouped_wgrad.family import GROUPED_WGRAD
from convir.lowering.kernels.cuda.halo_implicit_gemm.family import HALO_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.layout_conversion.family import LayoutConversion
from convir.lowering.kernels.cuda.multi_tap_wgrad.family import MULTI_TAP_WGRAD
from convir.lowering.kernels.cuda.old_spelling import read_config
from convir.lowering.kernels.cuda.pointwise.family import POINTWISE
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.cuda.reduction.family import REDUCTION
from convir.lowering.kernels.cuda.simt_direct.family import SIMT_DIRECT
from convir.lowering.kernels.cuda.simt_wgrad.family import SIMT_WGRAD
from convir.lowering.kernels.cuda.sm80_implicit_gemm.family import SM80_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_fused_dgrad.family import SM90_FUSED_DGRAD
from convir.lowering.kernels.cuda.sm90_grouped_direct.family import SM90_GROUPED_DIRECT
from convir.lowering.kernels.cuda.sm90_grouped_wgrad.family import SM90_GROUPED_WGRAD
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.family import SM90_HALO_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_halo_wgrad.family import SM90_HALO_WGRAD
from convir.lowering.kernels.cuda.sm90_implicit_gemm.family import SM90_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.family import SM90_ROW_PACKED_WGRAD
from convir.lowering.kernels.cuda.sm90_wgrad.family import SM90_WGRAD
from convir.lowering.kernels.ranking import Choice, Prediction, Ranking

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.cuda.reduction.problem import Rows
    from convir.lowering.kernels.protocol import KernelConfig, KernelFamily, Problem, RowFamily
    from convir.lowering.kernels.target import Target

_WITHOUT_COPIES: tuple[KernelFamily, ...] = (
    FEW_OUTPUT_CHANNELS,
    SIMT_DIRECT,
    SIMT_WGRAD,
    DEPTHWISE,
    GROUPED_PLANES,
    SM90_GROUPED_DIRECT,
    GROUPED_DIRECT,
    FEW_INPUT_CHANNELS,
    POINTWISE,
    SM90_HALO_IMPLICIT_GEMM,
    HALO_IMPLICIT_GEMM,
    SM90_FUSED_DGRAD,
    SM90_GROUPED_WGRAD,
    GROUPED_WGRAD,
    FEW_CHANNELS_WGRAD,
    SM90_IMPLICIT_GEMM,
    SM90_HALO_WGRAD,
    SM90_ROW_PACKED_WGRAD,
    MULTI_TAP_WGRAD,
    SM90_WGRAD,
    BLOCK_DIAGONAL,
)
"""What computes a contraction where its operands lie, and mostly wants contiguous channels."""

FAMILIES: tuple[KernelFamily, ...] = (
    *_WITHOUT_COPIES,
    LayoutConversion(_WITHOUT_COPIES),
    COL2IM,
    SM80_IMPLICIT_GEMM,
    *installed(CUDA_KERNELS, cast("type[KernelFamily]", Family)),
)
"""Every family, the most specialised first: of equal predictions the first one is used. Those of
other packages come last."""

ROW_FAMILIES: tuple[RowFamily, ...] = (REDUCTION,)
"""What computes passes over rows."""


@lru_cache(maxsize=64)
def rank(problem: Problem, target: Target) -> Ranking:
    """Every config that any family considers, by predicted time."""
    found: list[Prediction] = []
    refused: list[str] = []
    for family in FAMILIES:
        configs = family.candidates(problem, target)
        if isinstance(configs, Refusal):
            refused.append(f"not {family.name}: {configs.reason}")
            continue
        for each in configs:
            found.append(Prediction(family.name, each, family.predict(problem, each, target)))
    return Ranking.of(found, refused)


def choose(callee: kernel.FuncOp, target: Target) -> Choice | Refusal:
    """The legal config with the least predicted time, or why no family computes `callee`."""
    read = read_problem(callee)
    if isinstance(read, Refusal):
        return read
    ranking = rank(read.problem, target)
    return ranking.choice(
        lambda best: _family(best.family).refusal(read.problem, best.config, target)
    )


def rank_rows(callee: kernel.FuncOp, target: Target) -> Ranking:
    """Every config that any family of passes over rows considers, by predicted time."""
    found: list[Prediction] = []
    refused: list[str] = []
    for family in ROW_FAMILIES:
        rows = family.problem(callee, target)
        configs = rows if isinstance(rows, Refusal) else family.candidates(rows, target)
        if isinstance(configs, Refusal) or isinstance(rows, Refusal):
            reason = configs.reason if isinstance(configs, Refusal) else ""
            refused.append(f"not {family.name}: {reason}")
            continue
        times = (family.predict(rows, config, target) for config in configs)
        found += map(Prediction, [family.name] * len(configs), configs, times)
    return Ranking.of(found, refused)


@once_for_equal_bodies
def choose_rows(callee: kernel.FuncOp, target: Target) -> Choice | Refusal:
    """The config with the least predicted time, or why no family takes `callee` as passes over
    rows."""

    def refusal(best: Prediction) -> Refusal | None:
        plan = plan_kernel(callee, str(best.config), target)
        return plan if isinstance(plan, Refusal) else None

    return rank_rows(callee, target).choice(refusal)


def legal_plans(
    problem: ContractionProblem, gpu: Target
) -> tuple[tuple[Prediction, KernelPlan], ...]:
    """Every config that may compute a contraction on a GPU, by predicted time."""
    ranked = rank(problem.problem, gpu).predictions
    plans = ((each, _launches(problem, _family(each.family), each.config, gpu)) for each in ranked)
    return tuple((each, plan) for each, plan in plans if isinstance(plan, KernelPlan))


def _family(name: str) -> KernelFamily:
    return next(family for family in FAMILIES if family.name == name)


def plan_on(gpu: Target, problem: ContractionProblem, config: str) -> KernelPlan | Refusal:
    """The launches of a config that may be written down anywhere, or why `gpu` does not run it."""
    family = family_of(config)
    if family is None:
        return Refusal(f"there is no family of '{config}'")
    parsed = _parsed(family, config)
    if isinstance(parsed, Refusal):
        return parsed
    refused = family.refusal(problem.problem, parsed, gpu)
    return refused or _launches(problem, family, parsed, gpu)


def launches_of(
    config: str, gpu: Target
) -> Callable[[ContractionProblem], KernelPlan | Refusal] | Refusal:
    """What a config launches for any problem, as `plan_kernel` says; or why it is no config."""
    family = family_of(config)
    if family is None:
        return Refusal(f"there is no family of '{config}'")
    parsed = _parsed(family, config)
    if isinstance(parsed, Refusal):
        return parsed
    return lambda problem: _launches(problem, family, parsed, gpu)


def names_family(config: str) -> bool:
    """Whether a config's text begins with the name of a family."""
    return family_of(config) is not None or row_family_of(config) is not None


def family_of(config: str) -> KernelFamily | None:
    """The family of contractions whose name a config's text begins with."""
    name = read_config(config).partition(" ")[0]
    return next((family for family in FAMILIES if family.name == name), None)


def row_family_of(config: str) -> RowFamily | None:
    """The family of passes over rows whose name a config's text begins with."""
    name = config.partition(" ")[0]
    return next((family for family in ROW_FAMILIES if family.name == name), None)


def row_launches_of(config: str, gpu: Target) -> Callable[[Rows], KernelPlan | Refusal] | Refusal:
    """What a config launches for any passes over rows; or why it is no config."""
    family = row_family_of(config)
    if family is None:
        return Refusal(f"there is no family of '{config}'")
    try:
        parsed = family.parse(config)
    except ValueError as error:
        return Refusal(f"'{config}' is not a config of {family.name}: {error}")
    return lambda rows: family.launch(rows, parsed, gpu)


def plan_kernel(callee: kernel.FuncOp, config: str, target: Target) -> KernelPlan | Refusal:
    """The launches of a family's config for `callee`, on its inputs and outputs.

    A refusal says why the config does not implement the kernel: it is none, or not legal for it.
    """
    return _planned(callee, config, target, kernel.ALLOW_TF32 in callee.attributes)


@once_for_equal_bodies
def _planned(
    callee: kernel.FuncOp, config: str, target: Target, _allow_tf32: bool
) -> KernelPlan | Refusal:
    family = row_family_of(config)
    if family is not None:
        of_rows = row_launches_of(config, target)
        rows = family.problem(callee, target)
        if isinstance(of_rows, Refusal) or isinstance(rows, Refusal):
            return rows if isinstance(rows, Refusal) else cast("Refusal", of_rows)
        return of_rows(rows)
    launches = launches_of(config, target)
    if isinstance(launches, Refusal):
        return launches
    problem = read_problem(callee)
    return problem if isinstance(problem, Refusal) else launches(problem)


def _parsed(family: KernelFamily, config: str) -> KernelConfig | Refusal:
    try:
        return family.parse(read_config(config))
    except ValueError as error:
        return Refusal(f"'{config}' is not a config of {family.name}: {error}")


def _launches(
    problem: ContractionProblem, family: KernelFamily, config: KernelConfig, target: Target
) -> KernelPlan | Refusal:
    plan = family.launch(problem, config, target)
    return plan if isinstance(plan, Refusal) else plan.resolved(problem.place)
