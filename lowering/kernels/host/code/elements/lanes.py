"""The floating-point types of kernels in LLVM, and their arithmetic on vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import Value, mask, vector, zero
from convir.lowering.kernels.host.code.elements.dot_of_bytes import dot_of_bytes
from convir.lowering.kernels.host.code.elements.widen import widened
from convir.lowering.kernels.host.target import AVX512_BF16

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import ComputeType, StorageType
    from convir.lowering.kernels.host.code.builder import Function
    from convir.lowering.kernels.host.target import CpuTarget

_NAMES: dict[ComputeType, str] = {"f32": "float", "f64": "double", "i32": "i32"}

_MASKING_BITS = 512
"""Vectors of processors that have registers for masks."""


@dataclass(frozen=True)
class Lanes:
    """Vectors of one element type on one CPU."""

    element: ComputeType
    cpu: CpuTarget
    pairs: bool = False
    """Whether a lane of an operand holds two neighbouring bf16 along the reduction instead of one
    f32; accumulators are f32 all the same."""
    quads: bool = False
    """Whether a lane of an operand holds four neighbouring bytes along the reduction instead of one
    i32; accumulators are i32 all the same."""
    halves: StorageType | None = None
    """The 16-bit type of rows that tiles widen as they read them; None where rows lie in the type
    of the arithmetic."""

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return STORAGE_BYTES[self.element]

    @property
    def count(self) -> int:
        """Elements in a vector."""
        return self.cpu.lanes(8 * self.bytes)

    @property
    def scalar(self) -> str:
        """The LLVM type of an element."""
        return _NAMES[self.element]

    @property
    def type(self) -> str:
        """The LLVM type of a vector."""
        return vector(self.scalar, self.count)

    @property
    def suffix(self) -> str:
        """The ending of the vector's intrinsics."""
        return f"v{self.count}{self.element}"

    def multiply_add(self, f: Function, left: Value, right: Value, total: Value) -> Value:
        """`left * right + total`, fused where the CPU can."""
        if self.pairs:
            return self._dot_add(f, left, right, total)
        if self.quads:
            return dot_of_bytes(f, self.cpu, left, right, total)
        if self.element == "i32":
            return self.add(f, total, f.emit(self.type, "product", f"mul {left}, {right.text}"))
        if not self.cpu.fma:
            product = f.float_binary("fmul", left, right, "product")
            return f.float_binary("fadd", total, product, "total")
        v = self.type
        declaration = f"declare {v} @llvm.fma.{self.suffix}({v}, {v}, {v})"
        return f.intrinsic(declaration, v, (left, right, total), "total")

    def add(self, f: Function, left: Value, right: Value) -> Value:
        """`left + right`, vectors of any length or scalars."""
        if self.element == "i32":
            return f.emit(left.type, "total", f"add {left}, {right.text}")
        return f.float_binary("fadd", left, right, "total")

    def use_bf16(self, f: Function) -> None:
        """Compile a function for the instructions of AVX512-BF16."""
        features = ",".join(filter(None, (self.cpu.features, f"+{AVX512_BF16}")))
        f.attributes = f' "target-features"="{features}"'

    def _dot_add(self, f: Function, left: Value, right: Value, total: Value) -> Value:
        """`left.low * right.low + left.high * right.high + total`.

        Only this function is compiled for the feature: elsewhere LLVM would round by an
        instruction that flushes subnormals.
        """
        self.use_bf16(f)
        v, pair = self.type, vector("bfloat", 2 * self.count)
        name = f"llvm.x86.avx512bf16.dpbf16ps.{self.cpu.vector_bits}"
        declaration = f"declare {v} @{name}({v}, {pair}, {pair})"
        pairs = (f.emit(pair, "pairs", f"bitcast {x} to {pair}") for x in (left, right))
        return f.intrinsic(declaration, v, (total, *pairs), "total")

    def broadcast(self, f: Function, address: Value) -> Value:
        """A vector with the element at `address` in every lane."""
        return f.splat(f.load(self.scalar, address, self.bytes, "scalar"), self.count, "broadcast")

    @property
    def row_bytes(self) -> int:
        """Bytes of an element of a row, which for i32 without quads is an unsigned byte."""
        if self.halves is not None:
            return STORAGE_BYTES[self.halves]
        return 1 if self._widens else self.bytes

    @property
    def _widens(self) -> bool:
        return self.element == "i32" and not self.quads

    def broadcast_row(self, f: Function, address: Value) -> Value:
        """A vector with a row's element at `address` in every lane."""
        if self.halves is not None:
            one = widened(f, f.load("i16", address, self.row_bytes, "half"), self.halves)
            return f.splat(one, self.count, "broadcast")
        if not self._widens:
            return self.broadcast(f, address)
        byte = f.load("i8", address, 1, "byte")
        return f.splat(f.emit("i32", "wide", f"zext {byte} to i32"), self.count, "broadcast")

    def load_row(self, f: Function, address: Value, active: int) -> Value:
        """The first `active` lanes from a row, zeros in the others."""
        if self.halves is not None:
            return widened(f, self.load_words(f, address, active), self.halves)
        if not self._widens:
            return self.load(f, address, active, "x")
        raw = self.load_elements(f, "i8", address, active)
        return f.emit(self.type, "x", f"zext {raw} to {self.type}")

    def load_part(self, f: Function, address: Value, count: int) -> Value:
        """A vector of `count` elements of a row."""
        part = vector(self.scalar, count)
        if self.halves is not None:
            halves = f.load(vector("i16", count), address, self.row_bytes, "halves")
            return widened(f, halves, self.halves)
        if not self._widens:
            return f.load(part, address, self.bytes, "x")
        raw = f.load(vector("i8", count), address, 1, "raw")
        return f.emit(part, "x", f"zext {raw} to {part}")

    def broadcast_by_load(self, f: Function, address: Value) -> Value:
        """As `broadcast`, of f32 on an x86 with vectors of 512 bits, and never by a shuffle.

        LLVM writes `vbroadcastss`, also for an integer that becomes a float. On a Zen 4 that takes
        a turn of a unit that shuffles; `vpbroadcastd` is a load and nothing else.
        """
        code = f'asm "vpbroadcastd $1, $0", "=v,*m"(ptr elementtype(float) {address.text})'
        return f.emit(self.type, "broadcast", f"call {self.type} {code}")

    def load(self, f: Function, address: Value, active: int, hint: str = "vector") -> Value:
        """The first `active` lanes from memory, zeros in the others."""
        if active >= self.count:
            return f.load(self.type, address, self.bytes, hint)
        return self.load_masked(f, address, mask(self.count, active), hint)

    def load_masked(
        self, f: Function, address: Value, active: Value, hint: str = "vector"
    ) -> Value:
        """The lanes whose boolean in `active` is true from memory, zeros in the others."""
        name = f"llvm.masked.load.{self.suffix}.p0"
        declaration = f"declare {self.type} @{name}(ptr, i32, {active.type}, {self.type})"
        align = Value("i32", str(self.bytes))
        return f.intrinsic(declaration, self.type, (address, align, active, zero(self.type)), hint)

    def store(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` lanes to memory.

        Without AVX-512 a part of a vector is stored in pieces of a power of two: a store through a
        mask takes 12 cycles on a Zen 3.
        """
        if active < self.count and self.cpu.vector_bits >= _MASKING_BITS:
            self.store_masked(f, stored, address, mask(self.count, active))
            return
        if active < self.count:
            stored = f.shuffle(stored, stored, range(active), "part")
        f.store(stored, address, self.bytes)

    def store_masked(self, f: Function, stored: Value, address: Value, active: Value) -> None:
        """The lanes whose boolean in `active` is true to memory."""
        name = f"llvm.masked.store.{self.suffix}.p0"
        declaration = f"declare void @{name}({self.type}, ptr, i32, {active.type})"
        align = Value("i32", str(self.bytes))
        f.intrinsic_effect(declaration, (stored, address, align, active))

    def load_elements(self, f: Function, kind: str, address: Value, active: int) -> Value:
        """As many elements of LLVM's type `kind` as lanes, the first `active` of them from memory,
        zeros in the others."""
        lanes = min(active, self.count)
        loaded = f.load(vector(kind, lanes), address, 1, "elements")
        if lanes == self.count:
            return loaded
        picked = [min(lane, lanes) for lane in range(self.count)]
        return f.shuffle(loaded, zero(loaded.type), picked, "elements")

    def load_words(self, f: Function, address: Value, active: int) -> Value:
        """As many 16-bit integers as lanes, the first `active` of them from memory."""
        lanes = min(active, self.count)
        words = f.load(vector("i16", lanes), address, 2, "words")
        if lanes == self.count:
            return words
        # Lanes past the last word come from a vector of zeros.
        picked = [min(lane, lanes) for lane in range(self.count)]
        return f.shuffle(words, zero(words.type), picked, "words")

    def store_words(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` of as many 16-bit integers as lanes to memory.

        Not through a mask: of a vector that was truncated to words LLVM 22 stores two where the
        mask has one.
        """
        if active < self.count:
            stored = f.shuffle(stored, stored, range(active), "words")
        f.store(stored, address, 2)
