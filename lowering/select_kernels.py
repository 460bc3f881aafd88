"""`select-kernels`: every kernel gets the implementation that stands for it on a device.

    rewrite: kernel.region { contraction + epilogue }
             --> kernel.region configs {host = "gemm"} { contraction }
                 kernel.region configs {host = "loops"} { epilogue }

A contraction that one library GEMM computes, and that is large enough to pay for the call, is
split from its epilogue and becomes that call. Everything else is loops. The reason is a remark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, Float32Type, Float64Type, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.dialects import kernel
from convir.dialects.contraction import ContractionDims, contraction_dims
from convir.dialects.refusal import Refusal
from convir.dialects.zeros import is_zero
from convir.lowering.convert_to_rt import GEMM
from convir.lowering.gemm import gemm_layout
from convir.passes import remarks

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

NAME = "select-kernels"
LOOPS = "loops"

GEMM_MIN_FLOPS = 1 << 15
"""Below this a library call costs more than the loops do: its set-up is some 10 µs."""


def select(region: kernel.RegionOp, device: str) -> None:
    """Attach a config for `device` to `region`, splitting it where a library call does part."""
    contraction = _contraction(region)
    if contraction is None:
        _attach(region, device, LOOPS, "it holds no contraction")
        return
    refusal = _refuse_gemm(region, contraction, device)
    if refusal is not None:
        _attach(region, device, LOOPS, f"not one GEMM: {refusal.reason}")
        return
    gemm = _split(region, contraction.op)
    _attach(gemm, device, GEMM, "the contraction is one strided batched GEMM")
    if gemm is not region:
        _attach(region, device, LOOPS, "the epilogue of a GEMM")


def _contraction(region: kernel.RegionOp) -> ContractionDims | None:
    """The one contraction of a region; None if it has none or several."""
    found = [
        dims
        for op in region.body.block.ops
        if isinstance(dims := contraction_dims(op), ContractionDims)
    ]
    return found[0] if len(found) == 1 else None


def _refuse_gemm(region: kernel.RegionOp, dims: ContractionDims, device: str) -> Refusal | None:
    layout = gemm_layout(dims)
    if isinstance(layout, Refusal):
        return layout
    inside = [operand.value.owner for operand in dims.inputs]
    if any(isinstance(owner, Operation) and region.is_ancestor(owner) for owner in inside):
        return Refusal("an input is computed in the kernel")
    out = dims.out.value
    if not is_zero(out) and isinstance(out.owner, Operation) and region.is_ancestor(out.owner):
        return Refusal("its init is computed in the kernel")
    input_type = dims.lhs.value.type
    element_type = getattr(input_type, "element_type", None)
    if device == "host" and not isinstance(element_type, Float32Type | Float64Type):
        return Refusal(f"the host's BLAS has no {element_type}")
    if dims.flops is None or dims.flops < GEMM_MIN_FLOPS:
        return Refusal(f"{dims.flops} FLOPs do not pay for a library call")
    return None


def _split(region: kernel.RegionOp, contraction: Operation) -> kernel.RegionOp:
    """Move `contraction` into a region of its own before `region`, unless it is all of it."""
    yielded = region.body.block.last_op
    assert yielded is not None
    result = contraction.results[0]
    if list(yielded.operands) == [result]:
        return region
    moved = _needed(region, contraction)
    body = Block()
    first = kernel.RegionOp(Region(body), [result.type])
    first.location = contraction.location
    mapping: dict[SSAValue, SSAValue] = {}
    for op in moved:
        body.add_op(op.clone(mapping))
    body.add_op(kernel.YieldOp(mapping[result]))
    Rewriter.insert_op(first, InsertPoint.before(region))
    first.res[0].name_hint = result.name_hint
    result.replace_all_uses_with(first.res[0])
    Rewriter.erase_op(contraction)
    return first


def _needed(region: kernel.RegionOp, contraction: Operation) -> list[Operation]:
    """The ops of a region that `contraction` depends on, itself last, in order."""
    needed = {contraction}
    for op in reversed(list(region.body.block.ops)):
        if any(use.operation in needed for result in op.results for use in result.uses):
            needed.add(op)
    return [op for op in region.body.block.ops if op in needed]


def _attach(region: kernel.RegionOp, device: str, config: str, reason: str) -> None:
    known = dict(region.configs.data) if region.configs is not None else {}
    region.configs = DictionaryAttr({**known, device: StringAttr(config)})
    shapes = ", ".join(str(t) for t in region.res.types if isinstance(t, TensorType))
    remarks.fired(NAME, region, f"{config} for {device} ({shapes}): {reason}")


@dataclass(frozen=True)
class SelectKernelsPass(ModulePass):
    """Choose an implementation for every kernel region that has none for `device`."""

    name = NAME

    device: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel region."""
        for region in [r for r in op.walk() if isinstance(r, kernel.RegionOp)]:
            if region.configs is None or self.device not in region.configs.data:
                select(region, self.device)
