"""How far the CPU's elementwise functions are from exact ones, over all numbers of f32.

    python benchmarks/vector_functions.py [--step N] [--cpu host|x86-64-v3|x86-64] [NAME…]

For each function of `lowering/kernels/host/vector_functions`: the largest error of any of the 2^32
numbers, in units in the last place of the result in f32, infinite where an infinity, a NaN or the
sign of a zero is another one; where that is; and ns an element, in the second-level cache, the
least of several runs. `--step` tries every N-th number. The peers in f64 are PyTorch's (erfc) and
NumPy's. Powers, of two numbers each, are tried at random.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from elementary import EXACT, computed, in_f64, times_gate, units_off

CHUNK = 1 << 22
POWERS = 1 << 26
TIMED = 1 << 16


def _gelu(x: np.ndarray) -> np.ndarray:
    special: Any = torch.special
    tail: Any = special.erfc(torch.tensor(-x * math.sqrt(0.5)))
    return times_gate(x, np.asarray(tail) / 2)


def _nanoseconds(name: str, cpu: str) -> float:
    function = computed(name, cpu)
    x = np.random.default_rng(0).lognormal(0, 1, TIMED).astype(np.float32)
    times: list[float] = []
    for _ in range(200):
        start = time.perf_counter()
        function(x, x)
        times.append(time.perf_counter() - start)
    return min(times) / TIMED * 1e9


def _print(name: str, worst: float, where: str, cpu: str) -> None:
    print(f"{name:12s} {worst:8.3f}  at {where:32s} {_nanoseconds(name, cpu):6.3f} ns", flush=True)


def _one_operand(name: str, step: int, cpu: str) -> None:
    function = computed(name, cpu)
    exact = in_f64(_gelu) if name == "gelu" else EXACT[name]
    worst, where = -1.0, 0.0
    for begin in range(0, 1 << 32, CHUNK * step):
        bits = np.arange(begin, min(begin + CHUNK * step, 1 << 32), step)
        x = np.resize(bits, -(-len(bits) // 16) * 16).astype(np.uint32).view(np.float32)
        off = units_off(function(x), exact(x))
        place = int(np.argmax(off))
        if off[place] > worst:
            worst, where = float(off[place]), float(x[place])
    _print(name, worst, repr(np.float32(where)), cpu)


def _powers(step: int, cpu: str) -> None:
    function, exact = computed("math.powf", cpu), in_f64(np.power)
    numbers = np.random.default_rng(0)
    worst, where = -1.0, ""
    for number in range(max(1, POWERS // CHUNK // step)):
        x = numbers.integers(0, 1 << 32, CHUNK).astype(np.uint32).view(np.float32)
        if number % 2:
            x = numbers.lognormal(0, 1, CHUNK).astype(np.float32)
        y = numbers.uniform(-150, 150, CHUNK).astype(np.float32)
        y[::3] = np.round(y[::3])
        off = units_off(function(x, y), exact(x, y))
        place = int(np.argmax(off))
        if off[place] > worst:
            worst, where = float(off[place]), f"{x[place]!r}, {y[place]!r}"
    _print("math.powf", worst, where.replace("np.float32", ""), cpu)


def main() -> None:
    """Print a row for each function."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--cpu", default="host")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names or (*EXACT, "math.powf"):
        if name == "math.powf":
            _powers(options.step, options.cpu)
        else:
            _one_operand(name, options.step, options.cpu)


if __name__ == "__main__":
    main()
