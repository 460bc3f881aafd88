"""Loops over memrefs become functions of the LLVM dialect.

`func.func` of scf, memref, arith and math ops → `llvm.func` with the C ABI: a memref argument is
a bare pointer to its dense row-major elements, an index is an i64. xDSL's LLVM backend turns the
result into LLVM IR.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import llvm, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.slices import index_of
from convir.lowering.kernels.host.vector_functions.activations import activation
from convir.lowering.loops.llvm.half import icmp_predicate
from convir.lowering.loops.llvm.scalars import ScalarConverter, storage_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.dialects import func, memref

_NEVER_WRAPS = llvm.OverflowAttr((llvm.OverflowFlag.NO_SIGNED_WRAP,))


INTERNAL = "internal"
"""The linkage of a function that its own module alone calls."""

KEPT_LOOPS_ATTR = "convir.kept_loops"
"""On a converted function: the numbers of the blocks that jump back in loops that LLVM is not to
unroll."""

MIN_TRIPS = 8
"""Of a loop for vectors: f32 in a vector of AVX."""

Library: TypeAlias = dict[str, llvm.LLVMFunctionType]


def convert_loops(
    loops: func.FuncOp,
    library: Library,
    *,
    noalias: bool,
    same: Mapping[int, int],
    f16_in_hardware: bool,
) -> llvm.FuncOp:
    """The LLVM function of a loop function.

    Args:
        loops: a function of scf, memref, arith and math ops that returns nothing.
        library: takes the functions of the C library that it calls, with their types.
        noalias: whether no two memref arguments overlap but those of `same`; without it nothing
            vectorizes.
        same: the arguments that are the memory of another argument, and which; none of these is
            itself that of another.
        f16_in_hardware: whether the target converts between f16 and f32 itself.

    Raises:
        PassFailedException: an op has no LLVM code.
    """
    argument_types = [_argument_type(t) for t in loops.function_type.inputs]
    region = Region(Block(arg_types=argument_types))
    converter = _Converter(region, library, f16_in_hardware)
    for number, old in enumerate(loops.body.block.args):
        converter.values[old] = region.block.args[same.get(number, number)]
    converter.block_of(loops.body.block)
    converter.emit_op(llvm.ReturnOp())
    flags = {"llvm.noalias": UnitAttr()} if noalias else {}
    converted = llvm.FuncOp(
        f"{loops.sym_name.data}.loops",  # a dot keeps it apart from the C library's names
        llvm.LLVMFunctionType(argument_types, llvm.LLVMVoidType()),
        linkage=llvm.LinkageAttr(INTERNAL),
        body=region,
        other_props={
            "arg_attrs": ArrayAttr(
                DictionaryAttr(flags if isinstance(t, llvm.LLVMPointerType) else {})
                for t in argument_types
            )
        },
    )
    kept = [i for i, block in enumerate(region.blocks) if block in converter.ends_of_kept_loops]
    converted.attributes[KEPT_LOOPS_ATTR] = DenseArrayBase.from_list(i64, kept)
    return converted


def _is_for_vectors(op: scf.ForOp) -> bool:
    """Whether a loop carries nothing, holds no other, and goes round often enough for a vector.

    LLVM unrolls short loops before it makes vectors of others, and seldom makes any of the rest.
    """
    begin, end, step = index_of(op.lb), index_of(op.ub), index_of(op.step)
    if not (isinstance(begin, int) and isinstance(end, int) and step == 1):
        return False
    is_innermost = not any(isinstance(inner, scf.ForOp) for inner in op.body.walk())
    return is_innermost and not op.iter_args and end - begin >= MIN_TRIPS


def _argument_type(argument_type: Attribute) -> Attribute:
    if isinstance(argument_type, MemRefType):
        return llvm.LLVMPointerType()
    return storage_type(argument_type)


@dataclass
class _Converter:
    region: Region
    library: Library
    f16_in_hardware: bool
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    ends_of_kept_loops: list[Block] = field(default_factory=list[Block])
    """The blocks that jump back in loops that LLVM is not to unroll."""
    block: Block = field(init=False)
    scalars: ScalarConverter = field(init=False)

    def __post_init__(self) -> None:
        self.block = self.region.block
        self.scalars = ScalarConverter(self.emit, self.f16_in_hardware, self.library)

    def emit(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def emit_op(self, op: Operation) -> None:
        self.block.add_op(op)

    def new_block(self, *argument_types: Attribute) -> Block:
        block = Block(arg_types=argument_types)
        self.region.add_block(block)
        return block

    def block_of(self, body: Block) -> list[SSAValue]:
        """Convert the ops of `body` into the current block; returns its terminator's operands."""
        for op in body.ops:
            if op.next_op is None:
                return [self.values[operand] for operand in op.operands]
            self.op(op)
        return []

    def op(self, op: Operation) -> None:
        match op.name:
            case "scf.for":
                self.loop(cast("scf.ForOp", op))
            case "scf.if":
                self.branch(cast("scf.IfOp", op))
            case "memref.collapse_shape":
                self.values[op.results[0]] = self.values[op.operands[0]]
            case "memref.load":
                load = cast("memref.LoadOp", op)
                pointer, stored = self.address(load.memref, list(load.indices))
                value = self.emit(llvm.LoadOp(pointer, stored))
                if load.res.type == i1:
                    zero = self.emit(llvm.ConstantOp(IntegerAttr(0, i8), i8))
                    value = self.emit(llvm.ICmpOp(value, zero, icmp_predicate("ne")))
                self.values[load.res] = value
            case "memref.store":
                store = cast("memref.StoreOp", op)
                pointer, _ = self.address(store.memref, list(store.indices))
                value = self.values[store.value]
                if value.type == i1:
                    value = self.emit(llvm.ZExtOp(value, i8))
                self.emit_op(llvm.StoreOp(value, pointer))
            case _ if (found := activation(op)) is not None:
                function, x = found
                self.values[op.results[0]] = self.scalars.vector_function(
                    function, [self.values[x]]
                )
            case _ if len(op.results) == 1 and not op.regions:
                operands = [self.values[operand] for operand in op.operands]
                self.values[op.results[0]] = self.scalars.convert(op, operands)
            case _:
                raise PassFailedException(f"{op.name} has no LLVM code")

    def loop(self, op: scf.ForOp) -> None:
        """`while (i < end)`, with the carried values as block arguments."""
        begin, end, step = (self.values[v] for v in (op.lb, op.ub, op.step))
        inits = [self.values[v] for v in op.iter_args]
        types = [init.type for init in inits]
        header = self.new_block(i64, *types)
        self.emit_op(llvm.BrOp(header, begin, *inits))
        body, after = self.new_block(), self.new_block()

        self.block = header
        index, *carried = header.args
        in_range = self.emit(llvm.ICmpOp(index, end, icmp_predicate("slt")))
        self.emit_op(llvm.CondBrOp(in_range, body, [], after, []))

        self.block = body
        self.values.update(zip(op.body.block.args, header.args, strict=True))
        next_values = self.block_of(op.body.block)
        if _is_for_vectors(op):
            self.ends_of_kept_loops.append(self.block)
        self.emit_op(llvm.BrOp(header, self.arithmetic(llvm.AddOp, index, step), *next_values))

        self.block = after
        self.values.update(zip(op.res, carried, strict=True))

    def branch(self, op: scf.IfOp) -> None:
        merge_types = [storage_type(t) for t in op.output.types]
        merge = self.new_block(*merge_types)
        condition = self.values[op.cond]
        targets = [self.new_block() if region.blocks else merge for region in op.regions]
        self.emit_op(llvm.CondBrOp(condition, targets[0], [], targets[1], []))
        for region, target in zip(op.regions, targets, strict=True):
            if target is merge:
                continue
            self.block = target
            results = self.block_of(region.block)
            self.emit_op(llvm.BrOp(merge, *results))
        self.block = merge
        self.values.update(zip(op.output, merge.args, strict=True))

    def address(self, buffer: SSAValue, indices: list[SSAValue]) -> tuple[SSAValue, Attribute]:
        """The pointer to an element of a dense memref, and the type stored there.

        A condition is a byte, 0 or 1, in memory: LLVM has no vectors of conditions there.
        """
        memref_type = cast("MemRefType[Attribute]", buffer.type)
        stored = storage_type(memref_type.element_type)
        stored = i8 if stored == i1 else stored
        position: SSAValue | None = None
        for index, size in zip(indices, memref_type.get_shape(), strict=True):
            if position is not None:
                extent = self.emit(llvm.ConstantOp(IntegerAttr(size, i64), i64))
                position = self.arithmetic(llvm.MulOp, position, extent)
                position = self.arithmetic(llvm.AddOp, position, self.values[index])
            else:
                position = self.values[index]
        pointer = self.values[buffer]
        if position is None:
            return pointer, stored
        element = llvm.GEPOp(pointer, [llvm.GEP_USE_SSA_VAL], stored, [position], inbounds=True)
        return self.emit(element), stored

    def arithmetic(
        self, op_class: type[llvm.AddOp | llvm.MulOp], lhs: SSAValue, rhs: SSAValue
    ) -> SSAValue:
        """Index arithmetic, which never wraps: buffers are smaller than the address space."""
        return self.emit(op_class(lhs, rhs, overflow=_NEVER_WRAPS))
