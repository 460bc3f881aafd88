"""`select-kernels`: every kernel gets the implementation that stands for it on a device.

    rewrite: kernel.region { contraction + epilogue }
             --> kernel.region configs {host = "implicit-gemm"} { contraction }
                 kernel.region configs {host = "loops"} { epilogue }

Where there is a tuning record of the kernel on this GPU, its best config is taken if it is legal.
Elsewhere a GPU gets the config with the least predicted time of all families, a library's call
included; on the host the first implementation that computes the kernel is taken. One that computes
the whole region is taken as it is; one that computes the contraction alone, or with the op behind
it (a rounding), splits it from its epilogue. What none computes becomes loops. The reason is a
remark, with the predicted time and that of the best other family.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.contraction import contraction_dims
from convir.analysis.dependence import backward_slice
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.dialects.kernel import ops as kernel
from convir.lowering.implementations import (
    CUDA,
    GEMM,
    HOST,
    LOOPS,
    PLANAR,
    TEMPLATE,
    attach_config,
    config_of,
)
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import SELECTED
from convir.lowering.kernels.host.target import target
from convir.lowering.kernels.library.gemm_call import library_gemm
from convir.lowering.kernels.target import DEFAULT_TARGET, Target
from convir.lowering.regions.op_groups import is_reduction
from convir.lowering.regions.outline_kernels import outlined
from convir.lowering.selection.candidates import candidates_for, machine_for
from convir.lowering.selection.gpu_option import gpu_of
from convir.lowering.selection.records.read import find, records_of
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.kernels.host.family import HostFamily
    from convir.lowering.selection.records.record import Key, Machine, Record

_log = logging.getLogger(__name__)

NAME = "select-kernels"


@dataclass(frozen=True)
class Chosen:
    """What stands for a kernel, and why: what was measured, or why what is preferred does not."""

    config: str
    reasons: tuple[str, ...] = ()
    us: float | None = None
    """What it is predicted to take; None where an order decides."""
    predicted: tuple[tuple[str, float], ...] = ()
    """Families and what the best config of each is predicted to take: its own, and a runner-up."""


Chooses: TypeAlias = Callable[[kernel.FuncOp, Target], Chosen | Refusal]


def _host(family: HostFamily) -> Chooses:
    """The choice of a family of the host's, which are tried in order."""

    def chooses(function: kernel.FuncOp, gpu: Target) -> Chosen | Refusal:
        del gpu
        problem = family.problem(KernelBody(function), target())
        return problem if isinstance(problem, Refusal) else Chosen(family.name)

    return chooses


def _gemm(function: kernel.FuncOp, gpu: Target) -> Chosen | Refusal:
    del gpu
    call = library_gemm(function)
    return call if isinstance(call, Refusal) else Chosen(GEMM)


def _cuda_gemm(function: kernel.FuncOp, gpu: Target) -> Chosen | Refusal:
    chosen = _gemm(function, gpu)
    if isinstance(chosen, Refusal):
        return chosen
    # The host needs none of the predictions.
    from convir.lowering.kernels.cuda.problem import read_problem  # noqa: PLC0415
    from convir.lowering.kernels.library.predict import predict  # noqa: PLC0415

    problem = read_problem(function)
    if isinstance(problem, Refusal):
        return chosen
    us = predict(problem.contraction, problem.epilogue, gpu)
    return Chosen(GEMM, (), us, ((GEMM, us),))


def _template(function: kernel.FuncOp, gpu: Target) -> Chosen | Refusal:
    # The host needs none of the kernel families.
    from convir.lowering.kernels.registry import choose  # noqa: PLC0415

    choice = choose(function, gpu)
    if isinstance(choice, Refusal):
        return choice
    config, other = str(choice.config), choice.runner_up
    predicted = [(config.partition(" ")[0], choice.us)]
    predicted += [] if other is None else [(other.family, other.us)]
    return Chosen(config, choice.refused, choice.us, tuple(predicted))


IMPLEMENTATIONS: dict[str, tuple[tuple[str, Chooses], ...]] = {
    HOST: tuple((family.name, _host(family)) for family in SELECTED),
    CUDA: ((GEMM, _cuda_gemm), (TEMPLATE, _template)),
}
"""Per device what may stand for a kernel, by name: the best first on the host, with predicted times
on a GPU."""


