"""The CPUs that code is generated for: LLVM's name, the vectors they have, and measured rates.

A CPU is a file of `targets/`. What the processor says of the machine that compiles is completed by
the rates of the file whose vectors are as wide.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from convir.lowering.kernels.host.tile_permission import may_use_tiles
from convir.lowering.loops.llvm.llvm_binding import llvm

X86_64 = "x86-64"
X86_64_V3 = "x86-64-v3"
X86_64_V4 = "x86-64-v4"
X86_64_V4_BF16 = "x86-64-v4-bf16"
X86_64_V4_AMX = "x86-64-v4-amx"
ARM64 = "arm64"
HOST = "host"
NAMES: Final = (X86_64, X86_64_V3, X86_64_V4, X86_64_V4_BF16, X86_64_V4_AMX)
"""The CPUs that code is made for without being them."""

AVX512_BF16: Final = "avx512bf16"
"""LLVM's name of the feature; only functions that multiply by it are compiled with it."""
AVX512_VNNI: Final = "avx512vnni"
AMX_TILE: Final = "amx-tile"
AMX_BF16: Final = "amx-bf16"
AMX_INT8: Final = "amx-int8"
_PACKAGE: Final = "convir.lowering.kernels.host"

# Their float → bfloat conversions turn subnormals into zero, which IEEE arithmetic does not.
_FLUSHES_SUBNORMALS = (AVX512_BF16, "avxneconvert")
# On Intel's processors with AVX-512 LLVM makes vectors of 256 bits of loops. On an Emerald Rapids
# exp then takes 1.5 times as long as with 512, of what the second-level cache holds; gelu 1.3.
_NARROW_VECTORS = "prefer-256-bit"
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
_AMX = (AMX_TILE, AMX_BF16, AMX_INT8)

_SLOW_DOT: Final = "cooperlake"
"""LLVM's name of a processor on which a product of pairs takes longer than two multiply-adds of
f32. So it does on all that have AMX, whatever a hypervisor calls them: on an Emerald Rapids 3.6
cycles, and 0.9 for a multiply-add."""


@dataclass(frozen=True)
class CpuTarget:
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
    bf16_dot: bool
    """True if an instruction adds the products of two pairs of bf16 to an f32, `vdpbf16ps`, in less
    time than two multiply-adds of f32 take."""

    bf16_conversion: bool
    """True if an instruction rounds f32 to bf16, `vcvtneps2bf16`."""

    int8_dot: bool
    """True if an instruction adds the products of four unsigned and signed bytes to an i32:
    `vpdpbusd`."""

    tiles: bool
    """True if there are tile registers of AMX, and instructions that multiply bf16 and bytes of
    them; the process may use them."""

    clock_mhz: float
    """Cycles per µs, under vector arithmetic."""
    multiply_adds: float
    """Vectors of multiply-adds per cycle."""
    l1_bytes: int
    """Of the caches of a core."""
    l2_bytes: int
    l3_bytes: int
    """What a core finds in the last cache that it shares with others."""
    l2_rate: float
    """Bytes per µs that one thread reads and writes, of what the second-level cache holds."""
    l3_rate: float
    """The same of what the third-level cache holds."""
    dram_rate: float
    """The same of what no cache holds."""
    launch: float
    """µs of a launch on the calling thread, after another one."""
    handover_work: float
    """Scalar operations below which a launch stays on one thread: at a few a nanosecond it takes
    less than the microseconds of a handover."""

    def traffic_us(self, nbytes: float) -> float:
        """µs in which one thread reads and writes so many bytes, which lie in the smallest cache
        that holds them."""
        for size, rate in ((self.l2_bytes, self.l2_rate), (self.l3_bytes, self.l3_rate)):
            if nbytes <= size:
                return nbytes / rate
        return nbytes / self.dram_rate

    @property
    def vector_bytes(self) -> int:
        """Width of a vector in bytes."""
        return self.vector_bits // 8

    def lanes(self, element_bits: int) -> int:
        """How many elements of `element_bits` bits one vector holds."""
        return self.vector_bits // element_bits


_REGISTER_FILES = (
    (128, 16, False, False, False),
    (128, 32, True, False, False),
    (256, 16, True, False, False),
    (512, 32, True, False, False),
    (512, 32, True, True, False),
    (512, 32, True, False, True),
)
"""Bits of a vector register, their number, whether multiply-adds are fused, and whether there are
products of pairs of bf16, and tile registers."""


@cache
def register_files() -> tuple[CpuTarget, ...]:
    """A target for each kind of register file that a host may have: what does not depend on the
    machine that compiles is chosen for all of them. Their names are no processors."""
    return tuple(
        replace(
            named(X86_64),
            name=f"{registers}x{bits}{'-amx' if tiles else '-bf16' if pairs else ''}",
            cpu="",
            vector_bits=bits,
            vector_registers=registers,
            fma=fma,
            f16_in_hardware=fma,
            bf16_dot=pairs,
            tiles=tiles,
        )
        for bits, registers, fma, pairs, tiles in _REGISTER_FILES
    )


@cache
def target(name: str = HOST) -> CpuTarget:
    """The target called `name`.

    Raises:
        ValueError: the name is none of `NAMES` and `host`.
    """
    if name == HOST:
        return _host()
    if name not in NAMES:
        known = ", ".join((*NAMES, HOST))
        raise ValueError(f"unknown CPU target '{name}': one of {known}")
    return replace(named(name), triple=llvm.get_process_triple())


@cache
def named(name: str) -> CpuTarget:
    """The CPU of a file of `targets/`, e.g. `x86-64-v3`, on no operating system.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: it lacks a field, or has one that is none.
    """
    file = files(_PACKAGE).joinpath("targets", f"{name}.toml")
    return CpuTarget(
        name=name, triple="", features="", **tomllib.loads(file.read_text(encoding="utf-8"))
    )


def _host() -> CpuTarget:
    triple = llvm.get_process_triple()
    features: dict[str, bool] = llvm.get_host_cpu_features()
    processor = llvm.get_host_cpu_name()
    quads = features.get(AVX512_VNNI, False)
    has_tiles = all(features.get(feature, False) for feature in _AMX)
    has_bf16 = features.get(AVX512_BF16, False)
    has_dot = has_bf16 and not has_tiles and processor != _SLOW_DOT
    for feature in (*_FLUSHES_SUBNORMALS, _NARROW_VECTORS):
        features[feature] = False
    flat = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features.items()))
    own = {"name": HOST, "triple": triple, "cpu": processor, "features": flat}
    if not triple.startswith("x86_64"):
        return replace(named(ARM64), **own)
    fma, half = features.get("fma", False), features.get("f16c", False)
    known = named(X86_64_V3 if features.get("avx2", False) and fma else X86_64)
    if all(features.get(feature, False) for feature in _AVX512):
        tiles = has_tiles and may_use_tiles()
        known = named(X86_64_V4_AMX if tiles else X86_64_V4)
        known = replace(known, bf16_dot=has_dot, bf16_conversion=has_bf16, int8_dot=quads)
    return replace(known, **own, fma=fma, f16_in_hardware=half)
