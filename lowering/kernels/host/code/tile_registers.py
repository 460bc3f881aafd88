"""AMX: eight registers of 16 rows of 64 bytes, and products of two of them that a third sums up.

A product is of 16 rows of A, 16 words each, with 16 words of each of 16 columns of B:

    total[row][column] += Σ over words of A[row][word] · B[word][column]

A word holds two bf16 or four bytes that are neighbours along the reduction, so B's registers hold
weights as vectors of pairs or quads do. Sums of bf16 are f32: the products of first and of second
halves are summed up apart, by fused multiply-adds that round to nearest even, then both sums are
added, and that to the total; subnormal operands and results are zeros. Sums of bytes are exact.

Source: Intel, Architecture Instruction Set Extensions, TDPBF16PS and TDPBUSD.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Value
from convir.lowering.kernels.host.target import AMX_BF16, AMX_INT8, AMX_TILE

if TYPE_CHECKING:
    from convir.lowering.kernels.host.code.builder import Module, Operand
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.target import CpuTarget

ROWS = 16
"""Rows of a register: rows of A, words of B, rows of the result."""
WORDS = 16
"""Words of a row of A."""
COLUMNS = 16
"""Columns of B and of the result."""
WORD_BYTES = 4
ROW_BYTES = 64
"""Bytes of a row of a register."""
BYTES = ROWS * ROW_BYTES
"""Bytes of a register."""

_REGISTERS = 8
_PALETTE = 1
_ALL = (
    _PALETTE,
    0,
    *(int.from_bytes(ROW_BYTES.to_bytes(2, "little") * 4, "little"),) * (_REGISTERS // 4),
    0,
    0,
    int.from_bytes(bytes([ROWS] * _REGISTERS), "little"),
    0,
)
"""The 64 bytes that configure all registers to their full size: the palette, from byte 16 on the
bytes of a row of each, from byte 48 on their rows."""


@dataclass(frozen=True)
class TileRegisters:
    """Writes instructions on tile registers into a function, which is compiled for them."""

    f: Function
    cpu: CpuTarget

    def __post_init__(self) -> None:
        features = ",".join(
            filter(None, (self.cpu.features, f"+{AMX_TILE},+{AMX_BF16},+{AMX_INT8}"))
        )
        self.f.attributes = f' "target-features"="{features}"'

    @staticmethod
    def configuration(module: Module) -> Value:
        """The address of what `configure` reads."""
        return module.table("tile_registers", _ALL)

    def configure(self, configuration: Value) -> None:
        """Before any other: all registers have their full size, and hold zeros."""
        self.f.intrinsic_effect("declare void @llvm.x86.ldtilecfg(ptr)", (configuration,))

    def release(self) -> None:
        """After all others: a thread that is left carries no registers about."""
        self.f.intrinsic_effect("declare void @llvm.x86.tilerelease()", ())

    def clear(self, register: int) -> None:
        """Zeros."""
        self.f.intrinsic_effect("declare void @llvm.x86.tilezero(i8)", (_number(register),))

    def load(self, register: int, address: Value, stride: Operand) -> None:
        """Rows from memory, `stride` bytes apart."""
        self._move("tileloadd64", register, address, stride)

    def store(self, register: int, address: Value, stride: Operand) -> None:
        """Rows to memory, `stride` bytes apart."""
        self._move("tilestored64", register, address, stride)

    def multiply_add(self, lanes: Lanes, total: int, left: int, right: int) -> None:
        """Add the products of `left`, rows of A, and `right`, columns of B, to `total`."""
        name = "tdpbusd" if lanes.element == "i32" else "tdpbf16ps"
        declaration = f"declare void @llvm.x86.{name}(i8, i8, i8)"
        self.f.intrinsic_effect(declaration, tuple(map(_number, (total, left, right))))

    def _move(self, name: str, register: int, address: Value, stride: Operand) -> None:
        stride = stride if isinstance(stride, Value) else Value(I64, str(stride))
        declaration = f"declare void @llvm.x86.{name}(i8, {PTR}, {I64})"
        self.f.intrinsic_effect(declaration, (_number(register), address, stride))


def _number(register: int) -> Value:
    return Value("i8", str(register))
