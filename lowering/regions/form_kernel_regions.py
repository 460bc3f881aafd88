"""`form-kernel-regions`: tensor ops are grouped into what will be one launch each.

    rewrite: %0 = generic; %1 = extract_slice %0; %2 = generic %1
             --> %2 = kernel.region { … kernel.yield %2 }

What `fuse-epilogue` left takes the cheap producers that only it reads; a reduction, which reads
an element many times, stays alone. Reshapes at a border stay outside: on dense buffers they are
another name of the same memory. What a kernel would compute too often is written to memory, with
a remark. What nobody reads is erased, before anything is grouped.

Preconditions: the function has one block; a group does not wait for what waits for it; a kernel
computes no element more often than `recomputation.py` allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, TensorType, UnitAttr
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from convir.dialects.kernel import ops as kernel
from convir.lowering.regions.op_groups import Groups, is_compute, is_reduction, is_scalar, wrap
from convir.lowering.regions.placements import placing_ops
from convir.passes.dce import eliminate_dead_code
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


MAX_SCALARS: Final = 32
"""Ops on scalars that every kernel which needs their result repeats."""

_ELEMENTS: Final = (AnyFloat, IntegerType, IndexType)


def form_regions(block: Block) -> None:
    """Wrap the tensor ops of `block` in kernel regions."""
    _return_tensors(block)
    _store_scalars(block)
    placing = placing_ops(block)
    compute = [op for op in block.ops if is_compute(op) and op not in placing]
    groups = Groups({op: i for i, op in enumerate(compute)})
    for op in groups.from_results():
        if is_reduction(op):
            continue
        refusal = groups.join_reader(op, lambda reader: not groups.has_reduction(reader))
        if refusal is not None:
            remarks.refused(FormKernelRegionsPass.name, op, refusal.reason)
    order = {op: i for i, op in enumerate(block.ops)}
    for members in groups.members():
        wrap(members, order)


def _return_tensors(block: Block) -> None:
    """Let a kernel compute every scalar that is returned, as a tensor of one element."""
    returned = block.last_op
    assert returned is not None
    for i, value in enumerate(returned.operands):
        if isinstance(value.type, TensorType) or not isinstance(value.owner, Operation):
            continue
        if _is_read_from_region(value.owner):
            continue
        computed = tensor.FromElementsOp(value, result_type=TensorType(value.type, []))
        read = tensor.ExtractOp(computed.result, [], value.type)
        computed.location = read.location = value.owner.location
        block.insert_ops_before([computed, read], returned)
        returned.operands[i] = read.result


def _store_scalars(block: Block) -> None:
    """Let a kernel compute every scalar that much else is computed for, as a tensor of one element:
    what needs few ops is repeated by each kernel that reads it."""
    ops: dict[Operation, int] = {}
    for op in list(block.ops):
        if not is_scalar(op) or isinstance(op, arith.ConstantOp):
            continue
        makers = {x.owner for x in op.operands if isinstance(x.owner, Operation)}
        ops[op] = 1 + sum(ops.get(maker, 0) for maker in makers)
        value = op.results[0]
        if ops[op] <= MAX_SCALARS or len(op.results) > 1 or not isinstance(value.type, _ELEMENTS):
            continue
        computed = tensor.FromElementsOp(value, result_type=TensorType(value.type, []))
        read = tensor.ExtractOp(computed.result, [], value.type)
        computed.location = read.location = op.location
        block.insert_ops_after([computed, read], op)
        value.replace_uses_with_if(read.result, lambda use, by=computed: use.operation is not by)
        remarks.fired(
            FormKernelRegionsPass.name, op, f"{ops[op]} ops compute it: it is written to memory"
        )
        ops[op], ops[read] = 0, 1


def _is_read_from_region(op: Operation) -> bool:
    """True if a kernel computes what `op` reads."""
    return isinstance(op, tensor.ExtractOp) and isinstance(op.tensor.owner, kernel.RegionOp)


def _allow_tf32(function: func.FuncOp) -> None:
    """Let every region of a function do what the function may."""
    for region in function.walk():
        if isinstance(region, kernel.RegionOp):
            region.attributes[kernel.ALLOW_TF32] = UnitAttr()


@dataclass(frozen=True)
class FormKernelRegionsPass(ModulePass):
    """Group the tensor ops of every function into kernel regions."""

    name = "form-kernel-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block, without what nobody reads there."""
        for function in list(op.walk()):
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                eliminate_dead_code(function)
                form_regions(function.body.block)
                if kernel.ALLOW_TF32 in function.attributes:
                    _allow_tf32(function)
