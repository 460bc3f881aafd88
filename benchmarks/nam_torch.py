"""Neural amp models as streams on a GPU, beside PyTorch under a CUDA graph.

    python benchmarks/nam_torch.py FOLDER_OF_MODELS --json FILE

One row a WaveNet of layers with tanh, ungated, of any groups: µs of a block of 64 frames, the
median of many runs of 256 blocks in a row, each block copied in, computed and copied out. Ours is a
call from `prepare`; PyTorch's is one replay of a graph of `conv1d`, additions and `tanh` with
histories updated in place, IEEE f32, `cudnn.benchmark`. `host` is our own stream on one thread of
the CPU of the same machine. Where NAME.expected.npy lies beside a model and input.npy in the
folder, errors are the largest differences over max(1, peak). Exit status 1 if one of ours is past
the tolerance. FILE is written after each model: a run cut short keeps what it measured.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.api.stream import stream
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.bench.timing import measure
from convir.runtime.devices import CUDA, HOST

if TYPE_CHECKING:
    from convir.runtime.bench.cuda import CudaBench

FRAMES = 64
BLOCKS = 256
TOLERANCE = 2e-6
PLAIN = {"activation": "Tanh", "gated": False}


def is_plain(content: dict[str, Any]) -> bool:
    """Whether PyTorch's module below computes a model."""
    layers = content["config"].get("layers", [])
    return bool(layers) and all(
        all(array.get(key) == value for key, value in PLAIN.items())
        and array.get("bottleneck") in (None, array["channels"])
        and not array.get("condition_dsp")
        and "condition_dsp" not in content["config"]
        for array in layers
    )


