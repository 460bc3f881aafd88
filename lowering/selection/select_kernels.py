"""`select-kernels`: every kernel gets the implementation that stands for it on a device.

    rewrite: kernel.region { contraction + epilogue }
             --> kernel.region configs {host = "implicit-gemm"} { contraction }
                 kernel.region configs {host = "loops"} { epilogue }

Where there is a tuning record of the kernel on this GPU, its best config is taken if it is legal.
Elsewhere the config with the least predicted time of all families is taken, a library's call
included, and on the host plain loops. One that computes the whole region is taken as it is; one
that computes the contraction alone, or with the op behind it (a rounding), splits it from its
epilogue, on the host where loops for all of the region are predicted to take longer than both
parts. What nothing else computes becomes loops. The reason is a remark, with the predicted time and
that of the best other family.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from convir.lowering.implementations import HOST, LOOPS, PLANAR, attach_config, config_of
from convir.lowering.kernels.target import Target
from convir.lowering.regions.op_groups import is_reduction
from convir.lowering.regions.outline_kernels import outlined
from convir.lowering.selection.choose_implementation import (
    Chosen,
    Selection,
    choose,
    implementations,
    printed,
    recorded,
)
from convir.lowering.selection.gpu_option import target_of, todays_option
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


NAME = "select-kernels"


def select(region: kernel.RegionOp, to: Selection) -> None:
    """Attach a config for a device to `region`, splitting it where an implementation does part."""
    whole, reasons = choose(region, to)
    if whole is not None and whole.config != LOOPS:
        _attach(region, to, whole, "it computes all of the kernel")
        return
    contractions = [
        op for op in region.body.block.ops if not isinstance(contraction_dims(op), Refusal)
    ]
    part: _Part | None = None
    for last in _ends_of_a_part(contractions):
        found = _part(region, last, to)
        if isinstance(found, _Part):
            part = found if part is None or found.us < part.us else part
            if whole is None:
                break
        elif whole is None:
            reasons = found
    if part is not None and (whole is None or whole.us is None or part.us < whole.us):
        why = "; ".join(("the epilogue of a contraction", *_instead(whole, part.us), *reasons))
        first = _alone(region, part.last)
        _insert_before(region, first, part.last)
        _attach(first, to, part.chosen, "it computes the contraction")
        _attach(region, to, Chosen(LOOPS), why)
    elif whole is not None:
        _attach(region, to, whole, "it computes all of the kernel")
    else:
        why = "; ".join(reasons) if contractions else "it holds no contraction"
        _attach(region, to, Chosen(LOOPS), why)


@dataclass(frozen=True)
class _Part:
    """What stands for the beginning of a region, and what it takes with loops for the rest."""

    last: Operation
    """The op that it ends with."""
    chosen: Chosen
    us: float


def _part(region: kernel.RegionOp, last: Operation, to: Selection) -> _Part | list[str]:
    """The fastest implementation of the ops up to `last`, or why there is none but loops."""
    first = _alone(region, last)
    without = replace(to, without=(*to.without, LOOPS)) if to.device == HOST else to
    chosen, reasons = choose(first, without)
    first.erase()  # Or what it reads of the program would count as read.
    if chosen is None:
        return reasons
    if isinstance(to.target, Target) or chosen.us is None:
        return _Part(last, chosen, 0.0)
    # A GPU needs none of the host's families.
    from convir.lowering.kernels.host.loops.predict import predict as predict_loops  # noqa: PLC0415

    done = backward_slice(region.body.block, {last})
    rest = [op for op in region.body.block.ops if op not in done]
    named = tuple(each for each in chosen.reasons if not each.startswith(f"not {LOOPS}:"))
    part_us = chosen.us + predict_loops(rest, to.target)
    return _Part(last, replace(chosen, reasons=named), part_us)


def _instead(whole: Chosen | None, part_us: float) -> tuple[str, ...]:
    """Why loops do not compute all of a region, of which they compute the rest."""
    if whole is None or whole.us is None:
        return ()
    both = f"predicted {printed(part_us)} µs for both, loops {printed(whole.us)} µs for all"
    return (both, *whole.reasons[1:])


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


def _refine(region: kernel.RegionOp, to: Selection) -> None:
    """Let a record choose the register tile of a planar kernel."""
    known = recorded(outlined(region, "candidate")[0], to)
    if isinstance(known, Chosen):
        _attach(region, to, known, "it computes all of the kernel")


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


def _attach(region: kernel.RegionOp, to: Selection, chosen: Chosen, reason: str) -> None:
    attach_config(region, to.device, chosen.config)
    if to.told is not None:
        to.told(region)
    shapes = ", ".join(str(t) for t in region.res.types if isinstance(t, TensorType))
    why = "; ".join((reason, *chosen.reasons))
    reason = f"{chosen.config} for {to.device} ({shapes}): {why}"
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
    target: str | None = None
    """What kernels are chosen for: a CPU's name (`host`, `x86-64-v3`), a GPU's, or the GPU as
    `Target` prints it; without one this machine's CPU, or the default GPU."""
    records: tuple[str, ...] = ()
    """Files of tuning records that are asked before the shipped ones."""
    without: tuple[str, ...] = ()
    """Implementations that may not be chosen, e.g. `template`: then contractions are library calls
    or loops, and records are not asked."""
    gpu: str | None = None
    """The older spelling of `target`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel region.

        Raises:
            PassFailedException: as `select`.
        """
        self.select(op)

    def select(self, op: ModuleOp, told: Callable[[kernel.RegionOp], None] | None = None) -> None:
        """Choose for every kernel region of a module.

        Args:
            op: the module.
            told: is given each region as soon as it has its config.

        Raises:
            PassFailedException: there is no such device, `target` names no target for it, or
                `without` no implementation.
        """
        check_device(self.device)
        target = target_of(self.device, todays_option(self.device, self.target, self.gpu))
        for name in self.without:
            if name not in implementations(self.device):
                raise PassFailedException(f"'{name}' is not an implementation for {self.device}")
        to = Selection(target, self.records, self.without, told)
        for region in [r for r in op.walk() if isinstance(r, kernel.RegionOp)]:
            given = config_of(region, self.device)
            if given is None or given in self.without:
                select(region, to)
            elif given == PLANAR and self.device == HOST:
                _refine(region, to)
