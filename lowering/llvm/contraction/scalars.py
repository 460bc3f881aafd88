"""The floating-point types of kernels in LLVM, and their arithmetic on vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import Value, mask, vector, zero
from convir.lowering.llvm.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.builder import Function
    from convir.lowering.llvm.contraction.spec import FloatType
    from convir.lowering.llvm.target import Target

_NAMES: dict[FloatType, str] = {"f32": "float", "f64": "double"}


@dataclass(frozen=True)
class Lanes:
    """Vectors of one element type on one CPU."""

    element: FloatType
    cpu: Target

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
        if not self.cpu.fma:
            product = f.float_binary("fmul", left, right, "product")
            return f.float_binary("fadd", total, product, "total")
        v = self.type
        declaration = f"declare {v} @llvm.fma.{self.suffix}({v}, {v}, {v})"
        return f.intrinsic(declaration, v, (left, right, total), "total")

    def broadcast(self, f: Function, address: Value) -> Value:
        """A vector with the element at `address` in every lane."""
        return f.splat(f.load(self.scalar, address, self.bytes, "scalar"), self.count, "broadcast")

    def load(self, f: Function, address: Value, active: int, hint: str = "vector") -> Value:
        """The first `active` lanes from memory, zeros in the others."""
        return self._load(f, address, active, (self.type, self.element, self.bytes), hint)

    def store(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` lanes to memory."""
        self._store(f, stored, address, active, (self.element, self.bytes))

    def load_words(self, f: Function, address: Value, active: int) -> Value:
        """As many 16-bit integers as lanes, the first `active` of them from memory."""
        return self._load(f, address, active, (vector("i16", self.count), "i16", 2), "words")

    def store_words(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` of as many 16-bit integers as lanes to memory."""
        self._store(f, stored, address, active, ("i16", 2))

    def _load(
        self, f: Function, address: Value, active: int, kind: tuple[str, str, int], hint: str
    ) -> Value:
        type_, suffix, size = kind
        if active >= self.count:
            return f.load(type_, address, size, hint)
        bits = vector("i1", self.count)
        name = f"llvm.masked.load.v{self.count}{suffix}.p0"
        declaration = f"declare {type_} @{name}(ptr, i32, {bits}, {type_})"
        arguments = (address, Value("i32", str(size)), mask(self.count, active), zero(type_))
        return f.intrinsic(declaration, type_, arguments, hint)

    def _store(
        self, f: Function, stored: Value, address: Value, active: int, kind: tuple[str, int]
    ) -> None:
        suffix, size = kind
        if active >= self.count:
            f.store(stored, address, size)
            return
        bits = vector("i1", self.count)
        name = f"llvm.masked.store.v{self.count}{suffix}.p0"
        declaration = f"declare void @{name}({stored.type}, ptr, i32, {bits})"
        arguments = (stored, address, Value("i32", str(size)), mask(self.count, active))
        f.intrinsic_effect(declaration, arguments)
