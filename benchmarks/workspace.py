"""The memory of ResNet-50 on a large batch, as planned and as the process uses it, under budgets.

    python benchmarks/workspace.py --batch 256 --size 64 --json FILE

One row a budget: the bytes of the arena that the plan has, the most that the process's resident
memory grows by in the first call (the arena, pages of the results, and the table of launches), and
the largest difference from onnxruntime over the largest output. Exit status 1 if a plan exceeds its
budget, or a difference its tolerance.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from convir.api.compile import compile as compile_module
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.peers.onnx_networks import resnet50

MIB = 1 << 20
BUDGETS = (None, 256 * MIB, 64 * MIB, 16 * MIB)
TOLERANCE = 2e-5
"""Of the largest output: sums of up to 4608 products, some 50 layers deep."""


def main() -> int:
    """Measure every budget."""
    parser = argparse.ArgumentParser(description="Compare planned memory with used memory.")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=64, help="rows and columns of the images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shape = (options.batch, 3, options.size, options.size)
    bench = HostBench(options.threads)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        import_module("onnx").save(resnet50(), path)
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        expected = _by_onnxruntime(path, x)
        rows = [_measured(path, x, expected, budget, options.threads) for budget in BUDGETS]
    if options.json:
        command = shlex.join(["python", "benchmarks/workspace.py", *sys.argv[1:]])
        environment = {**bench.describe(), "command": command, "network": "resnet50", "x": shape}
        text = json.dumps({"environment": environment, "rows": rows}, indent=1)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    within = all(row["budget"] is None or row["planned"] <= row["budget"] for row in rows)
    return int(not within or any(not row["error"] <= TOLERANCE for row in rows))


def _measured(path: Path, x: Any, expected: Any, budget: int | None, threads: int) -> Any:
    program = compile_module(
        path, device="host", shapes=[x.shape], threads=threads, workspace_bytes=budget
    )
    planned = program.program.arena_bytes
    (spec,) = program.outputs
    out = program.empty(spec)
    before = _resident(reset=True)
    program(x, out=out)
    used = _resident() - before
    error = float(abs(out - expected).max() / abs(expected).max())
    given = "none" if budget is None else f"{budget / MIB:.0f} MiB"
    print(
        f"budget {given:8s} planned {planned / MIB:7.1f} MiB  used {used / MIB:7.1f} MiB  "
        f"error {error:.1e}",
        flush=True,
    )
    return {
        "suite": "workspace",
        "line": f"resnet50 {'x'.join(map(str, x.shape))} f32",
        "backend": "convir",
        "budget": budget,
        "planned": planned,
        "used": used,
        "error": error,
        "tolerance": TOLERANCE,
    }


def _by_onnxruntime(path: Path, x: Any) -> Any:
    runtime = import_module("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def _resident(*, reset: bool = False) -> int:
    """The bytes that this process has had resident at most since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    sys.exit(main())
