"""`assign-layout`: the images of a graph have their channels last, and transposes at the edges.

    rewrite: %y = conv.fprop layouts(NCHW, …, NCHW) ins(%x, %w)     %t = transpose %x
             %r = generic(%y)                                   --> %y = conv.fprop layouts(NHWC, …)
             return %r                                              %r = generic(%y)
                                                                    return transpose %r

Preconditions: shapes are static; the convolutions of a component have their channels first.
Everything that is linked with a convolution's image by ops that compute as well on permuted
tensors (`analysis/layouts.py`) is permuted; where the component ends, tensors are transposed.

A component is rewritten if that moves fewer bytes than its convolutions would: a kernel whose
vectors hold channels copies an image with its channels first, and transposes its result. On
the host small convolutions along neighbouring frames need no copy (`fused_chain`), and
normalisations of groups of channels go with the images around them (`channel_groups.py`).
With `layout=channels-outermost` images become CNHW: a 1x1 convolution is one matrix product for
the whole batch, with no copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.layouts import CHANNELS_FIRST, HOST, components, links_of
from convir.analysis.refusal import Refusal
from convir.dialects.stream_attributes import states_of
from convir.passes.channel_groups import join_groups
from convir.passes.dce import eliminate_dead_code
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device
from convir.passes.manager.quantities import bytes_text
from convir.passes.permuted_ops import LAYOUTS, order_of, permuted, transposed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

    from convir.analysis.layouts import Component


def gain_of(component: Component, device: str, layout: str) -> str | Refusal:
    """What permuting `component` saves on `device`, or why it saves nothing."""
    count = f"{len(component.convolutions)} convolutions"
    gained, moved = component.gained(device), component.moved
    if not gained:
        return Refusal(f"kernels of {count} need no copy in the present layout")
    if moved >= gained:
        copied = bytes_text(gained)
        return Refusal(f"transposing moves {bytes_text(moved)}, the copies of {count} {copied}")
    entering, leaving = component.edges
    return (
        f"{CHANNELS_FIRST[component.rank]} to {layout} for {count}: "
        f"{len(entering) + len(leaving)} transposes at the edges move {bytes_text(moved)} "
        f"instead of {bytes_text(gained)}"
    )


def permute(block: Block, moving: set[SSAValue], layout: str) -> None:
    """Compute the tensors `moving` permuted, each transposed back for whoever else reads it.

    What nobody reads in the end, a tensor transposed back among them, is left to `dce`.
    """
    known: dict[SSAValue, SSAValue] = {}

    def of(value: SSAValue) -> SSAValue:
        if value not in known:
            known[value] = _transpose_behind(value, order_of(value, layout))
        return known[value]

    for op in list(block.ops):
        linked = {value for value in links_of(op, moving) if value in moving}
        if not linked:
            continue
        new = permuted(op, [of(v) if v in linked else v for v in op.operands], linked, layout)
        Rewriter.insert_op(new, InsertPoint.before(op))
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint, value = old.name_hint, result
            if old in linked:
                order = order_of(old, layout)
                value = _transpose_behind(result, [order.index(dim) for dim in range(len(order))])
                known[value] = result
            if old in moving:
                moving.add(value)
            old.replace_all_uses_with(value)
        Rewriter.erase_op(op)


def _transpose_behind(value: SSAValue, order: Sequence[int]) -> SSAValue:
    owner = value.owner
    at = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
    ops = transposed(value, order)
    Rewriter.insert_op(ops, at)
    return ops[-1].results[0]


def _images(block: Block) -> set[SSAValue]:
    """What may change its layout on the host."""
    found = (each.values for each in components(block) if each.gained(HOST))
    return {value for values in found for value in values}


@dataclass(frozen=True)
class AssignLayoutPass(ModulePass):
    """Puts the channels of a graph's images last, with transposes at the graph's edges."""

    name = "assign-layout"

    layout: str = LAYOUTS[0]
    device: str = HOST
    """Whose kernels compute the convolutions."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block.

        Raises:
            PassFailedException: `layout` is none of `LAYOUTS`, or there is no such device.
        """
        check_device(self.device)
        if self.layout not in LAYOUTS:
            known = " or ".join(LAYOUTS)
            raise PassFailedException(f"layout is {known}, not '{self.layout}'")
        for function in [f for f in op.walk() if isinstance(f, func.FuncOp)]:
            if len(function.body.blocks) == 1:
                # The kernels of a stream's rows of frames are the same on every device.
                device = HOST if states_of(function) else self.device
                if device == HOST:
                    join_groups(function.body.block, _images(function.body.block))
                    eliminate_dead_code(function)
                self._assign(function.body.block, device)
                eliminate_dead_code(function)

    def _assign(self, block: Block, device: str) -> None:
        moving: set[SSAValue] = set()
        for component in components(block):
            first = component.convolutions[0]
            gain = gain_of(component, device, self.layout)
            if isinstance(gain, Refusal):
                remarks.refused(self.name, first, gain.reason)
                continue
            remarks.fired(self.name, first, gain)
            moving.update(component.values)
        permute(block, moving, self.layout)
