"""Products of four bytes in each lane of vectors, summed in i32.

`vpdpbusd` multiplies four unsigned bytes with four signed ones in each lane and adds all products
to its accumulator in i32, exactly, modulo 2^32. Where a CPU lacks it, the bytes of even and of odd
numbers become words of 16 bits, whose products two `pmaddwd` add in pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Function, Value, vector
from convir.lowering.kernels.host.target import AVX512_VNNI

if TYPE_CHECKING:
    from convir.lowering.kernels.host.target import CpuTarget


def dot_of_bytes(f: Function, cpu: CpuTarget, left: Value, right: Value, total: Value) -> Value:
    """`total` plus the products of four unsigned bytes of `left` and four signed ones of `right`,
    in every lane of a vector."""
    if not cpu.int8_dot:
        return _dot_of_words(f, cpu, left, right, total)
    features = ",".join(filter(None, (cpu.features, f"+{AVX512_VNNI}")))
    f.attributes = f' "target-features"="{features}"'
    v = total.type
    quads = vector("i8", cpu.vector_bytes)
    declaration = f"declare {v} @llvm.x86.avx512.vpdpbusd.{cpu.vector_bits}({v}, {quads}, {quads})"
    operands = (f.emit(quads, "quads", f"bitcast {x} to {quads}") for x in (left, right))
    return f.intrinsic(declaration, v, (total, *operands), "total")


_PMADDWD = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}


def _dot_of_words(f: Function, cpu: CpuTarget, left: Value, right: Value, total: Value) -> Value:
    """The same by words of 16 bits: first the bytes of even number, then the others."""
    count = cpu.vector_bytes // 2
    halves = vector("i16", count)
    a, b = (f.emit(halves, "halves", f"bitcast {x} to {halves}") for x in (left, right))
    eight = "splat (i16 8)"
    even_a = f.emit(halves, "even", f"and {a}, splat (i16 255)")
    odd_a = f.emit(halves, "odd", f"lshr {a}, {eight}")
    even_b = f.emit(halves, "even", f"ashr {f.emit(halves, 'up', f'shl {b}, {eight}')}, {eight}")
    odd_b = f.emit(halves, "odd", f"ashr {b}, {eight}")
    for x, y in ((even_a, even_b), (odd_a, odd_b)):
        total = f.emit(total.type, "total", f"add {total}, {_of_pairs(f, cpu, x, y).text}")
    return total


def _of_pairs(f: Function, cpu: CpuTarget, left: Value, right: Value) -> Value:
    """The sums of the products of neighbouring words of 16 bits."""
    lanes = cpu.vector_bytes // 4
    words = vector("i32", lanes)
    if cpu.triple.startswith("x86_64") or cpu.cpu.startswith("x86-64"):
        declaration = f"declare {words} @{_PMADDWD[cpu.vector_bits]}({left.type}, {left.type})"
        return f.intrinsic(declaration, words, (left, right), "pairs")
    sums: list[Value] = []
    for begin in (0, 1):
        picked = range(begin, 2 * lanes, 2)
        x, y = (
            f.emit(words, "wide", f"sext {f.shuffle(z, z, picked, 'picked')} to {words}")
            for z in (left, right)
        )
        sums.append(f.emit(words, "product", f"mul {x}, {y.text}"))
    return f.emit(words, "pairs", f"add {sums[0]}, {sums[1].text}")
