"""How long compiling one convolution takes, cold and warm, and what a call costs beside kernels.

    python benchmarks/compile_time.py
    python benchmarks/compile_time.py --repeats 9 --json compile_time.json
    python benchmarks/compile_time.py --repeats 3 --networks
    python benchmarks/compile_time.py --repeats 3 --networks --only vgg19

Every compile is a process of its own. Cold means an empty cache folder, warm the folder that the
process before has filled. Times are those of `convir.compile` on the text of one convolution, in
three settings: as the first thing that a process does (which imports the compiler where it is
needed), with the compiler imported before, and once more in the same process. `process` is the
wall time of the whole process with Python's start and `import convir`, and one call. Of a network,
`warm` is the second process, and `onnxruntime` what an `InferenceSession` of one thread takes to
open the same file, in turns with it; both without their imports.

A call is that of a program with one kernel of four elements, so that nearly all of it is overhead:
borders, allocation, and the launch. Medians of all repeats, of calls in batches.
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
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

from convir.runtime.bench.peers import onnx_networks as networks

if TYPE_CHECKING:
    from collections.abc import Sequence

    Shapes: TypeAlias = Sequence[Sequence[int]]

LINES = (
    "conv -n 1 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1",
    "conv -n 4 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2",
    "conv -n 8 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -F 4",
)
"""A forward, a strided backward data and a backward weight convolution."""

NETWORKS = (
    ("resnet50", (1, 3, 224, 224)),
    ("efficientnet_b0", (1, 3, 224, 224)),
    ("densenet121", (1, 3, 224, 224)),
    ("convnext_tiny", (1, 3, 224, 224)),
    ("vgg19", (1, 3, 224, 224)),
    ("centerface", (1, 3, 480, 640)),
)

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"

MS_PER_S = 1e3

COMPILE = """
import json, sys, time
begin = time.perf_counter()
from convir.api.compile import compile
if sys.argv[2] == "loaded":
    import convir.api.build, convir.passes.pipelines, convir.runtime.host.planner
imported = time.perf_counter()
shapes = json.loads(sys.argv[3])
executable = compile(sys.argv[1], device="host", shapes=shapes)
compiled = time.perf_counter()
compile(sys.argv[1], device="host", shapes=shapes)
again = time.perf_counter()
executable(*[executable.empty(spec) for spec in executable.inputs])
print(json.dumps({"compile": compiled - imported, "again": again - compiled}))
"""

PEER = """
import json, sys, time
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 1, 4
begin = time.perf_counter()
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(json.dumps({"open": time.perf_counter() - begin}))
"""

CALL = """
import json, sys, time
import numpy as np
from convir.api.compile import compile
text = '''
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}'''
BATCH, BATCHES = 1000, 50
x, out = np.ones(4, np.float32), np.empty(4, np.float32)
seconds = {}
for threads in (1, None):
    executable = compile(text, pipeline="", device="host", threads=threads)
    calls = {"": lambda: executable(x, x), " into out": lambda: executable(x, x, out=out)}
    for name, call in calls.items():
        samples = []
        for _ in range(BATCHES):
            begin = time.perf_counter()
            for _ in range(BATCH):
                call()
            samples.append((time.perf_counter() - begin) / BATCH)
        what = "one thread" if threads else "all cores"
        seconds[what + name] = sorted(samples)[BATCHES // 2]
print(json.dumps(seconds))
"""


def run(program: str, *arguments: str, cache: str) -> tuple[dict[str, float], float]:
    """What `program` prints as JSON, and the seconds that its process took."""
    # An installed package has its bytecode.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**inherited, "CONVIR_CACHE_DIR": cache},
    )
    return json.loads(done.stdout), time.perf_counter() - begin


def measure(file: str, repeats: int, shapes: Shapes = ()) -> dict[str, float]:
    """The medians for one convolution, or for a model with inputs of `shapes`, in ms."""
    samples: dict[str, list[float]] = {}
    given = json.dumps(shapes)

    def keep(name: str, seconds: float) -> None:
        samples.setdefault(name, []).append(seconds * MS_PER_S)

    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            times, process = run(COMPILE, file, "loaded", given, cache=cache)
            keep("cold, compiler imported", times["compile"])
        with tempfile.TemporaryDirectory() as cache:
            times, process = run(COMPILE, file, "", given, cache=cache)
            keep("cold", times["compile"])
            keep("cold process", process)
            times, process = run(COMPILE, file, "", given, cache=cache)
            keep("warm", times["compile"])
            keep("warm process", process)
            keep("again", times["again"])
        if shapes:
            times, _ = run(PEER, file, cache=cache)
            keep("onnxruntime", times["open"])
    return {name: median(values) for name, values in samples.items()}


def text_of(line: str) -> str:
    """The module of a MIOpenDriver line."""
    command = [str(Path(sys.executable).parent / "convir-import"), f"{line} {NHWC}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def environment() -> dict[str, Any]:
    """Where this ran."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "command": shlex.join(["python", "benchmarks/compile_time.py", *sys.argv[1:]]),
    }


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="How long compiling takes, and what a call costs.")
    parser.add_argument("--repeats", type=int, default=5, help="processes of each kind (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--networks", action="store_true", help="whole ONNX models too")
    parser.add_argument("--only", default="", metavar="TEXT", help="networks that hold TEXT")
    parser.add_argument("lines", nargs="*", default=LINES, help="MIOpenDriver lines")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(arguments.lines):
            file = Path(folder) / f"{number}.mlir"
            file.write_text(text_of(line))
            rows.append({"line": line, "ms": measure(str(file), arguments.repeats)})
        for name, shape in NETWORKS if arguments.networks else ():
            if arguments.only not in name:
                continue
            file = Path(folder) / f"{name}.onnx"
            import_module("onnx").save(networks.NETWORKS[name](), file)
            label = f"{name} {'x'.join(map(str, shape))}"
            rows.append({"line": label, "ms": measure(str(file), arguments.repeats, [shape])})
        calls, _ = run(CALL, cache=folder)
    where = environment()
    print(f"{where['cores']} CPUs, load {where['load']:.1f}\n\ncompile, ms")
    for row in rows:
        print(f"  {row['line']}")
        for name, value in row["ms"].items():
            print(f"    {name:<26}{value:9.1f}")
    print("\ncall of one kernel on 4 elements, us")
    for name, value in calls.items():
        print(f"    {name:<26}{value * 1e6:9.1f}")
    if arguments.json is not None:
        microseconds = {name: value * 1e6 for name, value in calls.items()}
        report = {"environment": where, "rows": rows, "call_us": microseconds}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
