"""How fast `convir-opt` is beside `iree-opt` and `xdsl-opt`: `python benchmarks/opt_speed.py`.

Three tables, on this machine and in this run:

- whole runs of `canonicalize,cse` on a generated module of linalg, tensor and arith operations:
  wall time and peak memory of each tool, start-up, parsing and printing included;
- how the time of `convir-opt`'s two passes, by its `--timing`, grows with ten times the operations;
- the pipeline `backward-data` on an example, beside `iree-opt`'s pipeline of the same name.

Tools take turns, and every figure is the median of several runs: wall time from start to exit, in
seconds; peak resident memory of the process and its children, in MiB, as `wait4` reports it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "backward_data_1x1.mlir"
KIB_PER_MIB = 1024
MS_PER_S = 1000
GROWTH = 10
"""The passes are timed on a module and on one this many times as large."""

OPS_PER_BLOCK = 24
"""Operations in `_BLOCK`, bodies and terminators included."""

# Each block scatters one tensor, sums it with the sum so far and slices the result back. It
# computes some things twice and some for nothing, and has identities to fold, so that both passes
# have work; its own constants keep what remains apart from every other block's.
_BLOCK = """\
  %c{i} = arith.constant {i} : index
  %one{i} = arith.constant 1 : index
  %j{i} = arith.muli %c{i}, %one{i} : index
  %k{i} = arith.addi %n, %j{i} : index
  %l{i} = arith.addi %n, %j{i} : index
  %m{i} = arith.muli %k{i}, %l{i} : index
  %dead{i} = arith.subi %m{i}, %n : index
  %x{i} = arith.index_cast %m{i} : index to i32
  %f{i} = arith.sitofp %x{i} : i32 to f32
  %zero{i} = arith.constant 0.000000e+00 : f32
  %empty{i} = tensor.empty() : {large}
  %fill{i} = linalg.fill ins(%zero{i} : f32) outs(%empty{i} : {large}) -> {large}
  %whole{i} = tensor.extract_slice %a{p}[0, 0] [4, 8] [1, 1] : {small} to {small}
  %put{i} = tensor.insert_slice %whole{i} into %fill{i}[1, 0] [4, 8] [1, 2] : {small} into {large}
  %again{i} = tensor.insert_slice %a{p} into %fill{i}[1, 0] [4, 8] [1, 2] : {small} into {large}
  %sum{i} = linalg.generic {{{loops}}}
    ins(%put{i}, %again{i} : {large}, {large}) outs(%empty{i} : {large}) {{
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %s = arith.addf %in, %in_0 : f32
    %t = arith.mulf %s, %f{i} : f32
    linalg.yield %t : f32
  }} -> {large}
  %flat{i} = tensor.collapse_shape %sum{i} [[0, 1]] : {large} into {flat}
  %back{i} = tensor.expand_shape %flat{i} [[0, 1]] output_shape [8, 16] : {flat} into {large}
  %copy{i} = tensor.extract_slice %sum{i}[0, 0] [8, 16] [1, 1] : {large} to {large}
  %a{i} = tensor.extract_slice %back{i}[2, 4] [4, 8] [1, 1] : {large} to {small}
  %unused{i} = tensor.extract_slice %copy{i}[2, 4] [4, 8] [1, 1] : {large} to {small}
"""


_SPELLED = {
    "small": "tensor<4x8xf32>",
    "large": "tensor<8x16xf32>",
    "flat": "tensor<128xf32>",
    "loops": "indexing_maps = ["
    + ", ".join(["affine_map<(d0, d1) -> (d0, d1)>"] * 3)
    + '], iterator_types = ["parallel", "parallel"]',
}


@dataclass(frozen=True)
class Run:
    """The medians of several runs of one command."""

    seconds: float
    mib: float


def module_of(ops: int) -> str:
    """A module of one function with about `ops` operations of linalg, tensor and arith."""
    blocks = max(1, ops // OPS_PER_BLOCK)
    body = "".join(_BLOCK.format(i=i, p=i - 1, **_SPELLED) for i in range(1, blocks + 1))
    return (
        "func.func @main(%a0: tensor<4x8xf32>, %n: index) -> tensor<4x8xf32> {\n"
        f"{body}  return %a{blocks} : tensor<4x8xf32>\n}}\n"
    )


def run_once(command: Sequence[str], stderr: int = subprocess.DEVNULL) -> tuple[float, float]:
    """Wall seconds and peak MiB of one run.

    Raises:
        RuntimeError: the command fails.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"exit {process.returncode}: {' '.join(command)}")
    return seconds, usage.ru_maxrss / KIB_PER_MIB


