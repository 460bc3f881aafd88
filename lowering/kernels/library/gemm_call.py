"""Kernels that are one GEMM on their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import BlockArgument, Operation
from xdsl.ir.affine import AffineMap

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.analysis.values.zeros import is_zero
from convir.lowering.bodies.operand_access import access_of
from convir.lowering.kernels.library.gemm_layout import GemmLayout, gemm_layout

if TYPE_CHECKING:
    from convir.dialects.kernel import ops as kernel


@dataclass(frozen=True)
class GemmCall:
    """A kernel that is one GEMM: which argument is which operand."""

    layout: GemmLayout
    lhs: int
    rhs: int
    init: int | None
    """The argument that the products are added to; None if they are added to zero."""


def match_gemm(callee: kernel.FuncOp) -> GemmCall | Refusal:
    """Read a kernel as one GEMM on its arguments, or say why it is none."""
    returned = callee.body.block.last_op
    assert returned is not None
    if len(returned.operands) != 1 or not isinstance(returned.operands[0].owner, Operation):
        return Refusal("it does not return one computed value")
    dims = contraction_dims(_before_rounding(returned.operands[0].owner))
    if isinstance(dims, Refusal):
        return dims
    lhs, rhs = (access_of(operand.value, operand.index) for operand in dims.inputs)
    if isinstance(lhs, Refusal) or isinstance(rhs, Refusal):
        return lhs if isinstance(lhs, Refusal) else cast("Refusal", rhs)
    layout = gemm_layout(dims, (lhs, rhs))
    if isinstance(layout, Refusal):
        return layout
    if is_zero(dims.out.value):
        return GemmCall(layout, lhs.root.index, rhs.root.index, None)
    init = dims.out.value
    if not isinstance(init, BlockArgument):
        return Refusal("its init is neither zero nor an argument")
    return GemmCall(layout, lhs.root.index, rhs.root.index, init.index)


def _before_rounding(op: Operation) -> Operation:
    """The product of 16-bit matrices that `op` rounds to their type, as GEMMs do; else `op`."""
    view = structured(op)
    if view is None or len(view.inputs) != 1 or len(view.body.ops) != len(("truncf", "yield")):
        return op
    cast_op, source = view.body.first_op, view.inputs[0].owner
    identity = AffineMap.identity(len(view.iterators))
    if not isinstance(cast_op, arith.TruncFOp) or any(m != identity for m in view.maps):
        return op
    dims = contraction_dims(source if isinstance(source, Operation) else None)
    if isinstance(dims, Refusal) or not is_zero(dims.out.value):
        return op
    stored = cast_op.result.type
    is_half = isinstance(stored, Float16Type | BFloat16Type)
    same = all(getattr(x.value.type, "element_type", None) == stored for x in dims.inputs)
    return dims.op if is_half and same else op
