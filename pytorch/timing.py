"""Both kernels of a shape, timed in turns: what a choice rests on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from convir.pytorch.comparisons.known import is_faster
from convir.pytorch.compile.compilation import gpu_index
from convir.runtime.bench.alone import alone_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from convir.pytorch.signature import Signature

SITTINGS = 3
"""How often both are compared; the comparison that is worst for convir counts."""

ROUNDS = 7
"""How often each is timed in a sitting, in turns."""

LONG_SECONDS = 0.05
"""What takes longer is timed once in a sitting."""

STEADY = 1.3
"""How far the times of a kernel in several sittings may lie apart; beyond that something else had
the device meanwhile."""

PATIENCE_SECONDS = 0.5
"""How long sittings that are not steady are held again."""

CLEARLY_FASTER = 2.5
"""From here on convir's kernel is taken whatever cuDNN's next search finds. A search times each
plan once, the host's delays included, and keeps the fastest for its thread; that of the next
thread or process may be better. The largest ratio that was seen to turn was 2.1, to 0.98."""

FURTHER_SEARCHES = 2
"""Of cuDNN, for a kernel that is not clearly faster: a second one was seen to miss the best plan
too."""

_cuda: Any = torch.cuda


@dataclass(frozen=True)
class Choice:
    """What was measured of a signature, in this process or one before."""

    convir_us: float
    pytorch_us: float
    steady: bool = True
    """Whether the sittings agreed. What did not is not kept on disk."""
    config: str = ""
    """Of convir's kernel, where it is not the one that selection takes."""

    @property
    def ratio(self) -> float:
        """How many times as fast convir's kernel was."""
        return self.pytorch_us / self.convir_us

    @property
    def takes(self) -> bool:
        """Whether convir's kernel is faster."""
        return is_faster(self.convir_us, self.pytorch_us)


def compared(
    signature: Signature, ours: Mapping[str, Callable[[], Any]], theirs: Callable[[], Any]
) -> Choice:
    """All, timed in turns after two calls of each: convir's fastest, and the sitting that is worst
    for it.

    On a GPU one process measures at a time. Sittings that disagree are held again. A kernel that
    would be taken, but is not clearly faster, is compared with further searches of cuDNN besides.

    Args:
        signature: what they compute.
        ours: convir's kernels, by config.
        theirs: PyTorch's kernel.
    """
    clock = host_seconds if signature.device == "host" else gpu_seconds
    calls = (*ours.values(), theirs)
    with _alone(signature):
        longest = max(clock(call) for call in calls for _ in range(2))
        rounds = ROUNDS if longest < LONG_SECONDS else 1
        start, steady, sittings = perf_counter(), False, list[list[float]]()
        while not sittings or (not steady and perf_counter() - start < PATIENCE_SECONDS):
            sittings = [_sitting(clock, calls, rounds) for _ in range(SITTINGS)]
            apart = (max(times) / min(times) for times in zip(*sittings, strict=True))
            steady = max(apart) <= STEADY
        choice = _worst(sittings, list(ours), steady)
        for _ in range(0 if signature.device == "host" else FURTHER_SEARCHES):
            if choice.takes and choice.ratio < CLEARLY_FASTER:
                sittings.append(_in_new_thread(partial(_sitting, clock, calls, rounds), signature))
                choice = _worst(sittings, list(ours), steady)
    return choice


def _worst(sittings: Sequence[Sequence[float]], configs: Sequence[str], steady: bool) -> Choice:
    """Of convir's kernel that is fastest, the sitting in which it was worst beside PyTorch's."""
    medians = [median(times) for times in zip(*sittings, strict=True)][:-1]
    best = medians.index(min(medians))
    worst = min(sittings, key=lambda us: us[-1] / us[best])
    return Choice(worst[best], worst[-1], steady, configs[best])


def _in_new_thread(sitting: Callable[[], list[float]], signature: Signature) -> list[float]:
    """What a sitting in a thread of its own gives, after one that is not counted: PyTorch keeps
    cuDNN's plans for each thread."""
    stream: Any = torch.cuda.current_stream(gpu_index(signature))

    def run() -> list[float]:
        with torch.cuda.stream(stream), torch.no_grad():
            sitting()
            return sitting()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def _sitting(
    clock: Callable[[Callable[[], Any]], float], calls: Sequence[Callable[[], Any]], rounds: int
) -> list[float]:
    """The median time of each, µs."""
    times = [[clock(call) for call in calls] for _ in range(rounds)]
    return [1e6 * median(each) for each in zip(*times, strict=True)]


def _alone(signature: Signature) -> AbstractContextManager[None]:
    """While no other process measures on the GPU of a signature; processors are many."""
    if signature.device == "host":
        return nullcontext()
    return alone_on(gpu_index(signature))


def host_seconds(call: Callable[[], Any]) -> float:
    """From its start to its end."""
    start = perf_counter()
    call()
    return perf_counter() - start


def gpu_seconds(call: Callable[[], Any]) -> float:
    """By events, the GPU being busy until all is enqueued.

    A time that holds a wait for the host (another thread had the interpreter) is dropped, and the
    GPU is kept busy for longer.
    """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for cycles in _BUSY_CYCLES:
        _cuda._sleep(cycles)
        start.record()
        call()
        end.record()
        came_late = start.query()
        end.synchronize()
        if not came_late:
            break
    return 1e-3 * start.elapsed_time(end)


_BUSY_CYCLES = (1_000_000, 4_000_000, 16_000_000)
"""From about half a millisecond on."""
