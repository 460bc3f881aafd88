"""Host time of one eager convolution, forward and backward: enabled beside plain PyTorch.

    python benchmarks/pytorch_host_time.py --device cpu|cuda [--json FILE]

Medians of a thousand calls on tiny tensors, in turns, dispatched by machine code. On a GPU calls
only enqueue, and it is waited for outside of what is timed. `taken` calls run on convir, `kept`
ones on PyTorch's kernel.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

import convir.pytorch
from convir.pytorch.machine_code.dispatch import native_code

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 1000
BATCH = 50
"""Calls between two waits, outside of what is timed."""
ROUNDS = 5

MODES: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "taken": {"prefer": "convir", "wait": True},
    "kept": {"prefer": "faster", "measure": False},
}


def forward(x: Any, w: Any) -> Callable[[], Any]:
    """A call without gradients."""

    def call() -> Any:
        with torch.no_grad():
            return torch.conv2d(x, w, None, 1, 1)

    return call


def both(x: Any, w: Any) -> Callable[[], Any]:
    """A call and its backward, by autograd."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    dy = torch.randn_like(torch.conv2d(x, w, None, 1, 1))
    return lambda: torch.autograd.grad(torch.conv2d(x, w, None, 1, 1), (x, w), dy)


def median_us(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    """The median of `CALLS` calls, in µs."""
    times: list[float] = []
    for _ in range(CALLS // BATCH):
        wait()
        for _ in range(BATCH):
            start = perf_counter()
            call()
            times.append(perf_counter() - start)
    wait()
    return 1e6 * median(times)


def measured(device: str, dtype: Any) -> dict[str, dict[str, float]]:
    """Medians by what is called and by mode."""
    x = torch.randn(1, 16, 8, 8).to(device, dtype).to(memory_format=torch.channels_last)
    w = torch.randn(16, 16, 3, 3).to(device, dtype).to(memory_format=torch.channels_last)
    calls = {"forward": forward(x, w), "forward and backward": both(x, w)}
    wait: Callable[[], None] = (lambda: None) if device == "cpu" else torch.cuda.synchronize
    found: dict[str, dict[str, list[float]]] = {name: {} for name in calls}
    for _ in range(ROUNDS):
        for mode, options in MODES.items():
            with convir.pytorch.enabled(**options) if options else nullcontext():
                for name, call in calls.items():
                    for _ in range(3):
                        call()
                    found[name].setdefault(mode, []).append(median_us(call, wait))
                if mode == "taken":
                    kept = [r for r in convir.pytorch.census() if r.runs != "convir"]
                    for row in kept:
                        print(f"not taken: {row.direction}: {row.reason}", file=sys.stderr)
    return {
        name: {mode: median(times) for mode, times in modes.items()}
        for name, modes in found.items()
    }


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    dtype = given.dtype or ("float32" if given.device == "cpu" else "float16")
    torch.set_num_threads(1)
    native_code.loaded(lambda: None, wait=True)
    results = measured(given.device, getattr(torch, dtype))
    for name, modes in results.items():
        plain = modes["plain"]
        shown = [f"{mode} {us:.1f} µs ({us / plain:.2f})" for mode, us in modes.items()]
        print(f"{name} {dtype}: {', '.join(shown)}")
    if given.json:
        given.json.write_text(json.dumps({"torch": torch.__version__, "us": results}, indent=1))


if __name__ == "__main__":
    main()