def run_in_turns(commands: Sequence[Sequence[str]], repeats: int) -> list[Run]:
    """The medians of `repeats` rounds in which each command runs once, after one to warm up."""
    samples: list[list[tuple[float, float]]] = [[] for _ in commands]
    for turn in range(repeats + 1):
        for command, taken in zip(commands, samples, strict=True):
            sample = run_once(command)
            if turn > 0:
                taken.append(sample)
    return [Run(median(s for s, _ in taken), median(m for _, m in taken)) for taken in samples]


def pass_seconds(file: Path, repeats: int) -> float:
    """The median seconds of `canonicalize` and `cse` together, by `convir-opt --timing`."""
    command = [tool("convir-opt"), "-p", "canonicalize,cse", "--timing", str(file)]
    totals: list[float] = []
    for _ in range(repeats):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        totals.append(sum(seconds_in(done.stderr, name) for name in ("canonicalize", "cse")))
    return median(totals)


def seconds_in(report: str, pass_name: str) -> float:
    """The seconds on the line of `pass_name` in a `--timing` report, which is in milliseconds.

    Raises:
        ValueError: there is no such line.
    """
    match = re.search(rf"^pass \d+ {pass_name} +([0-9.]+) ", report, re.MULTILINE)
    if match is None:
        raise ValueError(f"no time for {pass_name} in: {report}")
    return float(match[1]) / MS_PER_S


def tool(name: str) -> str:
    """The path of a tool installed beside the running Python."""
    return str(Path(sys.executable).parent / name)


def print_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print `rows`, the first being the head, in aligned columns under `title`."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"\n{title}")
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells))


def compare_whole_runs(file: Path, ops: int, repeats: int) -> None:
    """Print the table of whole runs of `canonicalize,cse`."""
    commands = {
        "convir-opt": [tool("convir-opt"), "-p", "canonicalize,cse", str(file)],
        "xdsl-opt": [tool("xdsl-opt"), "-p", "canonicalize,cse", str(file)],
        "iree-opt": [tool("iree-opt"), "--canonicalize", "--cse", str(file)],
    }
    print_runs(f"canonicalize,cse on {ops} operations, whole runs", commands, repeats)


def compare_pipelines(file: Path, repeats: int) -> None:
    """Print the table of `backward-data` on one file."""
    iree_pipeline = "builtin.module(iree-preprocessing-backward-data-conv-pipeline)"
    commands = {
        "convir-opt": [tool("convir-opt"), "--pipeline", "backward-data", str(file)],
        "iree-opt": [tool("iree-opt"), f"--pass-pipeline={iree_pipeline}", str(file)],
    }
    print_runs(f"backward-data on {file.name}, whole runs", commands, repeats)


def print_runs(title: str, commands: dict[str, list[str]], repeats: int) -> None:
    """Run the commands in turns and print a row for each, with ratios to the first."""
    runs = run_in_turns(list(commands.values()), repeats)
    rows = [("tool", "seconds", "convir / tool", "peak MiB")]
    rows += [
        (name, f"{run.seconds:.3f}", f"{runs[0].seconds / run.seconds:.2f}", f"{run.mib:.0f}")
        for name, run in zip(commands, runs, strict=True)
    ]
    print_table(title, rows)


def print_growth(folder: Path, ops: int, repeats: int) -> None:
    """Print how the passes' time grows from `ops / GROWTH` to `ops` operations."""
    rows = [("operations", "seconds in passes", "us an operation")]
    seconds: list[float] = []
    for size in (ops // GROWTH, ops):
        file = folder / f"{size}.mlir"
        file.write_text(module_of(size))
        seconds.append(pass_seconds(file, repeats))
        rows.append((str(size), f"{seconds[-1]:.3f}", f"{1e6 * seconds[-1] / size:.1f}"))
    print_table("canonicalize,cse, passes alone", rows)
    print(f"  {GROWTH} times the operations take {seconds[1] / seconds[0]:.1f} times the time")


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description="How fast convir-opt is beside iree-opt and xdsl-opt."
    )
    parser.add_argument("--ops", type=int, default=30_000, help="operations of the module")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command")
    parser.add_argument("--file", type=Path, default=EXAMPLE, help="input of backward-data")
    parser.add_argument("--emit", action="store_true", help="print the module and stop")
    arguments = parser.parse_args()
    if arguments.emit:
        print(module_of(arguments.ops), end="")
        return 0
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "module.mlir"
        file.write_text(module_of(arguments.ops))
        compare_whole_runs(file, arguments.ops, arguments.repeats)
        print_growth(folder, arguments.ops, arguments.repeats)
    compare_pipelines(arguments.file, arguments.repeats)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
