"""The floating-point types of kernels in LLVM, and their arithmetic on vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import Value, mask, vector, zero
from convir.lowering.llvm.contraction.spec import ELEMENT_BYTES

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
        return ELEMENT_BYTES[self.element]

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
        if active >= self.count:
            return f.load(self.type, address, self.bytes, hint)
        v, bits = self.type, vector("i1", self.count)
        declaration = f"declare {v} @llvm.masked.load.{self.suffix}.p0(ptr, i32, {bits}, {v})"
        align = _align(self.bytes)
        arguments = (address, align, mask(self.count, active), zero(v))
        return f.intrinsic(declaration, v, arguments, hint)

    def store(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` lanes to memory."""
        if active >= self.count:
            f.store(stored, address, self.bytes)
            return
        v, bits = self.type, vector("i1", self.count)
        declaration = f"declare void @llvm.masked.store.{self.suffix}.p0({v}, ptr, i32, {bits})"
        arguments = (stored, address, _align(self.bytes), mask(self.count, active))
        f.intrinsic_effect(declaration, arguments)


def _align(size: int) -> Value:
    return Value("i32", str(size))