class TorchModel:
    """A plain model as PyTorch code for one block, and a CUDA graph of it."""

    def __init__(self, content: dict[str, Any]) -> None:
        torch: Any = import_module("torch")
        self.torch = torch
        self._weights = np.array(content["weights"], np.float32)
        self._taken = 0
        self.arrays: list[dict[str, Any]] = [self._array(a) for a in content["config"]["layers"]]
        self.scale = float(self._weights[self._taken])
        self.x: Any = torch.zeros((1, 1, FRAMES), device="cuda")
        self.y: Any = torch.zeros((1, 1, FRAMES), device="cuda")
        side = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(3):
                self._block()
        torch.cuda.synchronize()
        self._graph: Any = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self._graph):
            self._block()
        self.reset()

    def _take(self, *shape: int) -> Any:
        count = int(np.prod(shape))
        part = self._weights[self._taken : self._taken + count].reshape(shape)
        self._taken += count
        return self.torch.from_numpy(part.copy()).cuda()

    def _array(self, array: dict[str, Any]) -> dict[str, Any]:
        channels, taps = array["channels"], array["kernel_size"]
        groups = array.get("groups_input") or 1
        mixed: int = array["layer1x1"]["groups"] if array.get("layer1x1") else 1
        first = self._take(channels, array["input_size"], 1)
        layers: list[dict[str, Any]] = []
        for dilation in array["dilations"]:
            layers.append(
                {
                    "w": self._take(channels, channels // groups, taps),
                    "b": self._take(channels),
                    "mixin": self._take(channels, 1, 1),
                    "w1": self._take(channels, channels // mixed, 1),
                    "b1": self._take(channels),
                    "dilation": dilation,
                    "groups": groups,
                    "groups1": mixed,
                    "history": self.torch.zeros(
                        (1, channels, dilation * (taps - 1)), device="cuda"
                    ),
                }
            )
        head = self._take(array["head_size"], channels, 1)
        bias = self._take(array["head_size"]) if array["head_bias"] else None
        return {"first": first, "layers": layers, "head": head, "bias": bias}

    def _block(self) -> None:
        torch, conv1d = self.torch, self.torch.nn.functional.conv1d
        condition, signal, head = self.x, self.x, None
        for array in self.arrays:
            signal = conv1d(signal, array["first"])
            for layer in array["layers"]:
                seen = torch.cat([layer["history"], signal], -1)
                z = conv1d(seen, layer["w"], layer["b"], 1, 0, layer["dilation"], layer["groups"])
                z = torch.tanh(z + conv1d(condition, layer["mixin"]))
                head = z if head is None else head + z
                signal = signal + conv1d(z, layer["w1"], layer["b1"], groups=layer["groups1"])
                layer["history"].copy_(seen[..., FRAMES:])
            head = conv1d(head, array["head"], array["bias"])
        assert head is not None
        self.y.copy_(head * self.scale)

    def reset(self) -> None:
        """Hear silence for as long as anything is remembered."""
        layers = [layer for array in self.arrays for layer in array["layers"]]
        remembered = sum(layer["history"].shape[-1] for layer in layers)
        for layer in layers:
            layer["history"].zero_()
        self.x.zero_()
        for _ in range(-(-remembered // FRAMES)):
            self._graph.replay()

    def process(self, x: Any, y: Any) -> None:
        """One block, f32[64] to f32[64]."""
        self.x.view(-1).copy_(x)
        self._graph.replay()
        y.copy_(self.y.view(-1))


def row_of(path: Path, bench: CudaBench, budget: float) -> dict[str, Any]:
    """One model, measured."""
    cupy: Any = import_module("cupy")
    ours, on_host = (stream(path, frames=FRAMES, device=device) for device in (CUDA, HOST))
    theirs = TorchModel(json.loads(path.read_text()))
    errors = errors_of(path, ours, theirs)
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, FRAMES * BLOCKS).astype(np.float32)
    places = [slice(i, i + FRAMES) for i in range(0, len(sound), FRAMES)]
    x, y = cupy.asarray(sound), cupy.empty(len(sound), np.float32)
    calls = [ours.prepare(x[place], y[place]) for place in places]
    tx = theirs.torch.from_numpy(sound).cuda()
    ty = theirs.torch.empty_like(tx)
    pairs = [(tx[place], ty[place]) for place in places]
    out = np.empty_like(sound)
    host_calls = [on_host.prepare(sound[place], out[place]) for place in places]

    def run(prepared: list[Any]) -> None:
        for call in prepared:
            call()

    def run_torch() -> None:
        for block, result in pairs:
            theirs.process(block, result)

    timed = measure({"ours": lambda: run(calls), "torch": run_torch}, bench.clock, budget)
    timed |= measure({"host": lambda: run(host_calls)}, budget_s=budget)
    us = {name: timing.median / BLOCKS for name, timing in timed.items()}
    return {"model": path.stem, "us": us, "errors": errors}


def errors_of(path: Path, ours: Any, theirs: TorchModel) -> dict[str, float | None]:
    """Of both, beside what the format's implementation gives."""
    sound, wanted = path.parent / "input.npy", path.with_suffix(".expected.npy")
    if not sound.exists() or not wanted.exists():
        return {"ours": None, "torch": None}
    x = np.load(sound)
    x = x[: len(x) // FRAMES * FRAMES]
    expected = np.load(wanted)[: len(x)]
    tx = theirs.torch.from_numpy(x).cuda()
    ty = theirs.torch.empty_like(tx)
    for i in range(0, len(x), FRAMES):
        theirs.process(tx[i : i + FRAMES], ty[i : i + FRAMES])
    scale = max(1.0, float(np.abs(expected).max()))
    heard = {"ours": ours.process(x).get(), "torch": ty.cpu().numpy()}
    return {name: float(np.abs(y - expected).max() / scale) for name, y in heard.items()}


def main() -> int:
    """Measure every model that PyTorch's code below computes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the .nam files lie")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for a backend and model")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bench = gpu_or_exit()
    command = shlex.join(["python", "benchmarks/nam_torch.py", *sys.argv[1:]])
    environment = {**bench.describe(), "command": command}
    print(f"{'model':24s}{'ours us':>9s}{'torch us':>9s}{'ratio':>7s}{'host us':>9s}  errors")
    rows: list[dict[str, Any]] = []
    for path in sorted(options.folder.glob("*.nam")):
        if not is_plain(json.loads(path.read_text())):
            continue
        rows.append(row_of(path, bench, options.budget))
        us, errors = rows[-1]["us"], rows[-1]["errors"]
        ratio = us["torch"] / us["ours"]
        times = f"{us['ours']:9.1f}{us['torch']:9.1f}{ratio:7.2f}{us['host']:9.1f}"
        print(f"{path.stem:24s}{times}  {errors['ours']} {errors['torch']}", flush=True)
        if options.json:
            report = {"environment": environment, "rows": rows}
            options.json.write_text(f"{json.dumps(report, indent=1)}\n", encoding="utf-8")
    errors = [row["errors"]["ours"] for row in rows]
    return int(any(error is not None and not error <= TOLERANCE for error in errors))


if __name__ == "__main__":
    sys.exit(main())
