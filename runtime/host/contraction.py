"""A contraction compiled for a CPU, ready to be called."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from convir.lowering.llvm.contraction import pack, row_kernel, weight_kernel
from convir.lowering.llvm.contraction.blocking import Blocking, block
from convir.lowering.llvm.contraction.builder import Module
from convir.lowering.llvm.contraction.pack import PackKernel
from convir.lowering.llvm.contraction.row_kernel import RowKernel
from convir.lowering.llvm.contraction.scalars import Lanes
from convir.lowering.llvm.contraction.weight_blocking import WeightBlocking, block_weights
from convir.lowering.llvm.contraction.weight_kernel import WeightKernel
from convir.lowering.llvm.target import Target, target
from convir.runtime.host.jit import CompileOptions, Library, compile_ir
from convir.runtime.host.pool import shared_pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.llvm.contraction.spec import HostContraction

AS_EMITTED = CompileOptions(opt_level=3, optimize_ir=False)
"""Registers and vectors are chosen already: LLVM only generates code."""

Buffer: TypeAlias = Literal["a", "b", "c", "packed", "parts"]
"""The operands, the packed weights, and partial results."""


@dataclass(frozen=True)
class Stage:
    """One launch."""

    entry: str
    """The function of the library."""
    items: int
    """Independent items of work."""
    buffers: tuple[Buffer, ...]
    """Whose addresses it gets."""


@dataclass(frozen=True)
class HostKernel:
    """The machine code of a contraction.

    Computing C takes A and packed weights; computing B takes A, C and room for partial results.
    """

    spec: HostContraction
    blocking: Blocking | WeightBlocking
    ir: str = field(repr=False)
    """The LLVM assembly."""
    packed_bytes: int
    """Size of the packed weights, which the caller owns; best aligned to 64 bytes."""
    parts_bytes: int
    """Size of the partial results, which the caller owns; best aligned to 64 bytes."""
    prepare: tuple[Stage, ...]
    """What depends on the weights alone: once for constant weights, else before each run."""
    stages: tuple[Stage, ...]
    """The launches of a run, in order."""
    _library: Library = field(repr=False)

    def pack(self, b: int, packed: int, threads: int | None = None) -> None:
        """Pack the weights at address `b` into `packed_bytes` bytes at `packed`."""
        self._launch(self.prepare, {"b": b, "packed": packed}, threads)

    def run(self, buffers: Mapping[Buffer, int], threads: int | None = None) -> None:
        """Compute the result from the other operands.

        Args:
            buffers: the addresses of `a`, `packed` and `c`, or of `a`, `b`, `c` and `parts`;
                the result overlaps no other.
            threads: use at most so many; all cores if None.
        """
        self._launch(self.stages, buffers, threads)

    def _launch(
        self, stages: tuple[Stage, ...], buffers: Mapping[Buffer, int], threads: int | None
    ) -> None:
        pool = shared_pool()
        for stage in stages:
            addresses = [buffers[name] for name in stage.buffers]
            arguments = (ctypes.c_void_p * len(addresses))(*addresses)
            kernel = self._library.address(stage.entry)
            pool.launch(kernel, ctypes.addressof(arguments), stage.items, threads)


def compile_contraction(spec: HostContraction, cpu: Target | None = None) -> HostKernel:
    """Generate, compile and load the kernel of `spec` for `cpu` (the host's if None).

    Raises:
        ValueError: there are too many taps for a row table.
        CompileError: LLVM refuses the code.
    """
    lanes = Lanes(spec.element, target() if cpu is None else cpu)
    return _weights(spec, lanes) if spec.result == "B" else _rows(spec, lanes)


def _rows(spec: HostContraction, lanes: Lanes) -> HostKernel:
    cuts = block(spec, lanes)
    rows, packing = RowKernel(spec, lanes, cuts), PackKernel(spec, lanes, cuts)
    module = Module()
    rows.write(module)
    packing.write(module)
    prepare = (Stage(pack.ENTRY, packing.items, ("b", "packed")),)
    stages = (Stage(row_kernel.ENTRY, rows.items, ("a", "packed", "c")),)
    ir, library = _compile(module, lanes, (*prepare, *stages))
    return HostKernel(spec, cuts, ir, packing.packed_bytes, 0, prepare, stages, library)


def _weights(spec: HostContraction, lanes: Lanes) -> HostKernel:
    cuts = block_weights(spec, lanes)
    weights = WeightKernel(spec, lanes, cuts)
    module = Module()
    weights.write(module)
    stages = (
        Stage(weight_kernel.ENTRY, weights.items, ("a", "c", "parts")),
        Stage(weight_kernel.ADD_ENTRY, weights.add_items, ("parts", "b")),
    )
    ir, library = _compile(module, lanes, stages)
    return HostKernel(spec, cuts, ir, 0, weights.workspace_bytes, (), stages, library)


def _compile(module: Module, lanes: Lanes, stages: tuple[Stage, ...]) -> tuple[str, Library]:
    ir = module.text()
    exports = tuple(stage.entry for stage in stages)
    return ir, compile_ir(ir, exports=exports, cpu=lanes.cpu, options=AS_EMITTED)
