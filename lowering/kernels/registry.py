"""The families of kernels that compute contractions on a GPU, in order of preference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.block_diagonal.family import BLOCK_DIAGONAL
from convir.lowering.kernels.cuda.few_input_channels.family import FEW_INPUT_CHANNELS
from convir.lowering.kernels.cuda.few_output_channels.family import FEW_OUTPUT_CHANNELS
from convir.lowering.kernels.cuda.grouped_direct.family import GROUPED_DIRECT
from convir.lowering.kernels.cuda.grouped_wgrad.family import GROUPED_WGRAD
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.layout_conversion.family import LayoutConversion
from convir.lowering.kernels.cuda.multi_tap_wgrad.family import MULTI_TAP_WGRAD
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.cuda.simt_direct.family import SIMT_DIRECT
from convir.lowering.kernels.cuda.sm80_implicit_gemm.family import SM80_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_fused_dgrad.family import SM90_FUSED_DGRAD
from convir.lowering.kernels.cuda.sm90_grouped_direct.family import SM90_GROUPED_DIRECT
from convir.lowering.kernels.cuda.sm90_grouped_wgrad.family import SM90_GROUPED_WGRAD
from convir.lowering.kernels.cuda.sm90_implicit_gemm.family import SM90_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.family import SM90_ROW_PACKED_WGRAD
from convir.lowering.kernels.cuda.sm90_wgrad.family import SM90_WGRAD

if TYPE_CHECKING:
    from convir.dialects import kernel
    from convir.lowering.kernels.protocol import KernelConfig, KernelFamily
    from convir.lowering.kernels.target import Target

_WITHOUT_COPIES: tuple[KernelFamily, ...] = (
    FEW_OUTPUT_CHANNELS,
    SIMT_DIRECT,
    SM90_GROUPED_DIRECT,
    GROUPED_DIRECT,
    FEW_INPUT_CHANNELS,
    SM90_FUSED_DGRAD,
    SM90_GROUPED_WGRAD,
    GROUPED_WGRAD,
    SM90_IMPLICIT_GEMM,
    SM90_ROW_PACKED_WGRAD,
    MULTI_TAP_WGRAD,
    SM90_WGRAD,
    BLOCK_DIAGONAL,
)
"""What computes a contraction where its operands lie, and mostly wants contiguous channels."""

FAMILIES: tuple[KernelFamily, ...] = (
    *_WITHOUT_COPIES,
    LayoutConversion(_WITHOUT_COPIES),
    SM80_IMPLICIT_GEMM,
)
"""Every family, the most specialised first: the first one that does not refuse is used."""


@dataclass(frozen=True)
class Choice:
    """The config that stands for a kernel."""

    config: KernelConfig
    refused: tuple[str, ...]
    """Why families that are preferred do not compute it: `not NAME: REASON`."""


def choose(callee: kernel.FuncOp, gpu: Target) -> Choice | Refusal:
    """The best config of the first family that computes all of `callee`, or why none does."""
    problem = read_problem(callee)
    if isinstance(problem, Refusal):
        return problem
    refused: list[str] = []
    for family in FAMILIES:
        configs = family.candidates(problem, gpu)
        if not isinstance(configs, Refusal):
            return Choice(configs[0], tuple(refused))
        refused.append(f"not {family.name}: {configs.reason}")
    return Refusal("; ".join(refused) or "there is no template")


def legal_plans(problem: ContractionProblem, gpu: Target) -> dict[str, KernelPlan]:
    """Every config that may compute a contraction on a GPU, the best first as rules have it."""
    found: dict[str, KernelPlan] = {}
    for family in FAMILIES:
        configs = family.candidates(problem, gpu)
        for config in () if isinstance(configs, Refusal) else configs:
            plan = _plan(problem, family, str(config), gpu)
            if isinstance(plan, KernelPlan):
                found[str(config)] = plan
    return found


def plan_on(gpu: Target, problem: ContractionProblem, config: str) -> KernelPlan | Refusal:
    """The launches of a config that may be written down anywhere, or why `gpu` does not run it."""
    family = family_of(config)
    if family is None:
        return Refusal(f"there is no template of '{config}'")
    configs = family.candidates(problem, gpu)
    if isinstance(configs, Refusal):
        return configs
    return _plan(problem, family, config, gpu)


def is_template(config: str) -> bool:
    """Whether a config's text begins with the name of a family."""
    return family_of(config) is not None


def family_of(config: str) -> KernelFamily | None:
    """The family whose name a config's text begins with."""
    name = config.partition(" ")[0]
    return next((family for family in FAMILIES if family.name == name), None)


def plan_kernel(callee: kernel.FuncOp, config: str, target: Target) -> KernelPlan | Refusal:
    """The launches of a family's config for `callee`, on its inputs and outputs.

    A refusal says why the config does not stand for the kernel: it is none, or not legal for it.
    """
    family = family_of(config)
    if family is None:
        return Refusal(f"there is no template of '{config}'")
    problem = read_problem(callee)
    return problem if isinstance(problem, Refusal) else _plan(problem, family, config, target)


def _plan(
    problem: ContractionProblem, family: KernelFamily, config: str, target: Target
) -> KernelPlan | Refusal:
    try:
        parsed = family.parse(config)
    except ValueError as error:
        return Refusal(f"'{config}' is no config of {family.name}: {error}")
    plan = family.launch(problem, parsed, target)
    return plan if isinstance(plan, Refusal) else plan.resolved(problem.place)
