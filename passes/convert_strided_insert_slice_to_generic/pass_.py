"""`convert-strided-insert-slice-to-generic`: a scatter as one pass over its result.

    rewrite: %z = fill with c                            %e = empty
             %s = insert_slice %x into %z [o] [n] [s]    %s = generic outs(%e) {
                                                    -->    p = index - o
                                                           valid = p >= 0 and p mod s == 0
                                                                   and p / s < n
                                                           e = extract %x[clamp(p / s)]
                                                           yield select valid, e, c }

Preconditions: some stride is not 1; every dynamic stride is provably at least 1; every source
dimension holds an element, since the generic reads one at each position: dynamic sizes count where
the source provably fills the dimension, where they are provably at least 1, or with the option
`assume-nonempty`. The holes may hold any constant or scalar; a destination with elements of its
own is read at the same position. Rank-reducing insertions and all element types are covered.

It fires where `costs` says that one pass is cheaper than a fill and a strided copy; with
the option `force` always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith, tensor
from xdsl.ir import OpResult
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from convir.analysis.refusal import Refusal
from convir.analysis.slices import DimOf, SliceView, index_of, slice_view
from convir.passes.builders.kinds import WalkerOfKinds
from convir.passes.convert_strided_insert_slice_to_generic.costs import (
    copy_us,
    one_pass_us,
    traffic_of,
)
from convir.passes.convert_strided_insert_slice_to_generic.match import (
    feeds_contraction,
    is_stored_by_producer,
    pad_around,
    scatter_dims,
    scatter_view,
)
from convir.passes.convert_strided_insert_slice_to_generic.rewrite import scatter_as_generic
from convir.passes.machine_costs import ASSUMED, MachineCosts
from convir.passes.manager import remarks
from convir.passes.manager.fixpoint import leaves_unchanged
from convir.passes.manager.option_checks import costs_of

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from convir.analysis.slices import Mixed, Size
    from convir.passes.convert_strided_insert_slice_to_generic.costs import Traffic
    from convir.passes.convert_strided_insert_slice_to_generic.match import ScatterDim


@dataclass(frozen=True)
class Selection:
    """Which scatters are rewritten."""

    force: bool = False
    """Whatever it costs."""
    only_contraction_inputs: bool = False
    """Only scatters that a contraction reads."""
    pads: bool = False
    """Also stride 1: `tensor.pad`, and insertions that pad."""
    assume_nonempty: bool = False
    """Dynamic sizes are at least 1."""
    costs: MachineCosts = ASSUMED


def convertible(view: SliceView | None, selection: Selection) -> SliceView | Refusal:
    """`view` if its scatter can be computed position by position, else why not."""
    if view is None:
        return Refusal("its offsets, sizes and strides do not fit its tensors")
    if view.dest is None and view.fill is None:
        return Refusal("the padding value depends on the position")
    dims = scatter_dims(view)
    if all(dim.stride == 1 for dim in dims) and not selection.pads:
        return Refusal("no dimension is strided")
    if all(dim.covers for dim in dims):
        return Refusal("the source covers the whole result")
    for number, dim in enumerate(dims):
        if isinstance(dim.extent, DimOf) and dim.extent.value is view.result:
            return Refusal(f"its padded size is dynamic (dimension {number})")
        refusal = _unproved(dim, selection)
        if refusal is not None:
            return Refusal(f"{refusal} (dimension {number})")
    return view


def _unproved(dim: ScatterDim, selection: Selection) -> Refusal | None:
    if dim.size == 0:
        return Refusal("nothing is inserted")
    if dim.covers:
        return None
    if not _at_least_one(dim.stride):
        return Refusal("a dynamic stride may be less than 1")
    if not selection.assume_nonempty and not _at_least_one(dim.size):
        return Refusal("a dynamic size may be 0, and then there is no element to read")
    return None


def _at_least_one(value: Mixed | Size) -> bool:
    """True if an index is provably positive."""
    if isinstance(value, int):
        return value >= 1
    if not isinstance(value, OpResult) or not isinstance(value.op, arith.MaxSIOp):
        return False
    bounds = [index_of(operand) for operand in value.op.operands]
    return any(isinstance(bound, int) and bound >= 1 for bound in bounds)


def judged(view: SliceView, selection: Selection) -> tuple[bool, str]:
    """Whether one pass is to compute the scatter of `view`, and the reason."""
    read_by_contraction = feeds_contraction(view.result)
    if selection.only_contraction_inputs and not read_by_contraction:
        return False, "no contraction reads it"
    if selection.only_contraction_inputs and _is_one_of_several(view):
        return False, "it is one of several insertions that make up its result"
    stored_by_producer = not read_by_contraction and is_stored_by_producer(view)
    traffic = traffic_of(view, stored_by_producer=stored_by_producer)
    separate = copy_us(selection.costs, traffic)
    one_pass = one_pass_us(selection.costs, traffic)
    reader = ", for a contraction" if read_by_contraction else ""
    other = _alternative(traffic)
    figures = f"one pass {one_pass:.1f} us, {other} {separate:.1f} us{reader}"
    if selection.force:
        return True, f"forced: {figures}"
    return one_pass < separate, figures


def _is_one_of_several(view: SliceView) -> bool:
    """True if it writes beside another strided insertion, as the phases of a gradient do."""
    beside = slice_view(view.dest.owner) if isinstance(view.dest, OpResult) else None
    return beside is not None and beside.kind == "insert_slice" and beside.strided


def _alternative(traffic: Traffic) -> str:
    runs = f"of {traffic.run_bytes}-byte runs"
    if traffic.stored_by_producer:
        return "a store by the op that computes the source"
    return f"fill and strided copy {runs}" if traffic.filled else f"strided copy {runs}"


@dataclass(frozen=True)
class ConvertScatter(RewritePattern):
    """Replaces one `insert_slice` or `pad`."""

    selection: Selection

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite `op`, or say why not."""
        if not isinstance(op, tensor.InsertSliceOp | tensor.PadOp):
            return
        if op.result.first_use is None:
            return  # a pad has taken it in, or nobody ever read it
        pad = pad_around(op)
        if pad is not None and isinstance(convertible(pad, self.selection), SliceView):
            return
        view = scatter_view(op)
        is_scatter = view is not None and (view.kind == "insert_slice" or view.strided)
        if not is_scatter and isinstance(op, tensor.PadOp) and not self.selection.pads:
            return
        view = convertible(view, self.selection)
        if isinstance(view, Refusal):
            remarks.refused(ConvertStridedInsertSliceToGenericPass.name, op, view.reason)
            return
        convert, reason = judged(view, self.selection)
        if not convert:
            remarks.refused(ConvertStridedInsertSliceToGenericPass.name, op, reason)
            return
        remarks.fired(ConvertStridedInsertSliceToGenericPass.name, op, reason)
        generic = scatter_as_generic(view)
        for new_op in generic:
            new_op.location = op.location
        rewriter.replace(op, generic)


@dataclass(frozen=True)
class ConvertStridedInsertSliceToGenericPass(ModulePass):
    """Computes scatters by index arithmetic where that is cheaper than a fill and a copy."""

    name = "convert-strided-insert-slice-to-generic"

    force: bool = False
    only_contraction_inputs: bool = False
    pads: bool = False
    assume_nonempty: bool = False
    costs: str = ""
    """Those of the machine, as `MachineCosts` prints."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every scatter of the module that pays.

        Raises:
            PassFailedException: `costs` are none.
        """
        selection = Selection(
            force=self.force,
            only_contraction_inputs=self.only_contraction_inputs,
            pads=self.pads,
            assume_nonempty=self.assume_nonempty,
            costs=costs_of(self.costs),
        )
        pattern = ConvertScatter(selection)
        kinds = (tensor.InsertSliceOp, tensor.PadOp)
        walker = WalkerOfKinds(pattern, apply_recursively=False, kinds=kinds)
        if not walker.rewrite_module(op):
            leaves_unchanged(op)
