"""The LLVM module of a kernel's loops, with an entry per function for the thread pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp

from convir.lowering.kernels.host.vector_functions.table import with_definitions
from convir.lowering.loops.llvm.convert_loops import (
    INTERNAL,
    KEPT_LOOPS_ATTR,
    Library,
    convert_loops,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.dialects import func
    from xdsl.dialects.builtin import DenseArrayBase

    from convir.lowering.kernels.host.target import CpuTarget


def entry_of(loops: func.FuncOp) -> str:
    """The name of the entry of a loop function."""
    return f"{loops.sym_name.data}.entry"


def loops_ir(
    loops: Sequence[func.FuncOp], cpu: CpuTarget, *, noalias: bool, same: Mapping[int, int]
) -> str:
    """LLVM assembly of loop functions, which are taken apart, with an entry for each.

    An entry has the signature `void (ptr args, i64 begin, i64 end, i64 worker)`; `args` is an
    array of the pointers to the buffers of the loop function. A function that is internal is
    compiled once, and called: not a second time, inlined. `noalias` and `same` are those of
    `convert_loops`.

    Raises:
        PassFailedException: an op has no LLVM code.
    """
    library: Library = {}
    functions = {
        entry_of(function): convert_loops(
            function,
            library,
            noalias=noalias,
            same=same,
            f16_in_hardware=cpu.f16_in_hardware,
        )
        for function in loops
    }
    external = llvm.LinkageAttr("external")
    declared = [llvm.FuncOp(name, kind, linkage=external) for name, kind in library.items()]
    module = ModuleOp([*declared, *functions.values()])
    converted: Any = convert_module(module, fallback_target_triple=cpu.triple)
    kept = 0
    for op in functions.values():
        function = converted.get_global(op.sym_name.data)
        if op.linkage.linkage.data == INTERNAL:
            function.linkage = INTERNAL
            function.attributes.add("noinline")
        blocks = cast("DenseArrayBase[Any]", op.attributes[KEPT_LOOPS_ATTR]).get_values()
        for number, block in enumerate(blocks, kept):
            function.blocks[block].terminator.set_metadata("llvm.loop", _Node(number))
        kept += len(blocks)
    entries = [_entry(function, name) for name, function in functions.items()]
    return with_definitions("\n".join((str(converted), *entries, *_nodes(kept))), cpu)


@dataclass(frozen=True)
class _Node:
    """A node of metadata as llvmlite refers to it, which writes none that holds itself."""

    number: int

    def get_reference(self) -> str:
        """Its name."""
        return f"!{self.number}"


def _nodes(loops: int) -> list[str]:
    """The nodes 0 to `loops`, each of a loop that LLVM is not to unroll before it is a vector's."""
    if not loops:
        return []
    rule = f'!{loops} = !{{!"llvm.loop.unroll.disable"}}'
    return [*(f"!{n} = distinct !{{!{n}, !{loops}}}" for n in range(loops)), rule]


def _entry(function: llvm.FuncOp, name: str) -> str:
    pointers = range(len(function.function_type.inputs.data) - 2)
    loads = "".join(
        f"  %at.{i} = getelementptr inbounds ptr, ptr %args, i32 {i}\n"
        f"  %pointer.{i} = load ptr, ptr %at.{i}\n"
        for i in pointers
    )
    operands = "".join(f"ptr %pointer.{i}, " for i in pointers)
    return f"""\
define void @"{name}"(ptr %args, i64 %begin, i64 %end, i64 %worker) {{
entry:
{loads}  call void @"{function.sym_name.data}"({operands}i64 %begin, i64 %end)
  ret void
}}
"""
