"""`outline-kernels`: every kernel region becomes an isolated function that the program calls.

    rewrite: %y = kernel.region configs C { … kernel.yield %t }
             --> kernel.func @main_0(captures) -> … attributes {configs = C} { … kernel.return %t }
                 %y = kernel.call @main_0(captures)

Captures become arguments, but what costs nothing to repeat (splats, fills, empties, scalars) is
cloned into the kernel. Kernels with the same body become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.dialects import kernel
from convir.dialects.zeros import constant_fill_of
from convir.lowering.form_kernel_regions import ALIASES, FREE

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


def outline(module: ModuleOp) -> None:
    """Outline every kernel region of `module`, in order."""
    kernels: list[kernel.FuncOp] = []
    for function in [op for op in module.ops if isinstance(op, func.FuncOp)]:
        regions = [op for op in function.walk() if isinstance(op, kernel.RegionOp)]
        for region in regions:
            kernels.append(_outline_region(region, kernels, function))
        _erase_dead_free_ops(function)


def outlined(region: kernel.RegionOp, name: str) -> tuple[kernel.FuncOp, list[SSAValue]]:
    """A detached function with the body of `region`, and the values to call it with."""
    captures, clones = _captures(region)
    body = Block(arg_types=[value.type for value in captures])
    mapping: dict[SSAValue, SSAValue] = dict(zip(captures, body.args, strict=True))
    for value, argument in zip(captures, body.args, strict=True):
        argument.name_hint = value.name_hint
    for op in clones:
        body.add_op(op.clone(mapping))
    source = region.body.block
    for op in list(source.ops):
        if op is not source.last_op:
            body.add_op(op.clone(mapping))
    yielded = source.last_op
    assert yielded is not None
    body.add_op(kernel.ReturnOp(*(mapping[value] for value in yielded.operands)))
    function_type = FunctionType.from_lists(
        [value.type for value in captures], list(region.res.types)
    )
    function = kernel.FuncOp(name, function_type, Region(body), region.configs)
    function.location = region.location
    return function, captures


def _outline_region(
    region: kernel.RegionOp, known: list[kernel.FuncOp], function: func.FuncOp
) -> kernel.FuncOp:
    kernel_func, captures = outlined(region, f"{function.sym_name.data}_{len(known)}")
    same = next((old for old in known if _same_kernel(old, kernel_func)), None)
    if same is None:
        Rewriter.insert_op(kernel_func, InsertPoint.before(function))
        same = kernel_func
    call = kernel.CallOp(same.sym_name.data, captures, list(region.res.types))
    call.location = region.location
    for old, new in zip(region.res, call.res, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(region, call)
    return same


def _captures(region: kernel.RegionOp) -> tuple[list[SSAValue], list[Operation]]:
    """The values a region takes from outside, and the ops to repeat inside, in order."""
    captures: dict[SSAValue, None] = {}
    clones: dict[Operation, None] = {}

    def visit(value: SSAValue) -> None:
        owner = value.owner
        if not isinstance(owner, Operation):
            captures[value] = None
        elif not region.is_ancestor(owner):
            if owner in clones:
                return
            if not _is_free(owner):
                captures[value] = None
                return
            for operand in owner.operands:
                visit(operand)
            clones[owner] = None

    for op in region.walk():
        for operand in op.operands:
            owner = operand.owner
            inside = isinstance(owner, Block) and region.is_ancestor(owner)
            if not inside:
                visit(operand)
    return list(captures), list(clones)


def _is_free(op: Operation) -> bool:
    if op.name in ALIASES:
        source = op.operands[0].owner
        return isinstance(source, Operation) and _is_free(source)
    if op.name not in FREE:
        return False
    is_dense = op.name == "arith.constant" and hasattr(op.results[0].type, "get_shape")
    return not is_dense or constant_fill_of(op.results[0]) is not None


def _same_kernel(a: kernel.FuncOp, b: kernel.FuncOp) -> bool:
    return (
        a.function_type == b.function_type
        and a.configs == b.configs
        and a.body.is_structurally_equivalent(b.body)
    )


def _erase_dead_free_ops(function: func.FuncOp) -> None:
    for op in reversed(list(function.body.block.ops)):
        if op.name in FREE | ALIASES and all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)


@dataclass(frozen=True)
class OutlineKernelsPass(ModulePass):
    """Outline every kernel region into a function of its own."""

    name = "outline-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on the whole module."""
        outline(op)
