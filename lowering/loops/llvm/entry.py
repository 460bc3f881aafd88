"""The LLVM module of a kernel's loops, with an entry per function for the thread pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Block, Region, SSAValue

from convir.lowering.kernels.host.vector_functions.table import with_definitions
from convir.lowering.loops.llvm.convert_loops import INTERNAL, Library, convert_loops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects import func

    from convir.lowering.kernels.host.target import CpuTarget


def entry_of(loops: func.FuncOp) -> str:
    """The name of the entry of a loop function."""
    return f"{loops.sym_name.data}.entry"


def llvm_module(loops: Sequence[func.FuncOp], *, noalias: bool, f16_in_hardware: bool) -> ModuleOp:
    """An LLVM dialect module with each loop function and its entry.

    An entry has the signature `void (ptr args, i64 begin, i64 end, i64 worker)`; `args` is an
    array of the pointers to the buffers of the loop function.

    Raises:
        PassFailedException: an op has no LLVM code.
    """
    functions: list[llvm.FuncOp] = []
    library: Library = {}
    for function in loops:
        converted = convert_loops(
            function, library, noalias=noalias, f16_in_hardware=f16_in_hardware
        )
        functions += [converted, _entry(converted, entry_of(function))]
    external = llvm.LinkageAttr("external")
    declared = [llvm.FuncOp(name, kind, linkage=external) for name, kind in library.items()]
    return ModuleOp([*declared, *functions])


def llvm_ir(module: ModuleOp, cpu: CpuTarget) -> str:
    """The LLVM assembly of an LLVM dialect module.

    A function that is internal there is compiled once, and called: not a second time, inlined.
    """
    converted: Any = convert_module(module, fallback_target_triple=cpu.triple)
    for op in module.ops:
        if isinstance(op, llvm.FuncOp) and op.linkage.linkage.data == INTERNAL:
            function = converted.get_global(op.sym_name.data)
            function.linkage = INTERNAL
            function.attributes.add("noinline")
    return with_definitions(str(converted), cpu)


def _entry(function: llvm.FuncOp, name: str) -> llvm.FuncOp:
    pointer = llvm.LLVMPointerType()
    block = Block(arg_types=[pointer, i64, i64, i64])
    args, begin, end, _worker = block.args
    operands: list[SSAValue] = []
    count = len(function.function_type.inputs.data) - 2
    for i in range(count):
        slot = llvm.GEPOp(args, [i], pointer, inbounds=True)
        load = llvm.LoadOp(slot, pointer)
        block.add_ops([slot, load])
        operands.append(load.dereferenced_value)
    block.add_op(llvm.CallOp(function.sym_name.data, *operands, begin, end))
    block.add_op(llvm.ReturnOp())
    return llvm.FuncOp(
        name,
        llvm.LLVMFunctionType(list(block.arg_types), llvm.LLVMVoidType()),
        linkage=llvm.LinkageAttr("external"),
        body=Region(block),
    )
