"""Sums of bytes over quads: words of four neighbours along the reduction.

quads of A and B are four neighbouring channels, which lie there where channels are contiguous
others are joined from four lines when operands are copied or packed
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Function, Value, vector
from convir.lowering.kernels.host.code.elements.storage import Storage

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction

QUAD = 4
"""Bytes of a word."""


def takes_quads(spec: Contraction) -> bool:
    """Whether C of `spec` is computed from quads: channels of a group are whole words of A, or
    are copied to such."""
    axes = [axis for phase in spec.phases for axis in phase.axes]
    steps = (spec.a.group_stride, *(axis.row_stride for axis in axes))
    if spec.element != "i32" or spec.in_channels % QUAD:
        return False
    return spec.a.stride != 1 or all(n % QUAD == 0 for n in steps)


def in_quads(spec: Contraction) -> Contraction:
    """`spec` over quads of its input channels: A counts words, and so does B where they lie
    there."""
    a, b, phases = spec.a, spec.b, spec.phases
    if a.stride == 1:
        phases = tuple(
            replace(
                phase,
                axes=tuple(replace(x, row_stride=x.row_stride // QUAD) for x in phase.axes),
            )
            for phase in phases
        )
        a = replace(a, type="i32", group_stride=a.group_stride // QUAD)
    else:
        a = replace(a, stride=QUAD * a.stride)
    weights = [weight for phase in phases for axis in phase.axes for weight in axis.tap_weights]
    steps = (b.out_channel_stride, b.group_stride, *weights)
    if b.in_channel_stride == 1 and all(n % QUAD == 0 for n in steps):
        phases = tuple(
            replace(
                phase,
                axes=tuple(
                    replace(x, tap_weights=tuple(w // QUAD for w in x.tap_weights))
                    for x in phase.axes
                ),
            )
            for phase in phases
        )
        b = replace(
            b,
            type="i32",
            out_channel_stride=b.out_channel_stride // QUAD,
            group_stride=b.group_stride // QUAD,
        )
    else:
        b = replace(b, in_channel_stride=QUAD * b.in_channel_stride)
    return replace(spec, phases=phases, in_channels=spec.in_channels // QUAD, a=a, b=b)


@dataclass(frozen=True)
class SignedBytes(Storage):
    """Signed bytes, each a word."""

    @property
    def raw_type(self) -> str:
        """The LLVM type of a vector as it lies in memory."""
        return vector("i8", self.lanes.count)

    def load_raw(self, f: Function, address: Value, active: int) -> Value:
        """The first `active` bytes, zeros in the other lanes."""
        return self.lanes.load_elements(f, "i8", address, active)

    def widen(self, f: Function, raw: Value) -> Value:
        """Words of the same numbers."""
        return f.emit(self.lanes.type, "wide", f"sext {raw} to {self.lanes.type}")

    def load_scalar(self, f: Function, address: Value) -> Value:
        """One number."""
        return f.emit("i32", "wide", f"sext {f.load('i8', address, 1, 'byte')} to i32")


@dataclass(frozen=True)
class JoinedQuads(Storage):
    """Quads whose bytes lie apart, joined to words when they are read."""

    apart: int = 1
    """Elements between two bytes of a quad."""

    @property
    def raw_type(self) -> str:
        """The LLVM type of a vector of words."""
        return self.lanes.type

    def load_raw(self, f: Function, address: Value, active: int) -> Value:
        """The words of the first `active` bytes and of those `apart` from them."""
        return self._joined(
            f, [self.lanes.load_elements(f, "i8", x, active) for x in self._places(f, address)]
        )

    def widen(self, f: Function, raw: Value) -> Value:
        """`raw`: words are what is multiplied."""
        del f
        return raw

    def load_scalar(self, f: Function, address: Value) -> Value:
        """One word."""
        return self._joined(f, [f.load("i8", x, 1, "byte") for x in self._places(f, address)])

    def _places(self, f: Function, address: Value) -> list[Value]:
        return [f.offset(address, number * self.apart) for number in range(QUAD)]

    def _joined(self, f: Function, parts: list[Value]) -> Value:
        is_vector = parts[0].type.startswith("<")
        kind = self.lanes.type if is_vector else "i32"
        word, *others = (f.emit(kind, "wide", f"zext {part} to {kind}") for part in parts)
        for number, part in enumerate(others, 1):
            by = f"splat (i32 {8 * number})" if is_vector else str(8 * number)
            moved = f.emit(kind, "moved", f"shl {part}, {by}")
            word = f.emit(kind, "word", f"or {word}, {moved.text}")
        return word
