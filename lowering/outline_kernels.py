"""`outline-kernels`: every kernel region becomes an isolated function that the program calls.

    rewrite: %y = kernel.region configs C { … kernel.yield %t }
             --> kernel.func @main_0(captures) -> … attributes {configs = C} { … kernel.return %t }
                 %y = kernel.call @main_0(captures)

Captures become arguments, but what costs nothing to repeat (splats, fills, empties, scalars) is
cloned into the kernel; a scalar argument of the function becomes a tensor of one element. Kernels
with the same body become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from convir.dialects import kernel
from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.zeros import constant_fill_of
from convir.lowering.op_groups import ALIASES, FREE

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


def outline(module: ModuleOp) -> None:
    """Outline every kernel region of `module`, in order."""
    symbols = {op.sym_name.data for op in module.ops if isinstance(op, func.FuncOp | kernel.FuncOp)}
    kernels: list[kernel.FuncOp] = []
    for function in [op for op in module.ops if isinstance(op, func.FuncOp)]:
        regions = [op for op in function.walk() if isinstance(op, kernel.RegionOp)]
        for number, region in enumerate(regions):
            name = _free_name(f"{function.sym_name.data}_{number}", symbols)
            _outline_region(region, name, function, kernels)
        _erase_dead_free_ops(function)


def _free_name(name: str, symbols: set[str]) -> str:
    """`name`, with as many underscores behind it as it takes to be no symbol yet; now it is one."""
    while name in symbols:
        name += "_"
    symbols.add(name)
    return name


def outlined(region: kernel.RegionOp, name: str) -> tuple[kernel.FuncOp, list[SSAValue]]:
    """A detached function with the body of `region`, and the values to call it with."""
    captures, clones = _captures(region)
    body = Block(arg_types=[_in_memory(value.type) for value in captures])
    mapping: dict[SSAValue, SSAValue] = {}
    for value, argument in zip(captures, body.args, strict=True):
        argument.name_hint = value.name_hint
        mapping[value] = argument
        if argument.type != value.type:
            read = tensor.ExtractOp(argument, [], value.type)
            body.add_op(read)
            mapping[value] = read.result
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
        [argument.type for argument in body.args], list(region.res.types)
    )
    function = kernel.FuncOp(name, function_type, Region(body), region.configs)
    function.attributes |= region.attributes
    function.location = region.location
    return function, captures


def _outline_region(
    region: kernel.RegionOp, name: str, function: func.FuncOp, known: list[kernel.FuncOp]
) -> None:
    """Call a kernel in the place of `region`: one of `known`, or a new one before `function`."""
    kernel_func, captures = outlined(region, name)
    same = next((old for old in known if _same_kernel(old, kernel_func)), None)
    if same is None:
        Rewriter.insert_op(kernel_func, InsertPoint.before(function))
        known.append(kernel_func)
        same = kernel_func
    arguments = [_as_tensor(value, region) for value in captures]
    call = kernel.CallOp(same.sym_name.data, arguments, list(region.res.types))
    call.location = region.location
    for old, new in zip(region.res, call.res, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(region, call)


def _in_memory(value_type: Attribute) -> Attribute:
    """The type of a kernel's argument: a scalar is a tensor of one element."""
    if isinstance(value_type, TensorType):
        return cast("TensorType[Attribute]", value_type)
    return TensorType(value_type, [])


def _as_tensor(value: SSAValue, region: kernel.RegionOp) -> SSAValue:
    if isinstance(value.type, TensorType):
        return value
    op = tensor.FromElementsOp(value, result_type=TensorType(value.type, []))
    Rewriter.insert_op(op, InsertPoint.before(region))
    return op.result


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
        return _is_scalar(op)
    is_dense = op.name == "arith.constant" and hasattr(op.results[0].type, "get_shape")
    return not is_dense or constant_fill_of(op.results[0]) is not None


def _is_scalar(op: Operation) -> bool:
    """Whether an op only computes scalars, from scalars and elements of tensors."""
    if op.regions or not op.results or not is_side_effect_free(op):
        return False
    return not any(isinstance(result.type, TensorType) for result in op.results)


def _same_kernel(a: kernel.FuncOp, b: kernel.FuncOp) -> bool:
    return (
        a.function_type == b.function_type
        and a.configs == b.configs
        and a.attributes == b.attributes
        and is_equivalent(a.body, b.body)
    )


def _erase_dead_free_ops(function: func.FuncOp) -> None:
    for op in reversed([op for block in function.body.blocks for op in block.ops]):
        is_free = op.name in FREE | ALIASES or _is_scalar(op)
        if is_free and all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)


@dataclass(frozen=True)
class OutlineKernelsPass(ModulePass):
    """Outline every kernel region into a function of its own."""

    name = "outline-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on the whole module."""
        outline(op)
