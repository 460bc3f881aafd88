"""`outline-kernels`: every kernel region becomes an isolated function that the program calls.

    rewrite: %y = kernel.region configs C { … kernel.yield %t }
             --> kernel.func @main_0(captures) -> … attributes {configs = C} { … kernel.return %t }
                 %y = kernel.call @main_0(captures)

Captures become arguments, but what costs nothing to repeat (splats, fills, empties, scalars) is
cloned into the kernel; a scalar argument of the function becomes a tensor of one element. Kernels
with the same body become one.

Preconditions: none beyond what a region verifies: what it captures are tensors and scalars.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.structural_keys import StructuralKeys
from convir.analysis.values.zeros import constant_fill_of
from convir.dialects.kernel import ops as kernel
from convir.lowering.regions.op_groups import ALIASES, FREE, is_scalar

if TYPE_CHECKING:
    from collections.abc import Hashable

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


def outline(module: ModuleOp) -> None:
    """Outline every kernel region of `module`, in order."""
    symbols = {op.sym_name.data for op in module.ops if isinstance(op, func.FuncOp | kernel.FuncOp)}
    kernels = _Kernels()
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


@dataclass
class _Kernels:
    """Kernels by what they say."""

    _keys: StructuralKeys = field(default_factory=StructuralKeys)
    _known: dict[Hashable, kernel.FuncOp] = field(default_factory=dict["Hashable", kernel.FuncOp])

    def like(self, function: kernel.FuncOp) -> kernel.FuncOp:
        """The first kernel that said the same as `function`: itself, if none did."""
        key = (
            function.function_type,
            function.configs,
            frozenset(function.attributes.items()),
            self._keys.of_regions(function),
        )
        return self._known.setdefault(key, function)


def _outline_region(
    region: kernel.RegionOp, name: str, function: func.FuncOp, known: _Kernels
) -> None:
    """Call a kernel in the place of `region`: one of `known`, or a new one before `function`."""
    kernel_func, captures = outlined(region, name)
    same = known.like(kernel_func)
    if same is kernel_func:
        Rewriter.insert_op(kernel_func, InsertPoint.before(function))
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

    for op in region.walk():
        for operand in op.operands:
            owner = operand.owner
            if not (isinstance(owner, Block) and region.is_ancestor(owner)):
                _capture(operand, region, captures, clones)
    return list(captures), list(clones)


def _capture(
    value: SSAValue,
    region: kernel.RegionOp,
    captures: dict[SSAValue, None],
    clones: dict[Operation, None],
) -> None:
    """Add `value` to the captures, or what computes it to the clones, behind what they read."""
    pending = [(value, False)]
    while pending:
        wanted, are_operands_there = pending.pop()
        owner = wanted.owner
        if not isinstance(owner, Operation):
            captures[wanted] = None
        elif owner in clones or region.is_ancestor(owner):
            continue
        elif not _is_free(owner):
            captures[wanted] = None
        elif are_operands_there:
            clones[owner] = None
        else:
            pending.append((wanted, True))
            pending += [(operand, False) for operand in reversed(owner.operands)]


def _is_free(op: Operation) -> bool:
    while op.name in ALIASES:
        source = op.operands[0].owner
        if not isinstance(source, Operation):
            return False
        op = source
    if op.name not in FREE:
        return is_scalar(op)
    is_dense = op.name == "arith.constant" and hasattr(op.results[0].type, "get_shape")
    return not is_dense or constant_fill_of(op.results[0]) is not None


def _erase_dead_free_ops(function: func.FuncOp) -> None:
    for op in reversed([op for block in function.body.blocks for op in block.ops]):
        is_free = op.name in FREE | ALIASES or is_scalar(op)
        if is_free and all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)


@dataclass(frozen=True)
class OutlineKernelsPass(ModulePass):
    """Outline every kernel region into a function of its own."""

    name = "outline-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on the whole module."""
        outline(op)
