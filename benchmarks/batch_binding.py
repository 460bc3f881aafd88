"""What a new batch costs: binding it, and a loop over random batches beside the work itself.

    python benchmarks/batch_binding.py --device cuda --json batch-binding-h200.json
    python benchmarks/batch_binding.py --device host --batches 40

Each line of the suites becomes a function whose first sizes are open. Two batches are called, which
compiles the first one and waits for what binds others; then each of some random batches is bound
(`bind`) and run, and all are run again. `loop` is the time of the first pass over that of the
second: what new batches cost beside the same work. `compiled` counts the batches that were lowered.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import tempfile
import time
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, cast

from convir.api.build import Build
from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line
from convir.runtime.dynamic import DynamicExecutable

SUITES = ("fprop-batch", "retinanet-wgrad", "dgrad-3x3-strided", "grouped-1d", "transposed")
"""What is measured unless the command line says it."""
STAND_IN = 977
"""A batch that is no other size of a line."""
FIRST = 64
MS_PER_S = 1e3

_IMAGES = re.compile(r"(?<= -n )\d+")


def dynamic(line: str) -> str:
    """The function of a MIOpenDriver line for any batch, as text."""
    given = f"tensor<{STAND_IN}x"
    static = str(module_of_line(parse_line(_IMAGES.sub(str(STAND_IN), line))))
    text = static[static.index("func.func") :].rsplit("}", 1)[0]
    head, body = text.split("{\n", 1)
    name, declared = head[head.index("(") + 1 :].split(",")[0].split(": ")
    size = f"%z = arith.constant 0 : index\n%n = tensor.dim {name}, %z : {declared}\n"
    body = body.replace(f"tensor.empty() : {given}", f"tensor.empty(%n) : {given}")
    return f"{head}{{\n{size}{body}".replace(given, "tensor<?x")


def measured(line: str, device: str, batches: list[int]) -> dict[str, Any]:
    """The times of one line in ms."""
    program = convir_compile(dynamic(line), device=device, specialisations=len(batches) + 2)
    if not isinstance(program, DynamicExecutable):
        raise TypeError(f"{line} has no batch")
    finish: Any = (lambda: None) if device == "host" else _synchronize
    compiled: list[object] = []
    lower = Build.program

    def counted(self: Build, shapes: Any = None, early: Any = None) -> Any:
        compiled.append(shapes)
        return lower(self, shapes, early)

    def called(batch: int) -> float:
        bound = at(batch)
        arrays = [bound.empty(spec) for spec in bound.inputs]
        for array in arrays:
            array.fill(0)
        finish()
        start = time.perf_counter()
        bound(*arrays)
        finish()
        return time.perf_counter() - start

    def at(batch: int) -> Any:
        shapes = [tuple(batch if n < 0 else n for n in spec.shape) for spec in program.inputs]
        return program.specialised(*shapes)

    start = time.perf_counter()
    called(FIRST)
    first = time.perf_counter() - start
    called(FIRST + 1)
    Build.program = counted
    bind: list[float] = []
    run: list[float] = []
    for batch in batches:
        start = time.perf_counter()
        at(batch)
        bind.append(time.perf_counter() - start)
        run.append(called(batch))
    Build.program = lower
    again = [called(batch) for batch in batches]
    return {
        "first": first * MS_PER_S,
        "bind": median(bind) * MS_PER_S,
        "bind, most": max(bind) * MS_PER_S,
        "compiled": len(compiled),
        "work": sum(again) * MS_PER_S,
        "loop": (sum(bind) + sum(run)) / sum(again),
        "kernel": " + ".join(at(FIRST).program.summary(device.partition(":")[0])),
    }


def _synchronize() -> None:
    cast("Any", import_module("cupy")).cuda.Device().synchronize()


def main() -> int:
    """Print a line for each line."""
    parser = argparse.ArgumentParser(description="What a new batch costs.")
    parser.add_argument("--device", default="host")
    parser.add_argument("--commands-file", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--sample", type=int, default=12, help="so many lines, evenly spread (12)")
    parser.add_argument("--batches", type=int, default=200, help="random batches, 30 to 250 (200)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    own = [Path(__file__).parent / "suites" / f"{name}.txt" for name in SUITES]
    texts = [file.read_text(encoding="utf-8") for file in options.commands_file or own]
    lines = [line.strip() for text in texts for line in text.splitlines() if " -n " in line]
    count = min(options.sample, len(lines))
    lines = [lines[number * len(lines) // count] for number in range(count)]
    chosen = random.Random(0)
    batches = [chosen.randint(30, 250) for _ in range(options.batches)]
    rows: list[dict[str, Any]] = []
    for line in lines:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["CONVIR_CACHE_DIR"] = cache
            rows.append({"line": line, **measured(line, options.device, batches)})
        shown = ", ".join(
            f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in rows[-1].items()
        )
        print(shown, flush=True)
        if options.json is not None:
            where = {"machine": platform.machine(), "python": platform.python_version()}
            report = {"environment": {**where, "device": options.device}, "rows": rows}
            options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
