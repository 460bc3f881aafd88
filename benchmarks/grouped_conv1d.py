"""Small grouped convolutions inside compiled code, beside C++ templates of the same shapes:
`python benchmarks/grouped_conv1d.py`.

Every shape has as many channels in as out, 64 frames, and a tap or three, with each group count.
Ours is the code of a planar kernel. The peers are templates on (channels, channels, groups, taps)
whose loops have constant bounds, as a fast path of NeuralAmpModelerCore was described to have them,
compiled by g++ -O3 -march=native: with the channels of a frame as neighbours, as there, and with
the frames of a channel. A call is one of many in a row inside of machine code; the peak is measured
in turns with them.

What no code can pass is the `roofline`: the time of the multiply-adds at the peak, or of `stores`,
machine code that writes as large a result, whole vectors in a straight line, and does nothing else,
whichever is longer. Stores are measured in turns with the rest, in vectors of every width that the
CPU has, of which the fastest counts.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.lowering.bodies.contraction.scalar_program import Sum
from convir.lowering.bodies.planar.program import (
    Binding,
    Bound,
    Parameter,
    PlanarProgram,
    Rows,
    Stage,
    Term,
    Write,
)
from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Module, zero
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.fused_chain.kernel import planar_ir
from convir.lowering.kernels.host.target import target
from convir.runtime.arrays.host_memory import address_of, aligned_bytes
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.row import OURS, Row
from convir.runtime.bench.timing import Timing, measure
from convir.runtime.host.fma_peak import fma_gflops
from convir.runtime.host.jit import AS_EMITTED, compile_ir

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

CHANNELS = (4, 6, 8, 12, 16)
TAPS = (1, 3)
FRAMES = 64
BEFORE = 16
"""Frames of a row before the block; it begins with a cache line, as in a stream."""
PAGE_BYTES = 4096
PLACES = range(0, PAGE_BYTES, 512)
"""Where results may lie in a page; what is read begins with one."""
TRIALS, PARTS = 25, 5
"""Of each place, in turns, and how many of them are as many calls as a measurement."""
CALLS = 1000
"""Calls of compiled code in one of ours, at least."""
FLOPS = 8_000_000
"""Of the calls in one of ours: the call from Python is lost in them."""
STORE_BITS = (512, 256, 128)
TOLERANCE = 1e-5
COMPILER = ("g++", "-O3", "-march=native", "-shared", "-fPIC")
CHANNELS_LAST, PLANAR = "g++ channels last", "g++ planar"
STORES = "stores"

CPP = """
template <int C, int G, int K> static void channels_last(
    const float* __restrict x, const float* __restrict w, float* __restrict y) {
  constexpr int D = C / G;
  for (int t = 0; t < FRAMES; t++)
    for (int g = 0; g < G; g++)
      for (int o = 0; o < D; o++) {
        float sum = 0;
        for (int k = 0; k < K; k++)
          for (int d = 0; d < D; d++)
            sum += w[((g * D + o) * D + d) * K + k] * x[(t + k) * C + g * D + d];
        y[t * C + g * D + o] = sum;
      }
}
template <int C, int G, int K> static void planar(
    const float* __restrict x, const float* __restrict w, float* __restrict y) {
  constexpr int D = C / G;
  for (int g = 0; g < G; g++)
    for (int o = 0; o < D; o++) {
      float sums[FRAMES] = {};
      for (int d = 0; d < D; d++)
        for (int k = 0; k < K; k++)
          for (int t = 0; t < FRAMES; t++)
            sums[t] += w[((g * D + o) * D + d) * K + k] * x[(g * D + d) * PITCH + t + k];
      for (int t = 0; t < FRAMES; t++) y[(g * D + o) * FRAMES + t] = sums[t];
    }
}
#define CASE(C, G, K)                                                                       \\
  extern "C" void last_##C##_##G##_##K(const float* x, const float* w, float* y, long n) {   \\
    for (; n > 0; n--) {                                                                     \\
      channels_last<C, G, K>(x, w, y);                                                       \\
      asm volatile("" ::: "memory");                                                         \\
    }                                                                                        \\
  }                                                                                          \\
  extern "C" void planar_##C##_##G##_##K(const float* x, const float* w, float* y, long n) { \\
    for (; n > 0; n--) {                                                                     \\
      planar<C, G, K>(x, w, y);                                                              \\
      asm volatile("" ::: "memory");                                                         \\
    }                                                                                        \\
  }
