"""Whole neural amp models as streams: two seconds of sound in blocks of 64 frames.

    python benchmarks/nam.py FOLDER_OF_MODELS --json FILE
    python benchmarks/nam.py FOLDER_OF_MODELS --device cuda --json FILE

One row a model: the time of two seconds of sound at 48 kHz, block by block, each a call from
`prepare`, and the share of the multiply-add peak, measured in the same run, that the convolutions'
own multiplications reach: biases, activations and what a call costs beside them count as lost time.
`call` is what a block given alone to `process` costs more than one of many, `prepared` the same of
a call from `prepare`.
`cold` and `warm` are what opening a stream takes as the first thing that a process does, which
imports the compiler where it is needed, the first with an empty cache. Python's byte code is there,
as where a package is installed. Where
NAME.expected.npy lies beside a model and input.npy in the folder, `error` is the largest difference
over max(1, peak). Exit status 1 if one is past the tolerance.

On the host that is one thread. On a GPU times are events around all blocks, which lie there, and
neither the peak nor the opening of a stream is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from convir.api.stream import stream
from convir.dialects.conv.ops import FpropOp
from convir.frontends.nam.importer import import_nam
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.bench.timing import measure
from convir.runtime.devices import CUDA, HOST
from convir.runtime.host.fma_peak import fma_gflops

if TYPE_CHECKING:
    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import SSAValue

FRAMES = 64
RATE = 48000
SECONDS = 2
BLOCKS = SECONDS * RATE // FRAMES
TOLERANCE = 2e-6
MS_PER_S = 1e3
US_PER_MS = 1e3

NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
OPEN = """
import sys, time
from convir.api.stream import stream
begin = time.perf_counter()
stream(sys.argv[1])
print(time.perf_counter() - begin)
"""


@dataclass(frozen=True)
class Row:
    """One model, measured."""

    model: str
    ms: dict[str, float]
    """Of two seconds of sound, block by block."""
    flops: int
    """Multiplications and additions of the convolutions in that time."""
    peak_share: float | None
    call_us: float
    prepared_us: float
    cold_ms: float | None
    warm_ms: float | None
    error: float | None


def flops_of(path: Path) -> int:
    """What the convolutions of a block multiply and add."""
    module = import_nam(path, frames=FRAMES)
    return sum(
        2 * prod(_shape(op.results[0])) * prod(_shape(op.operands[1])[1:])
        for op in module.walk()
        if isinstance(op, FpropOp)
    )


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Any]", value.type).get_shape()


def opening_ms(path: Path, repeats: int) -> tuple[float, float]:
    """What opening a stream takes in a process of its own, with an empty cache and with a full one:
    medians."""
    cold: list[float] = []
    warm: list[float] = []
    with tempfile.TemporaryDirectory() as bytecode:
        with tempfile.TemporaryDirectory() as cache:
            _opened(path, cache, bytecode)
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                for samples in (cold, warm):
                    samples.append(_opened(path, cache, bytecode) * MS_PER_S)
    return median(cold), median(warm)


def _opened(path: Path, cache: str, bytecode: str) -> float:
    """Seconds that opening a stream takes in a new process. As after an installation, modules need
    not be compiled again: their byte code is kept in the folder `bytecode`."""
    environment = {name: text for name, text in os.environ.items() if name != NO_BYTECODE}
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "CONVIR_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": bytecode},
    )
    return float(done.stdout)


def measured(path: Path, bench: Any, options: argparse.Namespace) -> Row:
    """One model's row."""
    on_gpu = options.device == CUDA
    model = stream(path, frames=FRAMES, device=options.device)
    error = _error(path, model)
    arrays: Any = import_module("cupy" if on_gpu else "numpy")
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, FRAMES * BLOCKS).astype(np.float32)
    x = arrays.asarray(sound)
    y = arrays.empty_like(x)
    blocks = [(x[i : i + FRAMES], y[i : i + FRAMES]) for i in range(0, len(x), FRAMES)]

    def block_by_block() -> None:
        for block, out in blocks:
            model.process(block, out)

    prepared = [model.prepare(block, out) for block, out in blocks]

    def calls_alone() -> None:
        for call in prepared:
            call()

    calls = {
        "blocks": block_by_block,
        "prepared": calls_alone,
        "at once": lambda: model.process(x, y),
    }
    times = measure(calls, bench.clock, options.budget)
    ours, at_once = times["prepared"], times["at once"]
    flops = flops_of(path) * BLOCKS
    cold, warm = (None, None) if on_gpu else opening_ms(path, options.repeats)
    return Row(
        model=path.stem,
        ms={name: getattr(ours, name) / US_PER_MS for name in ("median", "p20", "p80")},
        flops=flops,
        peak_share=None if on_gpu else flops / (ours.median * 1e3) / fma_gflops("f32", 1),
        call_us=(times["blocks"].median - at_once.median) / BLOCKS,
        prepared_us=(ours.median - at_once.median) / BLOCKS,
        cold_ms=cold,
        warm_ms=warm,
        error=error,
    )


def _error(path: Path, model: Any) -> float | None:
    sound, expected = path.parent / "input.npy", path.with_suffix(".expected.npy")
    if not sound.exists() or not expected.exists():
        return None
    wanted = np.load(expected)
    heard = model.process(np.load(sound))
    heard = heard.get() if hasattr(heard, "get") else heard
    return float(np.abs(heard - wanted).max() / max(1.0, np.abs(wanted).max()))


def main() -> int:
    """Measure every model."""
    parser = argparse.ArgumentParser(description="Time neural amp models as streams.")
    parser.add_argument("folder", type=Path, help="where the .nam files lie")
    parser.add_argument("--device", default=HOST, choices=(HOST, CUDA))
    parser.add_argument("--only", default="", help="models whose name holds this text")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for a model's calls")
    parser.add_argument("--repeats", type=int, default=1, help="processes that open a stream")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    paths = [p for p in sorted(options.folder.glob("*.nam")) if options.only in p.stem]
    if not paths:
        parser.error(f"{options.folder} has no such .nam files")
    bench: Any = gpu_or_exit() if options.device == CUDA else HostBench(1)
    ceilings: dict[str, float] = {}
    if options.device == HOST:
        ceilings["fma_gflops"] = fma_gflops("f32", 1)
        print(f"one thread, multiply-add peak {ceilings['fma_gflops']:.0f} GFLOP/s")
    names = ("ms", "of peak", "call us", "prepared", "cold ms", "warm ms")
    print(f"{'model':24s}" + "".join(f"{name:>9s}" for name in names) + "  error")
    rows: list[Row] = []
    for path in paths:
        row = measured(path, bench, options)
        rows.append(row)
        numbers = (
            (row.ms["median"], 2),
            (row.peak_share, 2),
            (row.call_us, 2),
            (row.prepared_us, 2),
            (row.cold_ms, 0),
            (row.warm_ms, 0),
        )
        cells = "".join("        -" if x is None else f"{x:9.{digits}f}" for x, digits in numbers)
        error = "-" if row.error is None else f"{row.error:.1e}"
        print(f"{row.model:24s}{cells}  {error}", flush=True)
    if options.json:
        command = shlex.join(["python", "benchmarks/nam.py", *sys.argv[1:]])
        report = {
            "environment": {**bench.describe(), "command": command},
            "ceilings": ceilings,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(f"{json.dumps(report, indent=1)}\n", encoding="utf-8")
    return int(any(row.error is not None and not row.error <= TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
