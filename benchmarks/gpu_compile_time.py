"""How long compiling for a GPU takes: with an empty cache, a prebuilt one, and in a second process.

    python benchmarks/gpu_compile_time.py --json compile-time-h200.json
    python benchmarks/gpu_compile_time.py --commands-file suite.txt --sample 40

Times are those of `convir.compile`, until the program can be called; the import of CuPy and CUDA's
context stand beside them, and the import of `convir`. Convolutions are compiled one after the other
by one process, after another one that warms it up:

- `empty cache`: nothing is there, NVRTC compiles every kernel;
- `prebuilt kernels`: `python -m convir.prebuild` has compiled the kernels, and passes choose them;
- `new batch`: the same convolutions with one image more, after those above;
- `second process`: programs come from the cache. There is no warm-up; `one` is the median of some
  processes that open one program each, which imports what opens it.

`--network` adds ResNet-50 in f16 as an ONNX model, compiled on all cores by a process of its own
with an empty cache, and opened by a second one; and `torch.compile` of the same layers, likewise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITES = ("fprop-batch", "retinanet-wgrad", "dgrad-3x3-strided", "grouped-1d", "transposed")
"""What is compiled unless the command line says it."""
BATCH = 32
FIRST = 5
"""Lines that a process of their own opens."""
WARM_UP = (
    "convfp16 -n 2 -c 96 -H 10 -W 10 -k 96 -y 3 -x 3 -p 1 -q 1 -F 1 "
    "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
)
_IMAGES = re.compile(r"(?<= -n )\d+")

MS_PER_S = 1e3

COMPILE = """
import json, sys, time
clock = time.perf_counter
begin = clock()
import cupy
imported = clock()
cupy.cuda.Device().use()
cupy.zeros(1)
cupy.cuda.Device().synchronize()
ready = clock()
from convir.api.compile import compile
own = clock()
job = json.load(sys.stdin)
shapes = job["shapes"]
for source in job["before"]:
    compile(source, device="cuda", shapes=shapes)
took, called = [], []
for source in job["sources"]:
    first = clock()
    executable = compile(source, device="cuda", shapes=shapes)
    took.append(clock() - first)
    executable(*[executable.empty(spec) for spec in executable.inputs])
    cupy.cuda.Device().synchronize()
    called.append(clock() - first)
libraries = open("/proc/self/maps").read()
print(json.dumps({
    "import cupy": imported - begin,
    "context": ready - imported,
    "import convir": own - ready,
    "compile": took,
    "called": called,
    "nvrtc": "libnvrtc.so" in libraries,
    "xdsl": "xdsl" in sys.modules,
}))
"""

TORCH = """
import json, sys, time
clock = time.perf_counter
begin = clock()
import torch
sys.path.insert(0, sys.argv[1])
from training_models import resnet
imported = clock()
torch.zeros(1, device="cuda")
torch.cuda.synchronize()
ready = clock()
with torch.inference_mode():
    model = resnet(1.0).eval().half().cuda().to(memory_format=torch.channels_last)
    x = torch.zeros(int(sys.argv[2]), 3, 224, 224, device="cuda", dtype=torch.half)
    x = x.contiguous(memory_format=torch.channels_last)
    torch.cuda.synchronize()
    first = clock()
    torch.compile(model)(x)
    torch.cuda.synchronize()