@dataclass(frozen=True)
class Selection:
    """What kernels are chosen for, and what may be chosen."""

    device: str
    gpu: Target = DEFAULT_TARGET
    """Where the device is a GPU."""
    records: tuple[str, ...] = ()
    """Files of tuning records that are asked before the shipped ones."""
    without: tuple[str, ...] = ()
    """Implementations that may not be chosen; where there are any, no record is asked."""

    @property
    def tuned_gpu(self) -> Target | None:
        """What records are of: the GPU, or None for the host."""
        return self.gpu if self.device == CUDA else None


def select(region: kernel.RegionOp, to: Selection) -> None:
    """Attach a config for a device to `region`, splitting it where an implementation does part."""
    device = to.device
    chosen, reasons = _choose(region, to)
    if chosen is not None:
        _attach(region, device, chosen, "it computes all of the kernel")
        return
    contractions = [
        op for op in region.body.block.ops if not isinstance(contraction_dims(op), Refusal)
    ]
    for last in _ends_of_a_part(contractions):
        first = _alone(region, last)
        chosen, reasons_alone = _choose(first, to)
        if chosen is not None:
            why = "; ".join(("the epilogue of a contraction", *reasons))
            _insert_before(region, first, last)
            _attach(first, device, chosen, "it computes the contraction")
            _attach(region, device, Chosen(LOOPS), why)
            return
        first.erase()  # Or what it reads of the program would count as read.
        reasons = reasons_alone
    why = "; ".join(reasons) if contractions else "it holds no contraction"
    _attach(region, device, Chosen(LOOPS), why)


def _ends_of_a_part(contractions: Sequence[Operation]) -> list[Operation]:
    """Where the only contraction of a region may be cut off: behind what follows it, or itself."""
    if len(contractions) != 1:
        return []
    (contraction,) = contractions
    users = {use.operation for result in contraction.results for use in result.uses}
    return [*(user for user in users if len(users) == 1 and _is_elementwise(user)), contraction]


def _is_elementwise(op: Operation) -> bool:
    view = structured(op)
    return view is not None and set(view.iterators) == {"parallel"}


def _choose(region: kernel.RegionOp, to: Selection) -> tuple[Chosen | None, list[str]]:
    """What a record says, or the fastest implementation by prediction; or why none computes it."""
    function, _ = outlined(region, "candidate")
    reasons: list[str] = []
    found: list[Chosen] = []
    recorded = _recorded(function, to)
    if isinstance(recorded, Chosen):
        return recorded, []
    if isinstance(recorded, Refusal):
        reasons.append(recorded.reason)
    for name, chooses in IMPLEMENTATIONS[to.device]:
        if name in to.without:
            reasons.append(f"not {name}: it is not to be used")
            continue
        chosen = chooses(function, to.gpu)
        if isinstance(chosen, Refusal):
            reasons.append(f"not {name}: {chosen.reason}")
            continue
        found.append(chosen)
        if chosen.us is None:
            break
    if not found:
        return None, reasons
    best = min(found, key=lambda each: each.us or 0.0)
    return Chosen(best.config, (*_compared(best, found), *reasons, *best.reasons)), []


def _compared(best: Chosen, found: Sequence[Chosen]) -> tuple[str, ...]:
    """The predicted time of the choice beside the best one of another family."""
    if best.us is None:
        return ()
    own = best.predicted[0][0]
    others = [(us, name) for each in found for name, us in each.predicted if name != own]
    if not others:
        return (f"predicted {best.us:.1f} µs",)
    us, name = min(others)
    return (f"predicted {best.us:.1f} µs, {name} {us:.1f} µs",)