"""


@dataclass(frozen=True)
class Shape:
    """A convolution of as many channels as it has results."""

    channels: int
    groups: int
    taps: int

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    @property
    def flops(self) -> int:
        """Of one call."""
        return 2 * self.channels * self.depth * self.taps * FRAMES

    @property
    def calls(self) -> int:
        """In one call of compiled code."""
        return max(CALLS, FLOPS // self.flops)

    @property
    def nbytes(self) -> int:
        """Of the block, the result and the weights."""
        return 4 * self.channels * (2 * FRAMES + self.depth * self.taps)

    def __str__(self) -> str:
        return f"{self.channels} channels, {self.groups} groups, {self.taps} taps"


SHAPES = tuple(
    Shape(channels, groups, taps)
    for taps in TAPS
    for channels in CHANNELS
    for groups in range(1, channels + 1)
    if channels % groups == 0
)


@dataclass(frozen=True)
class Data:
    """Arrays of one shape, each beginning with a cache line."""

    x: Array
    """f32[channels, BEFORE + FRAMES]"""
    w: Array
    """f32[channels, depth, taps]"""
    wanted: npt.NDArray[np.float64]
    """f64[channels, FRAMES]"""

    @staticmethod
    def of(shape: Shape) -> Data:
        """Random arrays, and the result in f64."""
        numbers = np.random.default_rng(0)
        x = aligned((shape.channels, BEFORE + FRAMES))
        w = aligned((shape.channels, shape.depth, shape.taps))
        for array in (x, w):
            array[...] = numbers.standard_normal(array.shape)
        grouped = x.astype(np.float64).reshape(shape.groups, shape.depth, -1)
        weights = w.astype(np.float64).reshape(shape.groups, shape.depth, shape.depth, -1)
        wanted = np.zeros((shape.groups, shape.depth, FRAMES))
        for tap in range(shape.taps):
            first = BEFORE - shape.taps + 1 + tap
            seen = grouped[..., first : first + FRAMES]
            wanted += np.einsum("gcd,gdt->gct", weights[..., tap], seen)
        return Data(x, w, wanted.reshape(shape.channels, FRAMES))


def aligned(shape: tuple[int, ...], page_offset: int = 0) -> Array:
    """A new array that begins with a cache line, `page_offset` bytes into a page."""
    size = int(np.prod(shape))
    memory = aligned_bytes(4 * size + 2 * PAGE_BYTES).view(np.float32)
    begin = (page_offset - address_of(memory)) % PAGE_BYTES // 4
    return memory[begin : begin + size].reshape(shape)


@dataclass(frozen=True)
class Candidate:
    """Code for one shape."""

    run: Callable[[int], None]
    """Call it so often."""
    result: Callable[[], Array]
    """f32[channels, FRAMES] after a call."""
    kept: object


def placed(make: Callable[[int], Candidate]) -> Candidate:
    """Code whose result lies where it takes least time: a load waits for a store before it that has
    the same place in another page, so that neighbouring arrays may cost more than the code.

    Args:
        make: gives the code with a result so many bytes into a page.
    """

    candidates = [make(place) for place in PLACES]
    least_s = [math.inf] * len(candidates)
    for _ in range(TRIALS):
        for i, one in enumerate(candidates):
            begin = perf_counter()
            one.run(CALLS // PARTS)
            least_s[i] = min(least_s[i], perf_counter() - begin)
    return candidates[least_s.index(min(least_s))]


def ours(shape: Shape, data: Data, offset: int) -> Candidate:
    """The code of a planar kernel."""
    term = Term(
        Rows(Parameter(0)),
        Parameter(1),
        shape.depth,
        shape.taps,
        shape.groups,
        reach=1 if shape.depth == 1 else None,
    )
    write = Write(Rows(Parameter(2)), Sum())
    program = PlanarProgram(3, (), (Stage(shape.channels, (term,), (), (), (write,)),))
    first = BEFORE - shape.taps + 1
    places = (Bound(0, first, BEFORE + FRAMES, 1), Bound(1, 0), Bound(2, 0, FRAMES))
    ir = planar_ir({"kernel": (program, Binding(places, FRAMES, 1))}, target())
    library = compile_ir(ir, exports=("kernel",), options=AS_EMITTED)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(
        library.address("kernel")
    )
    y = aligned((shape.channels, FRAMES), offset)
    y.fill(np.nan)
    table = (ctypes.c_int64 * 3)(*map(address_of, (data.x, data.w, y)))
    address = ctypes.addressof(table)
    return Candidate(lambda count: call(address, 0, count, 0), lambda: y, (library, table, data))


def stores(shape: Shape, bits: int, offset: int) -> Candidate:
    """Code that writes a result in vectors of `bits` bits and computes nothing."""
    lanes = Lanes("f32", replace(target(), vector_bits=bits))
    f = Function("stores", ((PTR, "y"), (I64, "count")), external=True)
    y, bytes_of_vector = f.argument("y"), lanes.count * lanes.bytes
    with f.loop("call", 0, f.argument("count")):
        for place in range(0, shape.channels * FRAMES * lanes.bytes, bytes_of_vector):
            f.store(zero(lanes.type), f.offset(y, place), lanes.bytes)
    module = Module()
    module.add(f)
    library = compile_ir(module.text(), exports=("stores",), options=AS_EMITTED)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address("stores"))
    written = aligned((shape.channels, FRAMES), offset)
    return Candidate(lambda count: call(address_of(written), count), lambda: written, library)


def templates(
    shape: Shape, data: Data, library: ctypes.CDLL
) -> dict[str, Callable[[int], Candidate]]:
    """The C++ templates, given where results lie in a page."""
    first = BEFORE - shape.taps + 1
    name = f"{shape.channels}_{shape.groups}_{shape.taps}"
    x_last = aligned((BEFORE + FRAMES, shape.channels))
    x_last[...] = data.x.T

    def calling(kind: str, x: Array, out: Array, skipped: int) -> Callable[[int], None]:
        function = getattr(library, f"{kind}_{name}")
        function.argtypes = (ctypes.c_void_p,) * 3 + (ctypes.c_long,)
        begin = address_of(x) + 4 * skipped
        return lambda count: function(begin, address_of(data.w), address_of(out), count)

    def channels_last(offset: int) -> Candidate:
        y = aligned((FRAMES, shape.channels), offset)
        run = calling("last", x_last, y, first * shape.channels)
        return Candidate(run, lambda: y.T, x_last)

    def planar(offset: int) -> Candidate:
        y = aligned((shape.channels, FRAMES), offset)
        return Candidate(calling("planar", data.x, y, first), lambda: y, data)

    return {CHANNELS_LAST: channels_last, PLANAR: planar}


def compiled_templates(folder: Path) -> ctypes.CDLL:
    """All templates, compiled by g++."""
    source, built = folder / "templates.cpp", folder / "templates.so"
    cases = "\n".join(f"CASE({s.channels}, {s.groups}, {s.taps})" for s in SHAPES)
    pitch = BEFORE + FRAMES
    source.write_text(f"enum {{ FRAMES = {FRAMES}, PITCH = {pitch} }};\n{CPP}{cases}\n")
    subprocess.run([*COMPILER, "-o", built, source], check=True)
    return ctypes.CDLL(str(built))


def main() -> None:
    """Measure every shape and print a table."""
    parser = argparse.ArgumentParser(description="Time small convolutions along frames.")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds per backend and shape")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    bench = HostBench(1)
    rows: list[Row] = []
    shares: dict[str, list[float]] = {}
    rooflines: list[float] = []
    leads: list[float] = []
    peaks = [fma_gflops("f32", 1)]
    with tempfile.TemporaryDirectory() as folder:
        library = compiled_templates(Path(folder))
        for shape in SHAPES:
            of_shape, stored_us = measured(shape, library, max(peaks), options.budget)
            rows += of_shape
            peaks.append(fma_gflops("f32", 1))
            print(described(shape, of_shape, stored_us, max(peaks)), flush=True)
            leads.append(lead(of_shape))
            rooflines += [row.roofline for row in of_shape if row.backend == OURS and row.roofline]
            for row in of_shape:
                shares.setdefault(row.backend, []).append(share(row, max(peaks)))
    for backend, of_backend in shares.items():
        print(f"{backend:18s} {summary(of_backend)} of the peak")
    print(f"{OURS:18s} {summary(rooflines)} of the roofline")
    print(f"{OURS:18s} {summary(leads)} times as fast as the better template")
    print(f"peak: {max(peaks):.1f} GFLOP/s")
    if options.json is not None:
        options.json.write_text(json.dumps(report(bench, max(peaks), rows), indent=1) + "\n")


def summary(of_shapes: list[float]) -> str:
    """The geometric mean and the least."""
    geomean = float(np.exp(np.mean(np.log(of_shapes))))
    return f"geomean {geomean:.2f}, least {min(of_shapes):.2f}"


def measured(
    shape: Shape, library: ctypes.CDLL, peak: float, budget_s: float
) -> tuple[list[Row], float]:
    """A row of each candidate, and µs of stores alone."""
    data = Data.of(shape)
    makers = {
        OURS: partial(ours, shape, data),
        **templates(shape, data, library),
        **{name: partial(stores, shape, bits) for name, bits in store_widths().items()},
    }
    candidates = {name: placed(make) for name, make in makers.items()}
    timings = measure(
        {name: lambda one=one: one.run(shape.calls) for name, one in candidates.items()},
        budget_s=budget_s,
    )
    stored_us = min(timings.pop(name).median for name in store_widths()) / shape.calls
    floor_us = max(shape.flops / peak / 1e3, stored_us)
    rows = [
        Row(
            suite="grouped-conv1d",
            line=str(shape),
            backend=name,
            layout="NWC" if name == CHANNELS_LAST else "NCW",
            config="planar" if name == OURS else "",
            weights="argument",
            us=Timing(*(us / shape.calls for us in (timing.median, timing.p20, timing.p80))),
            flops=shape.flops,
            nbytes=shape.nbytes,
            floor_us=floor_us,
            failure=None
            if np.abs(candidates[name].result() - data.wanted).max() <= TOLERANCE
            else "wrong",
        )
        for name, timing in timings.items()
    ]
    return rows, stored_us


def store_widths() -> dict[str, int]:
    """Bits of the vectors of each measurement of stores, by its name."""
    return {f"{STORES} {b}": b for b in STORE_BITS if b <= target().vector_bits}


def share(row: Row, peak: float) -> float:
    """The share of the peak that a row reaches."""
    assert row.us is not None
    return row.flops / row.us.median / 1e3 / peak


def lead(rows: list[Row]) -> float:
    """How many times as fast as the better template ours is."""
    us = {row.backend: row.us.median for row in rows if row.us is not None}
    return min(time for name, time in us.items() if name != OURS) / us[OURS]


def described(shape: Shape, rows: list[Row], stored_us: float, peak: float) -> str:
    """One line of the table."""
    texts: list[str] = []
    for row in rows:
        assert row.us is not None
        wrong = f" {row.failure}" if row.failure else ""
        texts.append(f"{row.backend} {1e3 * row.us.median:6.1f} ns {share(row, peak):5.2f}{wrong}")
        if row.backend == OURS:
            texts.append(f"multiply-adds {shape.flops / peak:6.1f} ns")
            texts.append(f"{STORES} {1e3 * stored_us:5.1f} ns")
            texts.append(f"roofline {row.roofline:5.2f}")
    return f"{shape!s:32s} " + "  ".join(texts)


def report(bench: HostBench, peak: float, rows: list[Row]) -> dict[str, Any]:
    """What `--json` writes, as `convir-bench` does."""
    command = " ".join(["python", "benchmarks/grouped_conv1d.py", *sys.argv[1:]])
    version = subprocess.run(
        [COMPILER[0], "--version"], check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]
    environment = {
        **bench.describe(),
        "command": command,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "compiler": version,
    }
    return {
        "environment": environment,
        "ceilings": {"f32": {"gflops": peak}},
        "rows": [row.record() for row in rows],
    }


if __name__ == "__main__":
    main()
