"""The families of kernels that a CPU runs, and what stands for a kernel by a config's text."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, cast

from convir.analysis.refusal import Refusal
from convir.dialects.entry_points import HOST_KERNELS, installed
from convir.lowering.kernels.host.amx_implicit_gemm import launch as amx_implicit_gemm
from convir.lowering.kernels.host.amx_implicit_gemm import predict as amx_prediction
from convir.lowering.kernels.host.amx_implicit_gemm.family import AMX_IMPLICIT_GEMM
from convir.lowering.kernels.host.amx_wgrad import launch as amx_wgrad
from convir.lowering.kernels.host.amx_wgrad import predict as amx_wgrad_prediction
from convir.lowering.kernels.host.amx_wgrad.family import AMX_WGRAD
from convir.lowering.kernels.host.attention.family import ATTENTION
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.depthwise_channels_last import launch as channels_last
from convir.lowering.kernels.host.depthwise_channels_last import predict as channels_last_prediction
from convir.lowering.kernels.host.depthwise_channels_last.family import DEPTHWISE_CHANNELS_LAST
from convir.lowering.kernels.host.direct_depthwise import launch as direct_depthwise
from convir.lowering.kernels.host.direct_depthwise.family import DIRECT_DEPTHWISE
from convir.lowering.kernels.host.direct_depthwise.kernel import cut_planes
from convir.lowering.kernels.host.family import Family
from convir.lowering.kernels.host.fused_chain.family import FUSED_CHAIN
from convir.lowering.kernels.host.implicit_gemm import launch as implicit_gemm
from convir.lowering.kernels.host.implicit_gemm import predict as vector_prediction
from convir.lowering.kernels.host.implicit_gemm.family import IMPLICIT_GEMM
from convir.lowering.kernels.host.loops.family import LOOPS
from convir.lowering.kernels.host.pooling.family import POOL
from convir.lowering.kernels.host.reduction.family import REDUCTION
from convir.lowering.kernels.host.scatter.family import SCATTER
from convir.lowering.kernels.host.wgrad import launch as wgrad
from convir.lowering.kernels.host.wgrad import predict as wgrad_prediction
from convir.lowering.kernels.host.wgrad.family import WGRAD
from convir.lowering.kernels.library.blas import BLAS
from convir.lowering.kernels.ranking import Prediction, Ranking

if TYPE_CHECKING:
    from collections.abc import Collection

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.family import FamilyProblem, HostFamily, Launched
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.lowering.kernels.protocol import KernelConfig
    from convir.lowering.kernels.ranking import Choice

CONTRACTIONS: tuple[HostFamily, ...] = (
    DIRECT_DEPTHWISE,
    DEPTHWISE_CHANNELS_LAST,
    IMPLICIT_GEMM,
    WGRAD,
    AMX_IMPLICIT_GEMM,
    AMX_WGRAD,
)
"""What computes contractions by register tiles: on every CPU one of them does."""

ON_TILES: tuple[HostFamily, ...] = (AMX_IMPLICIT_GEMM, AMX_WGRAD)
"""Those of them that need AMX."""

INSTALLED: tuple[HostFamily, ...] = installed(HOST_KERNELS, cast("type[HostFamily]", Family))
"""Those of other packages."""

FAMILIES: tuple[HostFamily, ...] = (
    *INSTALLED,
    FUSED_CHAIN,
    ATTENTION,
    *CONTRACTIONS,
    BLAS,
    SCATTER,
    REDUCTION,
    POOL,
    LOOPS,
)
"""Every family, the most specialised first: of equal predictions the first one is used."""

ANY_CONTRACTION = "contraction"
"""A config of IR that was written when the families of contractions were one."""

_log = logging.getLogger(__name__)


def rank(body: KernelBody, cpu: CpuTarget, without: Collection[str] = ()) -> Ranking:
    """Every config that any family considers, by predicted time.

    Args:
        body: the kernel.
        cpu: the processor.
        without: the families that may not compute it.
    """
    found: list[Prediction] = []
    refused: list[str] = []
    for family in FAMILIES:
        if family.name in without:
            refused.append(f"not {family.name}: it is not to be used")
            continue
        problem = family.problem(body, cpu)
        configs = problem if isinstance(problem, Refusal) else family.candidates(problem, cpu)
        if isinstance(problem, Refusal) or isinstance(configs, Refusal):
            refused.append(f"not {family.name}: {cast('Refusal', configs).reason}")
            continue
        for each in configs:
            found.append(Prediction(family.name, each, family.predict(problem, each, cpu)))
    return Ranking.of(found, refused)


def choose(body: KernelBody, cpu: CpuTarget, without: Collection[str] = ()) -> Choice | Refusal:
    """The legal config with the least predicted time, or why no family computes a kernel.

    Args:
        body: the kernel.
        cpu: the processor.
        without: the families that may not compute it.
    """

    def refusal(best: Prediction) -> Refusal | None:
        (family,) = (each for each in FAMILIES if each.name == best.family)
        problem = family.problem(body, cpu)
        if isinstance(problem, Refusal):
            return problem
        return family.refusal(problem, best.config, cpu)

    return rank(body, cpu, without).choice(refusal)


def families_of(config: str) -> tuple[HostFamily, ...]:
    """The families that a config's text stands for, the preferred one first; none if it names none.

    Which family computes a contraction depends on how wide a CPU's vectors are, so another one
    stands in where code is made for another CPU than the config was chosen for.
    """
    name = config.partition(" ")[0]
    if name == ANY_CONTRACTION:
        return CONTRACTIONS
    named = [family for family in FAMILIES if family.name == name]
    if any(family in (REDUCTION, POOL, ATTENTION) for family in named):
        return (*named, LOOPS)  # Bound to other sizes, a kernel may be none of theirs.
    if not any(family in CONTRACTIONS for family in named):
        return tuple(named)
    return (*named, *(family for family in CONTRACTIONS if family not in named))


@dataclass(frozen=True)
class Planned:
    """What stands for a kernel on a CPU."""

    family: HostFamily
    config: KernelConfig
    problem: FamilyProblem
    launch: Launched


def plan_kernel(body: KernelBody, config: str, cpu: CpuTarget) -> Launched | Refusal:
    """What a config launches for a kernel on a CPU, or why nothing stands for the kernel."""
    planned = planned_kernel(body, config, cpu)
    return planned if isinstance(planned, Refusal) else planned.launch


def planned_kernel(body: KernelBody, config: str, cpu: CpuTarget) -> Planned | Refusal:
    """What a config stands for where a kernel is to run on a CPU, or why it is nothing."""
    families = families_of(config)
    if not families:
        return Refusal(f"'{config}' is not a config for the host")
    reasons: list[str] = []
    # Results that share memory with arguments are known late; loops bear it where others do not.
    for family in (*families, *([LOOPS] if body.overlaps else [])):
        planned = _planned(body, family, config, cpu)
        if not isinstance(planned, Refusal):
            if family.name != config.partition(" ")[0]:
                _log.info("@%s: %s instead of %s", body.function.sym_name.data, family.name, config)
            return planned
        reasons.append(planned.reason)
    return Refusal("; ".join(dict.fromkeys(reasons)))


def _planned(
    body: KernelBody, family: HostFamily, config: str, cpu: CpuTarget
) -> Planned | Refusal:
    problem = family.problem(body, cpu)
    if isinstance(problem, Refusal):
        return problem
    is_named = family.name == config.partition(" ")[0]
    try:
        parsed = family.parse(config if is_named else family.name)
    except ValueError as error:
        return Refusal(str(error))
    launch = family.launch(problem, parsed, cpu)
    return launch if isinstance(launch, Refusal) else Planned(family, parsed, problem, launch)


def plan_contraction(
    spec: Contraction, cpu: CpuTarget, epilogue: FusedEpilogue | None = None
) -> HostLaunch:
    """The launch of a contraction on its own operands.

    Args:
        spec: what is contracted.
        cpu: the processor.
        epilogue: what follows; `fused_store.refusal` has none for it.

    Raises:
        ValueError: there are too many taps for a row table, or the groups of an operand that has
            to be copied do not lie behind each other.
    """
    if spec.result == "B":
        if amx_wgrad_prediction.predict(spec, cpu) < wgrad_prediction.predict(spec, cpu):
            return amx_wgrad.launch(spec, cpu)
        return wgrad.launch(spec, cpu)
    if cut_planes(spec, Lanes(spec.element, cpu)) is not None:
        return direct_depthwise.launch(spec, cpu, epilogue)
    by_vectors = vector_prediction.predict(spec, cpu)
    by_lines = channels_last_prediction.predict(spec, cpu)
    if by_lines < inf and by_lines <= by_vectors:
        return channels_last.launch(spec, cpu, epilogue)
    by_tiles = amx_prediction.predict(spec, cpu)
    if by_tiles < by_vectors:
        return amx_implicit_gemm.launch(spec, cpu, epilogue)
    return implicit_gemm.launch(spec, cpu, epilogue)
