"""The templates that compute contractions on a GPU, in order of preference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.block_diagonal import family as merged
from convir.lowering.kernels.cuda.block_diagonal.family import Merged
from convir.lowering.kernels.cuda.direct import config as direct_config
from convir.lowering.kernels.cuda.family import Template
from convir.lowering.kernels.cuda.few_input_channels import launch as shallow
from convir.lowering.kernels.cuda.few_output_channels import launch as narrow
from convir.lowering.kernels.cuda.grouped_direct import launch as grouped
from convir.lowering.kernels.cuda.grouped_direct import predict as grouped_rule
from convir.lowering.kernels.cuda.grouped_wgrad import launch as grouped_wgrad
from convir.lowering.kernels.cuda.grouped_wgrad import predict as grouped_wgrad_rule
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.layout_conversion import family as relaid
from convir.lowering.kernels.cuda.layout_conversion.family import Relaid
from convir.lowering.kernels.cuda.multi_tap_wgrad import config as taps_wgrad_config
from convir.lowering.kernels.cuda.multi_tap_wgrad import launch as taps_wgrad
from convir.lowering.kernels.cuda.multi_tap_wgrad import predict as taps_wgrad_rule
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.cuda.simt_direct import launch as scalar
from convir.lowering.kernels.cuda.sm80_implicit_gemm import config as implicit_gemm_config
from convir.lowering.kernels.cuda.sm80_implicit_gemm import launch as implicit_gemm
from convir.lowering.kernels.cuda.sm80_implicit_gemm import predict as implicit_gemm_rule
from convir.lowering.kernels.cuda.sm90_fused_dgrad import config as wgmma_joined_config
from convir.lowering.kernels.cuda.sm90_fused_dgrad import launch as wgmma_joined
from convir.lowering.kernels.cuda.sm90_grouped_direct import launch as grouped_pairs
from convir.lowering.kernels.cuda.sm90_grouped_wgrad import launch as grouped_wgrad_pairs
from convir.lowering.kernels.cuda.sm90_implicit_gemm import config as wgmma_config
from convir.lowering.kernels.cuda.sm90_implicit_gemm import launch as wgmma
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad import config as stacked_wgrad_config
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad import launch as stacked_wgrad
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad import predict as stacked_wgrad_rule
from convir.lowering.kernels.cuda.sm90_wgrad import config as wgmma_wgrad_config
from convir.lowering.kernels.cuda.sm90_wgrad import launch as wgmma_wgrad

if TYPE_CHECKING:
    from convir.dialects import kernel
    from convir.lowering.cuda.gpu import Gpu
    from convir.lowering.kernels.cuda.config import KernelConfig

_WGMMA = Template(
    family=wgmma_config.FAMILY,
    plan=wgmma.plan,
    parse=wgmma_config.WgmmaConfig.parse,
    kernels=wgmma.kernels,
)
_merged = Merged(_WGMMA)
_ALONE: tuple[Template, ...] = (
    Template(direct_config.NARROW, narrow.plan, direct_config.parse_narrow, narrow.kernels),
    Template(direct_config.SCALAR, scalar.plan, direct_config.parse_scalar, scalar.kernels),
    Template(
        direct_config.GROUPED_PAIRS,
        grouped_pairs.plan,
        direct_config.parse_grouped_pairs,
        grouped_pairs.kernels,
    ),
    Template(
        direct_config.GROUPED, grouped_rule.plan, direct_config.parse_grouped, grouped.kernels
    ),
    Template(direct_config.SHALLOW, shallow.plan, direct_config.parse_shallow, shallow.kernels),
    Template(
        wgmma_joined_config.FAMILY,
        wgmma_joined.plan,
        wgmma_joined_config.JoinedConfig.parse,
        wgmma_joined.kernels,
    ),
    Template(
        direct_config.GROUPED_WGRAD_PAIRS,
        grouped_wgrad_pairs.plan,
        direct_config.parse_grouped_wgrad_pairs,
        grouped_wgrad_pairs.kernels,
    ),
    Template(
        direct_config.GROUPED_WGRAD,
        grouped_wgrad_rule.plan,
        direct_config.parse_grouped_wgrad,
        grouped_wgrad.kernels,
    ),
    _WGMMA,
    Template(
        family=stacked_wgrad_config.FAMILY,
        plan=stacked_wgrad_rule.plan,
        parse=stacked_wgrad_config.StackedWgradConfig.parse,
        kernels=stacked_wgrad.kernels,
        with_partition=stacked_wgrad_config.StackedWgradConfig.with_partition,
        with_roles=stacked_wgrad_config.StackedWgradConfig.with_roles,
    ),
    Template(
        family=taps_wgrad_config.FAMILY,
        plan=taps_wgrad_rule.plan,
        parse=taps_wgrad_config.parse,
        kernels=taps_wgrad.kernels,
        with_partition=taps_wgrad_config.TapsWgradConfig.with_partition,
        with_roles=taps_wgrad_config.TapsWgradConfig.with_roles,
    ),
    Template(
        family=wgmma_wgrad_config.FAMILY,
        plan=wgmma_wgrad.plan,
        parse=wgmma_wgrad_config.WgmmaWgradConfig.parse,
        kernels=wgmma_wgrad.kernels,
        with_partition=wgmma_wgrad_config.WgmmaWgradConfig.with_partition,
        with_roles=wgmma_wgrad_config.WgmmaWgradConfig.with_roles,
    ),
    Template(merged.FAMILY, _merged.plan, _merged.parse, _merged.kernels),
)
"""What computes a contraction where its operands lie, and mostly wants channels as neighbours."""

_relaid = Relaid(_ALONE)
TEMPLATES: tuple[Template, ...] = (
    *_ALONE,
    Template(relaid.FAMILY, _relaid.plan, _relaid.parse, _relaid.kernels),
    Template(
        family=implicit_gemm_config.FAMILY,
        plan=implicit_gemm_rule.plan,
        parse=implicit_gemm_config.parse,
        kernels=implicit_gemm.kernels,
    ),
)
"""Every template, the most specialised first: the first one that does not refuse is used."""


@dataclass(frozen=True)
class Choice:
    """The config that stands for a kernel."""

    config: KernelConfig
    refused: tuple[str, ...]
    """Why templates that are preferred do not compute it: `not NAME: REASON`."""


def choose(callee: kernel.FuncOp, gpu: Gpu) -> Choice | Refusal:
    """The best config of the first template that computes all of `callee`, or why none does."""
    problem = read_problem(callee)
    if isinstance(problem, Refusal):
        return problem
    refused: list[str] = []
    for template in TEMPLATES:
        configs = template.plan(problem.contraction, problem.epilogue, gpu)
        if not isinstance(configs, Refusal):
            return Choice(configs[0], tuple(refused))
        refused.append(f"not {template.family}: {configs.reason}")
    return Refusal("; ".join(refused) or "there is no template")


def legal_plans(problem: ContractionProblem, gpu: Gpu) -> dict[str, KernelPlan]:
    """Every config that may compute a contraction on a GPU, the best first as rules have it."""
    found: dict[str, KernelPlan] = {}
    for template in TEMPLATES:
        configs = template.plan(problem.contraction, problem.epilogue, gpu)
        for config in () if isinstance(configs, Refusal) else configs:
            plan = _plan(problem, template, str(config))
            if isinstance(plan, KernelPlan):
                found[str(config)] = plan
    return found


def plan_on(gpu: Gpu, problem: ContractionProblem, config: str) -> KernelPlan | Refusal:
    """The launches of a config that may be written down anywhere, or why `gpu` does not run it."""
    template = template_of(config)
    if template is None:
        return Refusal(f"there is no template of '{config}'")
    configs = template.plan(problem.contraction, problem.epilogue, gpu)
    if isinstance(configs, Refusal):
        return configs
    plan = _plan(problem, template, config)
    if isinstance(plan, KernelPlan):
        needed = max(kernel.shared_bytes for kernel in plan.kernels)
        if needed > gpu.shared_bytes:
            return Refusal(f"it needs {needed} bytes of shared memory of {gpu.shared_bytes}")
    return plan


def is_template(config: str) -> bool:
    """Whether a config's text begins with the name of a template."""
    return template_of(config) is not None


def template_of(config: str) -> Template | None:
    """The template whose name a config's text begins with."""
    family = config.partition(" ")[0]
    return next((template for template in TEMPLATES if template.family == family), None)


def plan_kernel(callee: kernel.FuncOp, config: str) -> KernelPlan | Refusal:
    """The launches of a template's config for `callee`, on its inputs and outputs.

    A refusal says why the config does not stand for the kernel: it is none, or not legal for it.
    """
    template = template_of(config)
    if template is None:
        return Refusal(f"there is no template of '{config}'")
    problem = read_problem(callee)
    return problem if isinstance(problem, Refusal) else _plan(problem, template, config)


def _plan(problem: ContractionProblem, template: Template, config: str) -> KernelPlan | Refusal:
    try:
        parsed = template.parse(config)
    except ValueError as error:
        return Refusal(f"'{config}' is no config of {template.family}: {error}")
    plan = template.kernels(problem.contraction, problem.epilogue, parsed)
    return plan if isinstance(plan, Refusal) else plan.resolved(problem.place)
