"""`select-kernels`: every kernel gets the implementation that stands for it on a device.

    rewrite: kernel.region { contraction + epilogue }
             --> kernel.region configs {host = "contraction"} { contraction }
                 kernel.region configs {host = "loops"} { epilogue }

An implementation that computes the whole region is taken as it is; one that computes the
contraction alone splits it from its epilogue. What none computes becomes loops. The reason is a
remark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import DictionaryAttr, Float32Type, Float64Type, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.dialects import kernel
from convir.dialects.contraction import contraction_dims
from convir.dialects.refusal import Refusal
from convir.lowering.contraction.read_kernel import read_contraction
from convir.lowering.convert_to_rt import match_gemm
from convir.lowering.implementations import CONTRACTION, CUDA, GEMM, HOST, LOOPS
from convir.lowering.outline_kernels import outlined
from convir.passes import remarks

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

NAME = "select-kernels"

GEMM_MIN_FLOPS = 1 << 15
"""Below this a library call costs more than the loops do: its set-up is some 10 µs."""

Refuses: TypeAlias = Callable[[kernel.FuncOp], Refusal | None]


def _refuse_contraction(function: kernel.FuncOp) -> Refusal | None:
    call = read_contraction(function)
    return call if isinstance(call, Refusal) else None


def _refuse_host_gemm(function: kernel.FuncOp) -> Refusal | None:
    element_types = {getattr(t, "element_type", None) for t in function.function_type.inputs}
    for element_type in element_types:
        if not isinstance(element_type, Float32Type | Float64Type):
            return Refusal(f"the host's BLAS has no {element_type}")
    return _refuse_gemm(function)


def _refuse_gemm(function: kernel.FuncOp) -> Refusal | None:
    call = match_gemm(function)
    if isinstance(call, Refusal):
        return call
    layout = call.layout
    flops = 2 * layout.batch * layout.m * layout.n * layout.k
    if flops < GEMM_MIN_FLOPS:
        return Refusal(f"{flops} FLOPs do not pay for a library call")
    return None


IMPLEMENTATIONS: dict[str, tuple[tuple[str, Refuses], ...]] = {
    HOST: ((CONTRACTION, _refuse_contraction), (GEMM, _refuse_host_gemm)),
    CUDA: ((GEMM, _refuse_gemm),),
}
"""Per device what may stand for a kernel, best first, each with what it refuses."""


def select(region: kernel.RegionOp, device: str) -> None:
    """Attach a config for `device` to `region`, splitting it where an implementation does part."""
    config, reasons = _choose(region, device)
    if config is not None:
        _attach(region, device, config, "it computes all of the kernel")
        return
    contractions = [
        op for op in region.body.block.ops if not isinstance(contraction_dims(op), Refusal)
    ]
    if len(contractions) == 1:
        first = _alone(region, contractions[0])
        config, reasons = _choose(first, device)
        if config is not None:
            _insert_before(region, first, contractions[0])
            _attach(first, device, config, "it computes the contraction")
            _attach(region, device, LOOPS, "the epilogue of a contraction")
            return
    why = "; ".join(reasons) if contractions else "it holds no contraction"
    _attach(region, device, LOOPS, why)


def _choose(region: kernel.RegionOp, device: str) -> tuple[str | None, list[str]]:
    """The first implementation that computes `region`, or why none does."""
    function, _ = outlined(region, "candidate")
    reasons: list[str] = []
    for config, refuses in IMPLEMENTATIONS[device]:
        refusal = refuses(function)
        if refusal is None:
            return config, []
        reasons.append(f"not {config}: {refusal.reason}")
    return None, reasons


def _alone(region: kernel.RegionOp, contraction: Operation) -> kernel.RegionOp:
    """A detached region that computes `contraction` and what it needs of `region`, cloned."""
    needed = {contraction}
    for op in reversed(list(region.body.block.ops)):
        if any(use.operation in needed for result in op.results for use in result.uses):
            needed.add(op)
    body = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    for op in region.body.block.ops:
        if op in needed:
            body.add_op(op.clone(mapping))
    result = contraction.results[0]
    body.add_op(kernel.YieldOp(mapping[result]))
    alone = kernel.RegionOp(Region(body), [result.type])
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


def _attach(region: kernel.RegionOp, device: str, config: str, reason: str) -> None:
    known = dict(region.configs.data) if region.configs is not None else {}
    region.configs = DictionaryAttr({**known, device: StringAttr(config)})
    shapes = ", ".join(str(t) for t in region.res.types if isinstance(t, TensorType))
    remarks.fired(NAME, region, f"{config} for {device} ({shapes}): {reason}")


@dataclass(frozen=True)
class SelectKernelsPass(ModulePass):
    """Choose an implementation for every kernel region that has none for `device`."""

    name = NAME

    device: str = HOST

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel region."""
        for region in [r for r in op.walk() if isinstance(r, kernel.RegionOp)]:
            if region.configs is None or self.device not in region.configs.data:
                select(region, self.device)
