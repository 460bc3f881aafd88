"""A contraction compiled for a CPU, ready to be called."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction import pack, row_kernel
from convir.lowering.llvm.contraction.blocking import Blocking, block
from convir.lowering.llvm.contraction.builder import Module
from convir.lowering.llvm.contraction.pack import PackKernel
from convir.lowering.llvm.contraction.row_kernel import RowKernel
from convir.lowering.llvm.contraction.scalars import Lanes
from convir.runtime.host.jit import CompileOptions, Library, compile_ir
from convir.runtime.host.pool import shared_pool
from convir.runtime.host.target import Target, target

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.spec import HostContraction

AS_EMITTED = CompileOptions(opt_level=3, optimize_ir=False)
"""Registers and vectors are chosen already: LLVM only generates code."""


@dataclass(frozen=True)
class HostKernel:
    """The machine code of a contraction."""

    spec: HostContraction
    blocking: Blocking
    packed_bytes: int
    """Size of the packed weights, which the caller owns; best aligned to 64 bytes."""
    _library: Library
    _items: int
    _pack_items: int

    def pack(self, b: int, packed: int, threads: int | None = None) -> None:
        """Pack the weights at address `b` into `packed_bytes` bytes at `packed`."""
        self._launch(pack.ENTRY, (b, packed), self._pack_items, threads)

    def run(self, a: int, packed: int, c: int, threads: int | None = None) -> None:
        """Compute C at address `c` from A at `a` and weights that were packed.

        Args:
            a: address of A.
            packed: address of what `pack` wrote.
            c: address of C, which overlaps neither.
            threads: use at most so many; all cores if None.
        """
        self._launch(row_kernel.ENTRY, (a, packed, c), self._items, threads)

    def _launch(
        self, entry: str, pointers: tuple[int, ...], items: int, threads: int | None
    ) -> None:
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        address = self._library.address(entry)
        shared_pool().launch(address, ctypes.addressof(arguments), items, threads)


def compile_contraction(spec: HostContraction, cpu: Target | None = None) -> HostKernel:
    """Generate, compile and load the kernel of `spec` for `cpu` (the host's if None).

    Raises:
        ValueError: there are too many taps for a row table.
        CompileError: LLVM refuses the code.
    """
    cpu = target() if cpu is None else cpu
    lanes = Lanes(spec.element, cpu)
    cuts = block(spec, lanes)
    rows, packing = RowKernel(spec, lanes, cuts), PackKernel(spec, lanes, cuts)
    module = Module()
    rows.write(module)
    packing.write(module)
    exports = (row_kernel.ENTRY, pack.ENTRY)
    library = compile_ir(module.text(), exports=exports, cpu=cpu, options=AS_EMITTED)
    return HostKernel(spec, cuts, packing.packed_bytes, library, rows.items, packing.items)
