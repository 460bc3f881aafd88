"""The CPUs that code is generated for: LLVM's name, features, and the vectors they have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from convir.lowering.llvm.llvm_binding import llvm

X86_64 = "x86-64"
X86_64_V3 = "x86-64-v3"
HOST = "host"

# Their float → bfloat conversions turn subnormals into zero, which IEEE arithmetic does not.
_FLUSHES_SUBNORMALS = ("avx512bf16", "avxneconvert")
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")


@dataclass(frozen=True)
class Target:
    """A CPU as code generation sees it."""

    name: str
    """What the user calls it: `x86-64`, `x86-64-v3`, `host`."""
    triple: str
    """The LLVM target triple."""
    cpu: str
    """The LLVM name of the processor."""
    features: str
    """LLVM features, `+a,-b`; empty where the processor's name says all."""
    vector_bits: int
    """Width of the widest vector register that pays: 128, 256 or 512."""
    vector_registers: int
    """Number of vector registers."""
    fma: bool
    """True if multiply-add is one instruction."""
    f16_in_hardware: bool
    """True if an instruction converts between f16 and f32."""

    def lanes(self, element_bits: int) -> int:
        """How many elements of `element_bits` bits one vector holds."""
        return self.vector_bits // element_bits


_REGISTER_FILES = ((128, 16, False), (128, 32, True), (256, 16, True), (512, 32, True))
"""Bits of a vector register, their number, and whether multiply-adds are fused."""


@cache
def register_files() -> tuple[Target, ...]:
    """A target for each kind of register file that a host may have: what does not depend on the
    machine that compiles is chosen for all of them. Their names are no processors."""
    return tuple(
        Target(f"{registers}x{bits}", "", "", "", bits, registers, fma, fma)
        for bits, registers, fma in _REGISTER_FILES
    )


@cache
def target(name: str = HOST) -> Target:
    """The target called `name`.

    Raises:
        ValueError: the name is none of `x86-64`, `x86-64-v3` and `host`.
    """
    triple = llvm.get_process_triple()
    if name == X86_64:
        return Target(name, triple, name, "", 128, 16, False, False)
    if name == X86_64_V3:
        return Target(name, triple, name, "", 256, 16, True, True)
    if name == HOST:
        return _host(triple)
    raise ValueError(f"unknown CPU target '{name}': one of {X86_64}, {X86_64_V3}, {HOST}")


def _host(triple: str) -> Target:
    features: dict[str, bool] = llvm.get_host_cpu_features()
    for feature in _FLUSHES_SUBNORMALS:
        features[feature] = False
    flat = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features.items()))
    cpu = llvm.get_host_cpu_name()
    if triple.startswith("x86_64"):
        fma, half = features.get("fma", False), features.get("f16c", False)
        registers = 16
        bits = 256 if features.get("avx2", False) and fma else 128
        if all(features.get(feature, False) for feature in _AVX512):
            bits, registers = 512, 32
    else:
        # 64-bit ARM: 32 registers of 128 bits, fused multiply-adds and half conversions.
        bits, registers, fma, half = 128, 32, True, True
    return Target(HOST, triple, cpu, flat, bits, registers, fma, half)