def _recorded(function: kernel.FuncOp, to: Selection) -> Chosen | Refusal | None:
    """What the record of a kernel says, or why it is not used; None if there is none."""
    machine, tables = _records(to)
    if not tables:
        return None
    candidates = candidates_for(function, to.tuned_gpu)
    if isinstance(candidates, Refusal):
        return None
    record = find(tables, (machine, candidates.signature))
    best = record.best if record is not None else None
    if record is None or best is None or best.us is None:
        return None
    refusal = candidates.refusal(best.config)
    if refusal is not None:
        reason = f"not the record's '{best.config}': {refusal.reason}"
        _log.warning("%s: %s; predictions choose", record.problem, reason)
        return Refusal(reason)
    count = len(record.measurements)
    return Chosen(best.config, (f"measured, {best.us[0]:.1f} µs, the best of {count} configs",))


def _records(to: Selection) -> tuple[Machine, list[Mapping[Key, Record]]]:
    """The machine that times belong to, and the files that have some which may be used."""
    machine = machine_for(to.tuned_gpu)
    return machine, [] if to.without else records_of(machine, to.records)


def _refine(region: kernel.RegionOp, to: Selection) -> None:
    """Let a record choose the register tile of a planar kernel."""
    if not _records(to)[1]:
        return
    recorded = _recorded(outlined(region, "candidate")[0], to)
    if isinstance(recorded, Chosen):
        _attach(region, to.device, recorded, "it computes all of the kernel")


def _alone(region: kernel.RegionOp, contraction: Operation) -> kernel.RegionOp:
    """A detached region that computes `contraction` and what it needs of `region`, cloned."""
    body = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    for op in backward_slice(region.body.block, {contraction}):
        body.add_op(op.clone(mapping))
    result = contraction.results[0]
    body.add_op(kernel.YieldOp(mapping[result]))
    alone = kernel.RegionOp(Region(body), [result.type])
    alone.attributes |= region.attributes
    alone.location = contraction.location
    return alone


def _insert_before(region: kernel.RegionOp, first: kernel.RegionOp, contraction: Operation) -> None:
    """Put `first` before `region`, which takes its result instead of `contraction`'s."""
    Rewriter.insert_op(first, InsertPoint.before(region))
    first.res[0].name_hint = contraction.results[0].name_hint
    contraction.results[0].replace_all_uses_with(first.res[0])
    for op in reversed(list(region.body.block.ops)):
        if op.results and all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)


def _attach(region: kernel.RegionOp, device: str, chosen: Chosen, reason: str) -> None:
    attach_config(region, device, chosen.config)
    shapes = ", ".join(str(t) for t in region.res.types if isinstance(t, TensorType))
    why = "; ".join((reason, *chosen.reasons))
    reason = f"{chosen.config} for {device} ({shapes}): {why}"
    remarks.fired(NAME, _main_op(region), reason, "implemented")


def _main_op(region: kernel.RegionOp) -> Operation:
    """What a kernel is about: its reduction, or else what computes its first result."""
    for op in region.body.block.ops:
        if is_reduction(op):
            return op
    yielded = region.body.block.last_op
    value = yielded.operands[0].owner if yielded is not None and yielded.operands else region
    return value if isinstance(value, Operation) else region


@dataclass(frozen=True)
class SelectKernelsPass(ModulePass):
    """Choose an implementation for every kernel region that has none for `device`."""

    name = NAME

    device: str = HOST
    gpu: str = str(DEFAULT_TARGET)
    """The GPU that kernels are chosen for, as `Target` prints it."""
    records: tuple[str, ...] = ()
    """Files of tuning records that are asked before the shipped ones."""
    without: tuple[str, ...] = ()
    """Implementations that may not be chosen, e.g. `template`: then contractions are library calls
    or loops, and records are not asked."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel region.

        Raises:
            PassFailedException: there is no such device, `gpu` describes no GPU, or `without` names
                no implementation.
        """
        check_device(self.device)
        gpu = gpu_of(self.gpu)
        for name in self.without:
            if all(name != known for known, _ in IMPLEMENTATIONS[self.device]):
                raise PassFailedException(f"'{name}' is no implementation for {self.device}")
        to = Selection(self.device, gpu, self.records, self.without)
        for region in [r for r in op.walk() if isinstance(r, kernel.RegionOp)]:
            given = config_of(region, self.device)
            if given is None or given in self.without:
                select(region, to)
            elif given == PLANAR and self.device == HOST:
                _refine(region, to)
