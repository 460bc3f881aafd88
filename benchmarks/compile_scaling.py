"""How compile time and memory grow with the size of a program.

    python benchmarks/compile_scaling.py
    python benchmarks/compile_scaling.py --kinds chain,random --sizes 1000,16000 --tools convir-opt
    python benchmarks/compile_scaling.py --json compile_scaling.json

Functions of each kind in `convir.runtime.bench.program_shapes` go through `convir.compile` with
`device="host"` and through `convir-opt --pipeline default`, each in a process of its own with an
empty cache folder. Time is what the process takes of all processors (user and system), which
others on the machine disturb least; memory is its peak resident set, as `wait4` reports it. The
figures are above those of an empty program of the same kind, over the number of operations, medians
of `--repeats`. `growth` compares the largest size with 1000 operations, or the nearest above: the
exit status is 1 if a figure per operation grows past 1.5 times, or if anything fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from convir.runtime.bench.program_shapes import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIZES = (250, 1000, 4000, 16000)
COMPARED = 1000
"""Operations of the program that the largest one is compared with."""
BAR = 1.5
"""The most that time and memory per operation may grow by."""
LEAST_MIB = 1.0
"""Peaks of two runs of one program differ by so much: below it, memory does not grow."""
KIB_PER_MIB = 1024
US_PER_S = 1e6

COMPILE = """
import sys
import convir
convir.compile(sys.argv[1], device="host")
"""

TOOLS: dict[str, Callable[[str], list[str]]] = {
    "convir-opt": lambda file: [
        str(Path(sys.executable).parent / "convir-opt"),
        "--pipeline",
        "default",
        file,
    ],
    "compile": lambda file: [sys.executable, "-c", COMPILE, file],
}
"""The command of each tool for a file."""


class FailedError(Exception):
    """A run failed, with what it said."""


@dataclass(frozen=True)
class Usage:
    """What a process took."""

    seconds: float
    """Of all processors."""
    mib: float
    """At its peak."""


def run_once(command: Sequence[str], limit_s: float) -> Usage:
    """What one run takes.

    Raises:
        FailedError: it fails, or takes longer than `limit_s`.
    """
    # An installed package has its bytecode.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile() as errors:
        environment = {**inherited, "CONVIR_CACHE_DIR": cache, "CONVIR_PROGRAM_CACHE": "0"}
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, env=environment
        )
        end = time.monotonic() + limit_s
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                process.kill()
                process.wait()
                raise FailedError(f"longer than {limit_s:g} s")
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            raise FailedError(said[-1] if said else f"exit status {process.returncode}")
    return Usage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / KIB_PER_MIB)


def run_often(command: Sequence[str], repeats: int, limit_s: float) -> Usage:
    """The medians of some runs.

    Raises:
        FailedError: one of them fails.
    """
    runs = [run_once(command, limit_s) for _ in range(repeats)]
    return Usage(median(run.seconds for run in runs), median(run.mib for run in runs))


def measure(
    kind: str, tool: str, sizes: Sequence[int], repeats: int, limit_s: float
) -> list[dict[str, Any]]:
    """A row for each size, printed as it comes."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:

        def usage(ops: int) -> Usage:
            file = Path(folder, f"{ops}.mlir")
            file.write_text(KINDS[kind](ops), encoding="utf-8")
            return run_often(TOOLS[tool](str(file)), repeats, limit_s)

        usage(0)  # and what the first run of all imports from a disk
        empty = usage(0)
        for ops in sizes:
            row: dict[str, Any] = {"kind": kind, "tool": tool, "ops": ops}
            rows.append(row)
            try:
                whole = usage(ops)
            except FailedError as exc:
                row["failure"] = str(exc)
                print(f"{kind:<15}{tool:<12}{ops:>7}  {exc}", flush=True)
                continue
            row["seconds"] = whole.seconds - empty.seconds
            row["mib"] = whole.mib - empty.mib
            row["us_per_op"] = row["seconds"] * US_PER_S / ops
            row["kib_per_op"] = row["mib"] * KIB_PER_MIB / ops
            print(
                f"{kind:<15}{tool:<12}{ops:>7}{row['seconds']:>10.2f}{row['mib']:>9.1f}"
                f"{row['us_per_op']:>11.0f}{row['kib_per_op']:>10.2f}",
                flush=True,
            )
    return rows


def growth(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of the largest size over those of the one it is compared with."""
    *smaller, most = rows
    least = next((row for row in smaller if row["ops"] >= COMPARED), rows[0])
    result = {key: most[key] for key in ("kind", "tool")} | {"ops": [least["ops"], most["ops"]]}
    if "failure" in least or "failure" in most:
        return result | {"time": None, "memory": None}
    floor = LEAST_MIB * KIB_PER_MIB / least["ops"]
    return result | {
        "time": most["us_per_op"] / least["us_per_op"],
        "memory": most["kib_per_op"] / max(least["kib_per_op"], floor),
    }


def _names(text: str, known: Sequence[str]) -> list[str]:
    """The names in a list with commas, each of which has to be known."""
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"unknown '{name}'; known: {', '.join(known)}")
    return names


def main() -> int:
    """Print a row for each program, and how the figures grow."""
    parser = argparse.ArgumentParser(description="How compiling grows with the program.")
    parser.add_argument("--kinds", type=lambda text: _names(text, [*KINDS]), default=[*KINDS])
    parser.add_argument("--tools", type=lambda text: _names(text, [*TOOLS]), default=[*TOOLS])
    parser.add_argument(
        "--sizes", type=lambda text: sorted(map(int, text.split(","))), default=list(SIZES)
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs of each program (3)")
    parser.add_argument("--limit", type=float, default=600, help="seconds that a run may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    environment: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "command": shlex.join(["python", *sys.argv]),
    }
    print(f"{environment['cores']} CPUs, load {environment['load']:.1f}\n")
    print(f"{'kind':<15}{'tool':<12}{'ops':>7}{'CPU s':>10}{'MiB':>9}{'us an op':>11}{'KiB':>10}")
    tables = [
        measure(kind, tool, options.sizes, options.repeats, options.limit)
        for kind in options.kinds
        for tool in options.tools
    ]
    grown = [growth(rows) for rows in tables]
    print(f"\nper operation, at most {BAR} times\n{'kind':<15}{'tool':<12}{'time':>8}{'memory':>8}")
    for row in grown:
        figures = (row["time"], row["memory"])
        cells = "".join(f"{'failed' if x is None else f'{x:.2f}':>8}" for x in figures)
        print(f"{row['kind']:<15}{row['tool']:<12}{cells}")
    if options.json is not None:
        rows = [row for table in tables for row in table]
        report = {"environment": environment, "rows": rows, "growth": grown}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    figures = [row[what] for row in grown for what in ("time", "memory")]
    return int(any(x is None or x > BAR for x in figures))


if __name__ == "__main__":
    raise SystemExit(main())
