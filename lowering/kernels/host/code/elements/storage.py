"""Elements in memory: loaded into the type of the arithmetic, and rounded back.

Sixteen-bit floats are converted by one instruction where the CPU has it, elsewhere by integer
arithmetic on all lanes. That for bfloat flushes subnormals: what holds any is stored by integers.
Rounding is to nearest even.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import Value, vector

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import StorageType
    from convir.lowering.kernels.host.code.builder import Function
    from convir.lowering.kernels.host.code.elements.lanes import Lanes


@dataclass(frozen=True)
class Storage:
    """How an operand of type `type` is read into and written from `lanes`."""

    lanes: Lanes
    type: StorageType
    is_rounded: bool = field(default=False, kw_only=True)
    """Whether what is stored is a number of the type already."""

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return STORAGE_BYTES[self.type]

    @property
    def is_direct(self) -> bool:
        """Whether memory holds the type of the arithmetic."""
        return self.type == self.lanes.element

    def load(self, f: Function, address: Value, active: int) -> Value:
        """The first `active` elements as a vector, zeros in the other lanes."""
        return self.widen(f, self.load_raw(f, address, active))

    @property
    def raw_type(self) -> str:
        """The LLVM type of a vector as it lies in memory."""
        return self.lanes.type if self.is_direct else vector("i16", self.lanes.count)

    def load_raw(self, f: Function, address: Value, active: int) -> Value:
        """The first `active` elements as they lie in memory, zeros in the other lanes.

        Vectors are shuffled before they are widened, never after: LLVM 22 moves shuffles of two
        widened halves in front of the conversion, and loses half of the elements.
        """
        if self.is_direct:
            return self.lanes.load(f, address, active)
        return self.lanes.load_words(f, address, active)

    def widen(self, f: Function, raw: Value) -> Value:
        """A raw vector in the type of the arithmetic."""
        return raw if self.is_direct else self._widen(f, raw)

    def rounded(self, f: Function, x: Value) -> Value:
        """`x` rounded to the stored type, in the type of the arithmetic."""
        if self.is_direct:
            return x
        if self.type == "bf16":
            return _rounded_bfloat(f, x)
        return self._widen(f, self._narrow(f, x))

    def store(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` lanes to memory."""
        if self.is_direct:
            self.lanes.store(f, stored, address, active)
        elif self._has_instruction(stored):
            self.lanes.store_words(
                f, _rounded_by_instruction(f, self.lanes, stored), address, active
            )
            # Once more what the instruction takes for zeros.
            with f.when(_any_subnormal(f, stored), "subnormal"):
                self.lanes.store_words(f, self._narrow(f, stored), address, active)
        else:
            self.lanes.store_words(f, self._narrow(f, stored), address, active)

    def _has_instruction(self, stored: Value) -> bool:
        """Whether one instruction rounds a vector, but for subnormal numbers."""
        is_whole = stored.type == self.lanes.type and self.lanes.cpu.vector_bits == 512
        rounds = self.type == "bf16" and self.lanes.element == "f32" and not self.is_rounded
        return is_whole and rounds and self.lanes.cpu.bf16_conversion

    def store_raw(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` lanes of what lay in memory so."""
        if self.is_direct:
            self.lanes.store(f, stored, address, active)
        else:
            self.lanes.store_words(f, stored, address, active)

    def load_scalar(self, f: Function, address: Value) -> Value:
        """One element."""
        if self.is_direct:
            return f.load(self.lanes.scalar, address, self.bytes)
        return self._widen(f, f.load("i16", address, self.bytes, "bits"))

    def store_scalar(self, f: Function, stored: Value, address: Value) -> None:
        """One element to memory."""
        narrow = stored if self.is_direct else self._narrow(f, stored)
        f.store(narrow, address, self.bytes)

    def _widen(self, f: Function, bits: Value) -> Value:
        if self.type == "bf16":
            wide = f.emit(_like(bits, "i32"), "wide", f"zext {bits} to {_like(bits, 'i32')}")
            return _bitcast(f, _integer(f, "shl", wide, 16), "float")
        if self.lanes.cpu.f16_in_hardware:
            half = _bitcast(f, bits, "half")
            return f.emit(_like(bits, "float"), "wide", f"fpext {half} to {_like(bits, 'float')}")
        return _widen_half(f, bits)

    def _narrow(self, f: Function, x: Value) -> Value:
        if self.type == "bf16":
            return _upper_half(f, _bitcast(f, x, "i32") if self.is_rounded else _near_bfloat(f, x))
        if self.lanes.cpu.f16_in_hardware:
            half = f.emit(_like(x, "half"), "half", f"fptrunc {x} to {_like(x, 'half')}")
            return _bitcast(f, half, "i16")
        return _narrow_half(f, x)


@dataclass(frozen=True)
class Unconverted(Storage):
    """Elements beside sums of integers, which programs on them convert themselves."""

    @property
    def _kind(self) -> str:
        return {"f32": "float"}.get(self.type, self.type)

    @property
    def raw_type(self) -> str:
        """The LLVM type of a vector."""
        return vector(self._kind, self.lanes.count)

    def load_raw(self, f: Function, address: Value, active: int) -> Value:
        """The first `active` elements, zeros in the other lanes."""
        return self.lanes.load_elements(f, self._kind, address, active)

    def widen(self, f: Function, raw: Value) -> Value:
        """`raw` itself."""
        del f
        return raw

    def rounded(self, f: Function, x: Value) -> Value:
        """`x` itself."""
        del f
        return x

    def store(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` lanes to memory."""
        if active < self.lanes.count:
            stored = f.shuffle(stored, stored, range(active), "elements")
        f.store(stored, address, 1)

    def store_raw(self, f: Function, stored: Value, address: Value, active: int) -> None:
        """The first `active` lanes to memory."""
        self.store(f, stored, address, active)

    def load_scalar(self, f: Function, address: Value) -> Value:
        """One element."""
        return f.load(self._kind, address, self.bytes)

    def store_scalar(self, f: Function, stored: Value, address: Value) -> None:
        """One element to memory."""
        f.store(stored, address, self.bytes)


def storage_of(lanes: Lanes, type_: StorageType, *, is_rounded: bool = False) -> Storage:
    """How results, and what is computed with them, are read and written."""
    kind = Unconverted if lanes.element == "i32" else Storage
    return kind(lanes, type_, is_rounded=is_rounded)


def _like(x: Value, element: str) -> str:
    """The type of `element`s in the shape of `x`."""
    if not x.type.startswith("<"):
        return element
    return vector(element, int(x.type[1:].split(" x ")[0]))


def _constant(x: Value, number: int | str) -> str:
    """`number` in every lane of the shape of `x`, as an operand."""
    if not x.type.startswith("<"):
        return str(number)
    lanes, element = x.type[1:-1].split(" x ")
    return f"<{', '.join([f'{element} {number}'] * int(lanes))}>"


def _bitcast(f: Function, x: Value, element: str) -> Value:
    type_ = _like(x, element)
    return f.emit(type_, "cast", f"bitcast {x} to {type_}")


def _integer(f: Function, operator: str, x: Value, number: int) -> Value:
    return f.emit(x.type, operator, f"{operator} {x}, {_constant(x, number)}")


def _both(f: Function, operator: str, x: Value, y: Value) -> Value:
    return f.emit(x.type, operator, f"{operator} {x}, {y.text}")


def _below(f: Function, x: Value, limit: int) -> Value:
    return f.emit(_like(x, "i1"), "below", f"icmp ult {x}, {_constant(x, limit)}")


def _choose(f: Function, condition: Value, x: Value, y: Value) -> Value:
    return f.emit(x.type, "chosen", f"select {condition}, {x}, {y}")


def _splat(x: Value, number: int) -> Value:
    return Value(x.type, _constant(x, number))


_HALF_REBIAS = 112 << 23
"""The exponent biases of float and half differ by 112."""
_FLOAT_INFINITY = 0x7F800000
_HALF_INFINITY = 0x7C00


def _widen_half(f: Function, bits16: Value) -> Value:
    bits = f.emit(_like(bits16, "i32"), "bits", f"zext {bits16} to {_like(bits16, 'i32')}")
    sign = _integer(f, "shl", _integer(f, "and", bits, 0x8000), 16)
    magnitude = _integer(f, "and", bits, 0x7FFF)
    moved = _integer(f, "shl", magnitude, 13)
    normal = _integer(f, "add", moved, _HALF_REBIAS)
    special = _integer(f, "or", moved, _FLOAT_INFINITY)
    # A subnormal is an integer count of 2^-24; signed conversion is one instruction everywhere.
    count = f.emit(_like(bits, "float"), "count", f"sitofp {magnitude} to {_like(bits, 'float')}")
    unit = _constant(count, "0x3E70000000000000")
    small = _bitcast(f, f.emit(count.type, "small", f"fmul {count}, {unit}"), "i32")
    finite = _choose(f, _below(f, magnitude, 0x0400), small, normal)
    unsigned = _choose(f, _below(f, magnitude, _HALF_INFINITY), finite, special)
    return _bitcast(f, _both(f, "or", unsigned, sign), "float")


def _narrow_half(f: Function, x: Value) -> Value:
    bits = _bitcast(f, x, "i32")
    sign = _integer(f, "and", _integer(f, "lshr", bits, 16), 0x8000)
    magnitude = _integer(f, "and", bits, 0x7FFFFFFF)
    odd = _integer(f, "and", _integer(f, "lshr", magnitude, 13), 1)
    rebased = _integer(f, "sub", magnitude, _HALF_REBIAS - 0xFFF)
    normal = _integer(f, "lshr", _both(f, "add", rebased, odd), 13)
    # Adding 0.5 leaves the rounded count of 2^-24 in the low bits.
    positive = _bitcast(f, magnitude, "float")
    half = _constant(positive, "5.000000e-01")
    aligned = _bitcast(f, f.emit(positive.type, "aligned", f"fadd {positive}, {half}"), "i32")
    small = _integer(f, "sub", aligned, 0x3F000000)
    payload = _integer(f, "and", _integer(f, "lshr", magnitude, 13), 0x03FF)
    nan = _integer(f, "or", payload, 0x7E00)
    finite = _choose(f, _below(f, magnitude, 113 << 23), small, normal)
    bounded = _choose(f, _below(f, magnitude, 0x477FF000), finite, _splat(finite, _HALF_INFINITY))
    unsigned = _choose(f, _below(f, magnitude, _FLOAT_INFINITY + 1), bounded, nan)
    result = _both(f, "or", unsigned, sign)
    return f.emit(_like(x, "i16"), "half", f"trunc {result} to {_like(x, 'i16')}")


_SUBNORMAL = 0x20
"""The class of numbers, as `vfpclassps` has it."""


def _any_subnormal(f: Function, x: Value) -> Value:
    declaration = f"declare <16 x i1> @llvm.x86.avx512.fpclass.ps.512({x.type}, i32)"
    lanes = f.intrinsic(declaration, "<16 x i1>", (x, Value("i32", str(_SUBNORMAL))), "tiny")
    bits = f.emit("i16", "bits", f"bitcast {lanes} to i16")
    return f.emit("i1", "some", f"icmp ne {bits}, 0")


def _rounded_by_instruction(f: Function, lanes: Lanes, x: Value) -> Value:
    """Whole vectors of f32 as bf16; subnormal numbers become zeros."""
    lanes.use_bf16(f)
    declaration = f"declare <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512({x.type})"
    halves = f.intrinsic(declaration, "<16 x bfloat>", (x,), "rounded")
    return f.emit("<16 x i16>", "words", f"bitcast {halves} to <16 x i16>")


def _upper_half(f: Function, bits: Value) -> Value:
    high = _integer(f, "lshr", bits, 16)
    return f.emit(_like(bits, "i16"), "bfloat", f"trunc {high} to {_like(bits, 'i16')}")


def _rounded_bfloat(f: Function, x: Value) -> Value:
    return _bitcast(f, _integer(f, "and", _near_bfloat(f, x), -0x10000), "float")


def _near_bfloat(f: Function, x: Value) -> Value:
    """The bits of the nearest bf16 in the upper halves; the lower ones hold anything."""
    bits = _bitcast(f, x, "i32")
    odd = _integer(f, "and", _integer(f, "lshr", bits, 16), 1)
    rounded = _both(f, "add", _integer(f, "add", bits, 0x7FFF), odd)
    quiet = _integer(f, "or", bits, 0x00400000)
    is_nan = f.emit(_like(x, "i1"), "nan", f"fcmp uno {x}, {x.text}")
    return _choose(f, is_nan, quiet, rounded)
