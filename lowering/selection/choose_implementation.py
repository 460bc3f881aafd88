"""What stands for a kernel on a device: what a tuning record says, or the fastest by prediction."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects import arith

from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import once_for_equal_bodies
from convir.lowering.implementations import CUDA, GEMM, HOST, REDUCTION, TEMPLATE
from convir.lowering.kernels.library.gemm_call import match_gemm
from convir.lowering.kernels.target import Target
from convir.lowering.regions.outline_kernels import outlined
from convir.lowering.selection.candidates import candidates_for, machine_for
from convir.lowering.selection.records.read import find, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.lowering.kernels.ranking import Choice

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chosen:
    """What stands for a kernel, and why: what was measured, or why what is preferred does not."""

    config: str
    reasons: tuple[str, ...] = ()
    us: float | None = None
    """What it is predicted to take; None where that is not known."""
    predicted: tuple[tuple[str, float], ...] = ()
    """Families and what the best config of each is predicted to take: its own, and a runner-up."""

    @staticmethod
    def of(choice: Choice) -> Chosen:
        """The choice of a registry."""
        config, other = str(choice.config), choice.runner_up
        predicted = [(config.partition(" ")[0], choice.us)]
        predicted += [] if other is None else [(other.family, other.us)]
        return Chosen(config, choice.refused, choice.us, tuple(predicted))


def _host(
    function: kernel.FuncOp, constants: tuple[int, ...], cpu: CpuTarget, without: Sequence[str]
) -> tuple[list[Chosen], list[str]]:
    """The fastest of all families of the host, or why none computes a kernel."""
    # The name is no part of what is computed: what else a function says beside its body is.
    said = (function.configs, frozenset(function.attributes.items()))
    choice = _chosen_for_host(function, said, constants, cpu, tuple(without))
    if isinstance(choice, Refusal):
        return [], [choice.reason]
    return [Chosen.of(choice)], []


@once_for_equal_bodies
def _chosen_for_host(
    function: kernel.FuncOp,
    _said: Hashable,
    constants: tuple[int, ...],
    cpu: CpuTarget,
    without: tuple[str, ...],
) -> Choice | Refusal:
    # A GPU needs none of the host's families.
    from convir.lowering.kernels.host import registry as host  # noqa: PLC0415
    from convir.lowering.kernels.host.problem import KernelBody  # noqa: PLC0415

    return host.choose(KernelBody(function, constants=constants), cpu, without)


def _cuda(
    function: kernel.FuncOp, gpu: Target, without: Sequence[str]
) -> tuple[list[Chosen], list[str]]:
    """What cuBLAS and the fastest of our families take, or why they do not compute a kernel."""
    found: list[Chosen] = []
    reasons: list[str] = []
    for name, chooses in ((GEMM, _cuda_gemm), (TEMPLATE, _template), (REDUCTION, _rows)):
        if found and name == REDUCTION:
            continue  # It is a contraction.
        chosen = Refusal("it is not to be used") if name in without else chooses(function, gpu)
        if isinstance(chosen, Refusal):
            reasons.append(f"not {name}: {chosen.reason}")
            continue
        found.append(chosen)
        if chosen.us is None:
            break
    return found, reasons


def _cuda_gemm(function: kernel.FuncOp, gpu: Target) -> Chosen | Refusal:
    call = match_gemm(function)
    if isinstance(call, Refusal):
        return call
    # The host needs none of the predictions.
    from convir.lowering.kernels.cuda.problem import read_problem  # noqa: PLC0415
    from convir.lowering.kernels.library.predict import predict  # noqa: PLC0415

    problem = read_problem(function)
    if isinstance(problem, Refusal):
        return Chosen(GEMM)
    us = predict(problem.contraction, problem.epilogue, gpu)
    return Chosen(GEMM, (), us, ((GEMM, us),))


def _template(function: kernel.FuncOp, gpu: Target) -> Chosen | Refusal:
    # The host needs none of the kernel families.
    from convir.lowering.kernels.registry import choose  # noqa: PLC0415

    choice = choose(function, gpu)
    return choice if isinstance(choice, Refusal) else Chosen.of(choice)


def _rows(function: kernel.FuncOp, gpu: Target) -> Chosen | Refusal:
    # The host needs none of the kernel families.
    from convir.lowering.kernels.registry import choose_rows  # noqa: PLC0415

    choice = choose_rows(function, gpu)
    return choice if isinstance(choice, Refusal) else Chosen.of(choice)


def implementations(device: str) -> tuple[str, ...]:
    """What may stand for a kernel on a device, by name."""
    if device == CUDA:
        return GEMM, TEMPLATE, REDUCTION
    from convir.lowering.kernels.host import registry as host  # noqa: PLC0415  (as above)

    return tuple(family.name for family in host.FAMILIES)


@dataclass(frozen=True)
class Selection:
    """What kernels are chosen for, and what may be chosen."""

    target: Target | CpuTarget
    records: tuple[str, ...] = ()
    """Files of tuning records that are asked before the shipped ones."""
    without: tuple[str, ...] = ()
    """Implementations that may not be chosen; where there are any, no record is asked."""
    told: Callable[[kernel.RegionOp], None] | None = None
    """Is given each region as soon as it has its config."""

    @property
    def gpu(self) -> Target | None:
        """What kernels are chosen for; None for the host."""
        return self.target if isinstance(self.target, Target) else None

    @property
    def device(self) -> str:
        """`host` or `cuda`."""
        return HOST if self.gpu is None else CUDA


def choose(region: kernel.RegionOp, to: Selection) -> tuple[Chosen | None, list[str]]:
    """What a record says, or the fastest implementation by prediction; or why none computes it."""
    function, captures = outlined(region, "candidate")
    constants = tuple(i for i, x in enumerate(captures) if isinstance(x.owner, arith.ConstantOp))
    known = recorded(function, to)
    if isinstance(known, Chosen):
        return known, []
    if isinstance(to.target, Target):
        found, reasons = _cuda(function, to.target, to.without)
    else:
        found, reasons = _host(function, constants, to.target, to.without)
    if isinstance(known, Refusal):
        reasons.insert(0, known.reason)
    if not found:
        return None, reasons
    best = min(found, key=lambda each: each.us or 0.0)
    reasons = [*_compared(best, found), *reasons, *best.reasons]
    return replace(best, reasons=tuple(reasons)), []


def _compared(best: Chosen, found: Sequence[Chosen]) -> tuple[str, ...]:
    """The predicted time of the choice beside the best one of another family."""
    if best.us is None:
        return ()
    own = best.predicted[0][0]
    others = [(us, name) for each in found for name, us in each.predicted if name != own]
    if not others:
        return (f"predicted {printed(best.us)} µs",)
    us, name = min(others)
    return (f"predicted {printed(best.us)} µs, {name} {printed(us)} µs",)


def printed(us: float) -> str:
    """So many µs, as remarks say it."""
    return f"{us:.1f}" if us >= 1 else f"{us:.2f}"


def recorded(function: kernel.FuncOp, to: Selection) -> Chosen | Refusal | None:
    """What the record of a kernel says, or why it is not used; None if there is none."""
    machine = machine_for(to.gpu)
    tables = [] if to.without else records_of(machine, to.records)
    if not tables:
        return None
    candidates = candidates_for(function, to.gpu)
    if isinstance(candidates, Refusal):
        return None
    record = find(tables, (machine, candidates.signature))
    best = record.best if record is not None else None
    if record is None or best is None or best.us is None:
        return None
    refusal = candidates.refusal(best.config)
    if refusal is not None:
        reason = f"not the record's '{best.config}': {refusal.reason}"
        _log.warning("%s: %s; predictions decide", record.problem, reason)
        return Refusal(reason)
    count = len(record.measurements)
    return Chosen(best.config, (f"measured, {best.us[0]:.1f} µs, the best of {count} configs",))
