"""The strided scatter of a tensor into zeros beside NumPy: `python benchmarks/scatter.py`.

Ours is the generic that `convert-strided-insert-slice-to-generic` leaves, and the insert_slice as
it stands; NumPy's is a strided assignment to `zeros`. Both make a new array in every call, or
write over one, as `convir-bench` has it: NumPy then fills that with zeros itself. All take turns on
the same data. GB/s count the elements that are read and those that are written, once.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.api.compile import compile as convir_compile
from convir.runtime.bench.ceilings import host_ceilings
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.row import OURS, Ceilings, Row
from convir.runtime.bench.timing import measure

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16)}

PIPELINES = {"generic": "convert-strided-insert-slice-to-generic", "insert_slice": ""}


@dataclass(frozen=True)
class Scatter:
    """Channels-last images, every other pixel of a larger one; `offset` pixels in from its edge."""

    dtype: str
    shape: tuple[int, int, int, int]
    """Of the source: images, rows, columns, channels."""
    offset: int = 0

    @property
    def result(self) -> tuple[int, int, int, int]:
        """The shape of the result."""
        n, h, w, c = self.shape
        return n, 2 * h + 2 * self.offset, 2 * w + 2 * self.offset, c

    @property
    def text(self) -> str:
        """The scatter as MLIR."""
        source = f"tensor<{'x'.join(map(str, self.shape))}x{self.dtype}>"
        result = f"tensor<{'x'.join(map(str, self.result))}x{self.dtype}>"
        sizes = ", ".join(map(str, self.shape))
        return f"""func.func @main(%x: {source}) -> {result} {{
  %zeros = arith.constant dense<0.0> : {result}
  %s = tensor.insert_slice %x into %zeros[0, {self.offset}, {self.offset}, 0] [{sizes}] [1, 2, 2, 1]
    : {source} into {result}
  return %s : {result}
}}
"""

    @property
    def places(self) -> tuple[slice, ...]:
        """Where the source goes."""
        inside = slice(self.offset, -self.offset or None, 2)
        return (slice(None), inside, inside)

    @property
    def nbytes(self) -> int:
        """Bytes of the source and of the result."""
        return (prod(self.shape) + prod(self.result)) * DTYPES[self.dtype].itemsize


CASES = (
    Scatter("f32", (4, 14, 14, 64)),
    Scatter("f32", (4, 28, 28, 128)),
    Scatter("f32", (4, 28, 28, 128), offset=1),
    Scatter("f32", (8, 56, 56, 256)),
    Scatter("f16", (32, 25, 25, 2048)),
    Scatter("f32", (16, 128, 128, 3)),
)
"""From one that fits the second-level cache to one that no cache holds, the scatter of
`examples/backward_data_1x1.mlir`, and narrow pixels."""


def main() -> None:
    """Measure every case and print a table."""
    parser = argparse.ArgumentParser(description="Time strided scatters beside NumPy.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds per backend and case")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    bench = HostBench(options.threads)
    ceilings = host_ceilings("f32", options.threads)
    rows: list[Row] = []
    for case in CASES:
        of_case = measured(case, bench, ceilings, options.budget)
        rows += of_case
        numpy_us = next(row.us.median for row in of_case if row.us and row.config == "zeros")
        for row in of_case:
            assert row.us is not None
            print(
                f"{row.line:44s} {row.backend:7s} {row.config:18s} {row.us!s:>28s} µs "
                f"{row.gbytes:6.1f} GB/s {row.us.median / numpy_us:6.2f} of np.zeros's"
            )
    if options.json is not None:
        options.json.write_text(json.dumps(report(bench, ceilings, rows), indent=1) + "\n")


def measured(case: Scatter, bench: HostBench, ceilings: Ceilings, budget_s: float) -> list[Row]:
    """Rows of both of our forms and of NumPy."""
    source = np.random.default_rng(0).standard_normal(case.shape).astype(DTYPES[case.dtype])
    wanted = np.zeros(case.result, source.dtype)
    wanted[case.places] = source
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    for form, pipeline in PIPELINES.items():
        executable = convir_compile(case.text, pipeline, "host", threads=bench.threads)
        out = executable.empty(executable.outputs[0])
        calls[OURS, form] = lambda executable=executable: executable(source)
        calls[OURS, f"{form}, out="] = lambda executable=executable, out=out: executable(
            source, out=out
        )
    reused = np.empty_like(wanted)

    def new() -> Any:
        zeros = np.zeros(case.result, source.dtype)
        zeros[case.places] = source
        return zeros

    def over() -> Any:
        reused.fill(0)
        reused[case.places] = source
        return reused

    calls["numpy", "zeros"] = new
    calls["numpy", "fill"] = over
    names = {f"{backend} {config}": (backend, config) for backend, config in calls}
    timings = measure({name: calls[key] for name, key in names.items()}, bench.clock, budget_s)
    floor = ceilings.floor_us(0, case.nbytes)
    return [
        Row(
            suite="scatter",
            line=f"{case.dtype} {case.shape} offset {case.offset}",
            backend=names[name][0],
            layout="NHWC",
            config=names[name][1],
            weights="argument",
            us=timing,
            flops=0,
            nbytes=case.nbytes,
            floor_us=floor,
            failure=None if np.array_equal(calls[names[name]](), wanted) else "wrong",
        )
        for name, timing in timings.items()
    ]


def report(bench: HostBench, ceilings: Ceilings, rows: list[Row]) -> dict[str, Any]:
    """What `--json` writes, as `convir-bench` does."""
    command = " ".join(["python", "benchmarks/scatter.py", *sys.argv[1:]])
    environment = {
        **bench.describe(),
        "command": command,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    return {
        "environment": environment,
        "ceilings": {"f32": {"gflops": ceilings.gflops, "gbytes": ceilings.gbytes}},
        "rows": [row.record() for row in rows],
    }


if __name__ == "__main__":
    main()
