"""Contractions of bf16 over pairs: words of two neighbours along the reduction, instead of f32.

`vdpbf16ps` multiplies two vectors of pairs and adds both products of a lane to its accumulator in
f32. A contraction whose operands are bf16 is rewritten to one of half as many input channels:

    operands whose input channels are contiguous are the words that lie there already
    other operands are joined from two lines when they are copied or packed

The instruction reads subnormal operands as zeros, flushes subnormal accumulators to zero, and
rounds each of its two additions to nearest even.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Function, Value, vector
from convir.lowering.kernels.host.code.elements.quads import QUAD, JoinedQuads, SignedBytes
from convir.lowering.kernels.host.code.elements.storage import Storage

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction, StorageType
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.target import CpuTarget


def takes_pairs(spec: Contraction, cpu: CpuTarget) -> bool:
    """Whether `cpu` computes C of `spec` from pairs of bf16."""
    types = {spec.a.type, spec.b.type}
    return cpu.bf16_dot and spec.result == "C" and types == {"bf16"} and spec.in_channels % 2 == 0


def takes_pairs_of_pixels(spec: Contraction, cpu: CpuTarget) -> bool:
    """Whether `cpu` computes B of `spec` from pairs of bf16 of two output pixels."""
    types = {spec.a.type, spec.c.type}
    return cpu.bf16_dot and spec.result == "B" and types == {"bf16"}


def paired(spec: Contraction) -> Contraction:
    """`spec` over pairs of its input channels, an even number.

    A word counts as an f32 in A and B, whose type is bf16 where pairs are yet to be joined.
    """
    a, b, phases = spec.a, spec.b, spec.phases
    axes = [axis for phase in phases for axis in phase.axes]
    if a.stride == 1 and _even(a.group_stride, *(axis.row_stride for axis in axes)):
        phases = tuple(
            replace(
                phase,
                axes=tuple(replace(axis, row_stride=axis.row_stride // 2) for axis in phase.axes),
            )
            for phase in phases
        )
        a = replace(a, type="f32", group_stride=a.group_stride // 2)
    else:
        a = replace(a, stride=2 * a.stride)
    weights = [weight for axis in axes for weight in axis.tap_weights]
    if b.in_channel_stride == 1 and _even(b.out_channel_stride, b.group_stride, *weights):
        phases = tuple(
            replace(
                phase,
                axes=tuple(
                    replace(axis, tap_weights=tuple(w // 2 for w in axis.tap_weights))
                    for axis in phase.axes
                ),
            )
            for phase in phases
        )
        b = replace(
            b,
            type="f32",
            out_channel_stride=b.out_channel_stride // 2,
            group_stride=b.group_stride // 2,
        )
    else:
        b = replace(b, in_channel_stride=2 * b.in_channel_stride)
    return replace(spec, phases=phases, in_channels=spec.in_channels // 2, a=a, b=b)


def _even(*numbers: int) -> bool:
    return all(number % 2 == 0 for number in numbers)


def operand_storage(lanes: Lanes, type_: StorageType, in_channel_stride: int) -> Storage:
    """How elements of A or B are read, of which two input channels lie `in_channel_stride` apart:
    pairs lie so far from each other, and their halves half as far."""
    if lanes.pairs and type_ == "bf16":
        return JoinedPairs(lanes, type_, in_channel_stride // 2)
    if type_ == "i8":
        if lanes.quads:
            return JoinedQuads(lanes, type_, in_channel_stride // QUAD)
        return SignedBytes(lanes, type_)
    return Storage(lanes, type_)


@dataclass(frozen=True)
class JoinedPairs(Storage):
    """Pairs of bf16 whose halves lie apart, joined to words when they are read."""

    apart: int = 1
    """Elements between the halves of a pair."""

    @property
    def raw_type(self) -> str:
        """The LLVM type of a vector of words."""
        return self.lanes.type

    def load_raw(self, f: Function, address: Value, active: int) -> Value:
        """The words of the first `active` elements and of those `apart` from them."""
        low, high = (
            self.lanes.load_words(f, half, active)
            for half in (address, f.offset(address, self.apart * self.bytes))
        )
        return joined(f, self.lanes, low, high)

    def widen(self, f: Function, raw: Value) -> Value:
        """`raw`: words are what is multiplied."""
        del f
        return raw

    def load_scalar(self, f: Function, address: Value) -> Value:
        """One word."""
        low, high = (
            f.load("i16", half, self.bytes, "bits")
            for half in (address, f.offset(address, self.apart * self.bytes))
        )
        return joined(f, self.lanes, low, high)


def joined(f: Function, lanes: Lanes, low: Value, high: Value) -> Value:
    """Words of two 16-bit integers each, or vectors of them, in the type of the arithmetic."""
    is_vector = low.type.startswith("<")
    words = vector("i32", lanes.count) if is_vector else "i32"
    below, above = (f.emit(words, "wide", f"zext {half} to {words}") for half in (low, high))
    by = "splat (i32 16)" if is_vector else "16"
    above = f.emit(words, "above", f"shl {above}, {by}")
    both = f.emit(words, "pair", f"or {below}, {above.text}")
    kind = lanes.type if is_vector else lanes.scalar
    return f.emit(kind, "word", f"bitcast {both} to {kind}")