print(json.dumps({
    "import torch": imported - begin,
    "context": ready - imported,
    "called": [clock() - first],
}))
"""


def run(program: str, *arguments: str, job: Any = None, **environment: str) -> dict[str, Any]:
    """What a process prints as JSON, with the seconds that all of it took.

    Raises:
        RuntimeError: it failed.
    """
    # An installed package has its bytecode.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, **environment},
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return {**json.loads(done.stdout.splitlines()[-1]), "process": time.perf_counter() - begin}


def convolutions(lines: list[str], jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """All settings for some lines, each in ms."""
    more = [_IMAGES.sub(lambda found: str(int(found[0]) + 1), line) for line in lines]

    def compiled(sources: list[str], before: list[str], cache: str) -> dict[str, Any]:
        job = {"sources": sources, "before": before, "shapes": []}
        return in_ms(run(COMPILE, job=job, CONVIR_CACHE_DIR=cache))

    with tempfile.TemporaryDirectory() as cache:
        yield "empty cache", compiled(lines, [WARM_UP], cache)
        yield "second process", compiled(lines, [], cache)
        first = [compiled([line], [], cache) for line in lines[:FIRST]]
        yield "second process, one", {what: middle([x[what] for x in first]) for what in first[0]}
        yield "new batch", compiled(more, [WARM_UP, *lines], cache)
    with tempfile.TemporaryDirectory() as cache:
        suite = Path(cache) / "suite.txt"
        suite.write_text("\n".join(lines))
        ahead = [sys.executable, "-m", "convir.prebuild", "--commands-file", str(suite)]
        begin = time.perf_counter()
        environment = {**os.environ, "CONVIR_CACHE_DIR": cache}
        subprocess.run([*ahead, "--jobs", str(jobs)], check=True, env=environment)
        seconds = time.perf_counter() - begin
        shutil.rmtree(Path(cache) / "programs")
        found = compiled(lines, [WARM_UP], cache)
        yield "prebuilt kernels", {**found, "prebuild": seconds * MS_PER_S}


def network(repeats: int, *, peer: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """ResNet-50 in f16, ours and the peer's, in ms; medians of some processes each."""
    networks: Any = import_module("convir.runtime.bench.peers.onnx_networks")
    shape = [BATCH, 3, 224, 224]
    here = str(Path(__file__).parent)
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "resnet50.onnx"
        model = networks.in_element_type(networks.resnet50(), "f16")
        import_module("onnx").save(model, file)
        job = {"sources": [str(file)], "before": [], "shapes": [shape]}
        for number in range(repeats):
            caches = [str(Path(folder) / f"{name}{number}") for name in ("ours", "theirs")]
            theirs = {"TORCHINDUCTOR_CACHE_DIR": caches[1], "TRITON_CACHE_DIR": f"{caches[1]}t"}
            for setting in ("empty cache", "second process"):
                ours = run(COMPILE, job=job, CONVIR_CACHE_DIR=caches[0])
                found.setdefault(f"convir, {setting}", []).append(in_ms(ours))
                if peer:
                    torch = run(TORCH, here, str(BATCH), **theirs)
                    found.setdefault(f"torch.compile, {setting}", []).append(in_ms(torch))
    for name, runs in found.items():
        yield name, {what: middle([each[what] for each in runs]) for what in runs[0]}


def middle(values: Any) -> Any:
    """The median of numbers, or of the numbers in lists; of truths the first."""
    if isinstance(values[0], bool):
        return values[0]
    if isinstance(values[0], list):
        return [median(each) for each in zip(*values, strict=True)]
    return median(values)


def in_ms(found: dict[str, Any]) -> dict[str, Any]:
    """What a process said, its seconds as ms."""
    made: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, list):
            seconds = cast("list[float]", value)
            made[name] = [each * MS_PER_S for each in seconds]
        else:
            made[name] = value if isinstance(value, bool) else value * MS_PER_S
    return made


def show(name: str, found: dict[str, Any]) -> None:
    """Print one setting as a line."""
    lists: dict[str, list[float]] = {k: v for k, v in found.items() if isinstance(v, list)}
    of_list = [
        f"{what} median {median(values):.1f} most {max(values):.1f}"
        for what, values in lists.items()
    ]
    others = [
        f"{what} {value:.0f}" if not isinstance(value, bool) else f"{what} {value}"
        for what, value in found.items()
        if not isinstance(value, list)
    ]
    print(f"  {name:<30} {'; '.join((*of_list, *others))}", flush=True)


def environment() -> dict[str, Any]:
    """Where this ran."""
    cupy: Any = import_module("cupy")
    runtime = cupy.cuda.runtime
    versions: dict[str, str] = {}
    for package in ("cupy-cuda13x", "torch", "xdsl", "nvidia-cuda-nvrtc"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "driver": runtime.driverGetVersion(),
        "packages": versions,
        "command": " ".join(["python", "benchmarks/gpu_compile_time.py", *sys.argv[1:]]),
    }


def main() -> int:
    """Print the figures, and write them."""
    parser = argparse.ArgumentParser(description="How long compiling for a GPU takes.")
    parser.add_argument("--commands-file", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--sample", type=int, default=24, help="so many lines, evenly spread (24)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--network", type=int, default=0, metavar="N", help="ResNet-50, N times")
    parser.add_argument("--no-peer", action="store_true", help="without torch.compile")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    own = [Path(__file__).parent / "suites" / f"{name}.txt" for name in SUITES]
    texts = [file.read_text(encoding="utf-8") for file in options.commands_file or own]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    count = min(options.sample, len(lines))
    lines = [lines[number * len(lines) // count] for number in range(count)]
    where = environment()
    print(f"{where['gpu']}, {where['cores']} cores, load {where['load']:.1f}; ms")
    measured = {"convolutions": convolutions(lines, options.jobs)} if lines else {}
    if options.network:
        measured["resnet50 f16"] = network(options.network, peer=not options.no_peer)
    found: dict[str, Any] = {}
    for what, settings in measured.items():
        print(what)
        for name, times in settings:
            show(name, times)
            found.setdefault(what, {})[name] = times
            if options.json is not None:
                report = {"environment": where, "lines": lines, "ms": found}
                options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
