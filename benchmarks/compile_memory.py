"""How much memory stays in a process that compiles and drops one program after the other.

    python benchmarks/compile_memory.py
    python benchmarks/compile_memory.py --device cuda
    python benchmarks/compile_memory.py --programs 400

No two of the programs are equal: chains of element-wise ops, sums, products of matrices, and
convolutions in three directions, each of other sizes. Each is compiled, called once and dropped;
no program comes from a cache. The first hundred bring what stays for good: modules, tables, pools.
What is printed is the growth behind them: of the process's resident memory, and on a GPU of the
device memory in use too (another process on the GPU disturbs that).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import tempfile
import time
from itertools import count, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

WARM_UP = 100
"""Programs whose memory is not counted."""
PROGRAMS = 1000
STEPS = 10
"""How many figures are printed of the programs behind the first."""

MIB = 1 << 20

CHAIN = """
func.func @main(%x: tensor<3xNxf32>, %y: tensor<3xNxf32>) -> tensor<3xNxf32> {
  %0 = arith.addf %x, %y : tensor<3xNxf32>
  %1 = math.exp %0 : tensor<3xNxf32>
  %2 = arith.mulf %1, %x : tensor<3xNxf32>
  return %2 : tensor<3xNxf32>
}
"""
SUM = """
func.func @main(%x: tensor<5xNxf32>) -> tensor<5xf32> {
  %zero = arith.constant dense<0.0> : tensor<5xf32>
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<5xNxf32>) outs(%zero : tensor<5xf32>)
         dimensions = [1]
  return %0 : tensor<5xf32>
}
"""
# Large enough for a library's call from the first one on: the library stays loaded.
PRODUCT = """
func.func @main(%a: tensor<70xNxf32>, %b: tensor<Nx90xf32>) -> tensor<70x90xf32> {
  %zero = arith.constant dense<0.0> : tensor<70x90xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<70xNxf32>, tensor<Nx90xf32>)
         outs(%zero : tensor<70x90xf32>) -> tensor<70x90xf32>
  return %0 : tensor<70x90xf32>
}
"""
LINE = "conv -n 1 -c 4 -H N -W 6 -k 3 -y 3 -x 3 -p 1 -q 1 --in_layout NHWC --fil_layout NHWC"
FORWARD, DATA, WEIGHT = (f"{LINE} --out_layout NHWC -F {direction}" for direction in (1, 2, 4))
KINDS = (CHAIN, SUM, PRODUCT, FORWARD, DATA, WEIGHT)
FIRST_SIZE = 8
SIZES = 1009
"""Sizes that programs have in turn. It is a prime, and they come in steps of `STRIDE`: so the first
hundred programs are small and large ones, for which a library loads all of its kernels."""
STRIDE = 389


def programs() -> Iterator[Any]:
    """Texts and modules of ever new programs."""
    from convir.frontends.conv_module import module_of_line  # noqa: PLC0415  (after the setting)
    from convir.frontends.miopen import parse_line  # noqa: PLC0415

    for number, kind in zip(count(), cycle(KINDS), strict=False):
        round_, turn = divmod(number, SIZES)
        size = FIRST_SIZE + SIZES * round_ + STRIDE * turn % SIZES
        text = kind.replace("N ", f"{size} ") if kind.startswith("conv") else kind
        if text is kind:
            yield kind.replace("xN", f"x{size}").replace("<N", f"<{size}")
        else:
            yield module_of_line(parse_line(text))


def compile_and_drop(program: Any, device: str) -> None:
    """Compile a program and call it once."""
    from convir.api.compile import compile as convir_compile  # noqa: PLC0415  (after the setting)

    executable = convir_compile(program, device=device)
    executable(*map(executable.empty, executable.inputs))


def resident_bytes() -> int:
    """The memory of the process, without what its allocator could give back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def device_bytes() -> int:
    """The memory of the current GPU that is in use, without what CuPy keeps for later."""
    from convir.runtime.cuda.toolkit import cupy  # noqa: PLC0415

    cupy().get_default_memory_pool().free_all_blocks()
    free, total = cupy().cuda.runtime.memGetInfo()
    return total - free


def measure(device: str, total: int) -> dict[str, Any]:
    """The bytes that stay behind the first programs, for each count of programs."""
    memories = {"process": resident_bytes}
    if device != "host":
        memories["gpu"] = device_bytes
    begin = time.perf_counter()
    rows: list[dict[str, float]] = []
    source = programs()
    for program in islice(source, WARM_UP):
        compile_and_drop(program, device)
    first = {name: size() for name, size in memories.items()}
    for step in range(1, STEPS + 1):
        before, after = ((total - WARM_UP) * i // STEPS for i in (step - 1, step))
        for program in islice(source, after - before):
            compile_and_drop(program, device)
        rows.append(
            {
                "programs": WARM_UP + after,
                "seconds": time.perf_counter() - begin,
                **{name: size() - first[name] for name, size in memories.items()},
            }
        )
    return {"device": device, "first_bytes": first, "rows": rows}


def main() -> int:
    """Print the growth, in MiB."""
    parser = argparse.ArgumentParser(description="What stays of programs that were dropped.")
    parser.add_argument("--device", default="host", help="host, cuda or cuda:INDEX (host)")
    parser.add_argument("--programs", type=int, default=PROGRAMS, help=f"how many ({PROGRAMS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the bytes to FILE")
    arguments = parser.parse_args()
    if arguments.programs <= WARM_UP:
        parser.error(f"the first {WARM_UP} programs are not counted: --programs is more than that")
    os.environ["CONVIR_PROGRAM_CACHE"] = "0"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CONVIR_CACHE_DIR"] = cache
        report = measure(arguments.device, arguments.programs)
    firsts = ", ".join(f"{name} {size / MIB:.1f}" for name, size in report["first_bytes"].items())
    print(f"MiB after the first {WARM_UP} programs: {firsts}; and beyond that after")
    for row in report["rows"]:
        grown = (f"{name} {row[name] / MIB:+8.2f}" for name in report["first_bytes"])
        print(f"  {row['programs']:6} programs, {row['seconds']:6.1f} s: {', '.join(grown)}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
