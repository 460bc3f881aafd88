"""Whose kernel computes a direction: from what is known, what is measured, or what is wanted."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from convir.analysis.refusal import Refusal
from convir.pytorch import native
from convir.pytorch.compile.compilation import Failure, gpu_index, kernel_of
from convir.pytorch.compile.pool import compile_now, pool
from convir.pytorch.machine_code.program import words_of
from convir.pytorch.rows import count_rows
from convir.pytorch.signature import swaps_operands
from convir.pytorch.taken import on_cuda, on_host
from convir.runtime.cache.fingerprint import compiler_fingerprint
from convir.runtime.cache.object_cache import cache_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from convir.pytorch.compile.compilation import Compiled
    from convir.pytorch.rows import Row
    from convir.pytorch.settings import Settings
    from convir.pytorch.signature import Signature
    from convir.runtime.prepared_call import PreparedCall

MARGIN = 1.05
"""How much faster convir's kernel must be measured to be taken: timed again on other tensors, the
ratio of two kernels differs by a few percent."""

SITTINGS = 3
"""How often both are compared; the comparison that is worst for convir counts."""

ROUNDS = 7
"""How often each is timed in a sitting, in turns."""

LONG_SECONDS = 0.05
"""What takes longer is timed once in a sitting."""

MOST_ROWS = 2048
"""Shapes and directions that are compiled in a process; each keeps its code and a little memory."""

_KIND = "pytorch-choices"
"""The folder of the cache."""

_cuda: Any = torch.cuda
_changing = threading.Lock()


@dataclass(frozen=True)
class Choice:
    """What was measured of a signature, in this process or one before."""

    convir_us: float
    pytorch_us: float

    @property
    def takes(self) -> bool:
        """Whether convir's kernel is faster."""
        return self.convir_us * MARGIN <= self.pytorch_us


@dataclass(frozen=True)
class Waiting:
    """A program that is being compiled, and what is known of it."""

    program: Future[Compiled | Refusal] | None
    """None where a call waits for it; but not while it is captured."""
    choice: Choice | None
    """None where both are to be timed, unless convir's is wanted anyway."""


def settle(row: Row, settings: Settings) -> None:
    """Decide about a new row as far as that takes no time; `change_over` does the rest."""
    choice = None
    if count_rows() > MOST_ROWS:
        row.reason = f"more than {MOST_ROWS} shapes and directions were asked for"
        return
    if settings.prefer == "faster":
        choice = stored_choice(row.signature)
        if choice is not None:
            row.convir_us, row.pytorch_us = choice.convir_us, choice.pytorch_us
            if not choice.takes:
                row.reason = "PyTorch's kernel was measured faster"
                return
        elif not _measures(settings):
            row.reason = (
                "nothing says that convir's kernel is faster: torch.backends.cudnn.benchmark = "
                "True, or enable(measure=True), has both timed"
            )
            return
    row.reason = "its kernel is being compiled"
    waits = settings.wait or torch.are_deterministic_algorithms_enabled()
    program = None if waits else pool().submit(row.signature, settings.workspace_bytes)
    row.waiting = Waiting(program, choice)


def change_over(
    row: Row, settings: Settings, operands: tuple[Any, ...], theirs: Callable[[], Any]
) -> None:
    """Take the row, or leave it, if its program is there; nothing while a graph is captured.

    Args:
        row: with something to wait for.
        settings: what was chosen.
        operands: of this call.
        theirs: runs PyTorch's kernel on them.
    """
    waiting: Waiting = row.waiting
    on_gpu = row.signature.device != "host"
    if waiting.program is not None and not waiting.program.done():
        return
    if on_gpu and torch.cuda.is_current_stream_capturing():
        return
    if not _changing.acquire(blocking=waiting.program is None):
        return
    try:
        if row.waiting is waiting:
            _decide(row, settings, waiting, operands, theirs)
            row.waiting = None
    finally:
        _changing.release()


def _decide(
    row: Row,
    settings: Settings,
    waiting: Waiting,
    operands: tuple[Any, ...],
    theirs: Callable[[], Any],
) -> None:
    if waiting.program is not None:
        program = waiting.program.result()
    else:
        program = compile_now(row.signature, settings.workspace_bytes)
    if isinstance(program, Refusal):
        row.reason = program.reason
        if isinstance(program, Failure):
            native.warn_once(f"convir leaves convolutions to PyTorch: {program.reason}")
        return
    row.line = program.source.line
    row.kernel = kernel_of(program.executable)
    call = program.executable.prepare()
    run = _runner(row.signature, program, call)
    choice = waiting.choice
    if choice is None and settings.prefer == "faster":
        try:
            choice = _measured(row.signature, lambda: run(*operands), theirs)
        except Exception as error:
            native.warn_once(f"convir leaves a convolution to PyTorch: {error}")
            row.reason = f"it failed: {error}"
            return
        store_choice(row.signature, choice)
        row.convir_us, row.pytorch_us = choice.convir_us, choice.pytorch_us
    if choice is not None and not choice.takes:
        row.reason = "PyTorch's kernel was measured faster"
        return
    row.reason = "it was measured faster" if choice is not None else "convir is preferred"
    row.run, row.words = run, _words(row.signature, program, call)


def _measures(settings: Settings) -> bool:
    if settings.measure is not None:
        return settings.measure
    return torch.backends.cudnn.benchmark


def _words(
    signature: Signature, program: Compiled, call: PreparedCall
) -> Callable[[], tuple[int, ...] | None]:
    swapped = swaps_operands(signature)
    return lambda: words_of(call, signature, program.placed, swapped=swapped)


def _runner(signature: Signature, program: Compiled, call: PreparedCall) -> Callable[..., Any]:
    swapped = swaps_operands(signature)
    if signature.device == "host":
        return on_host(call, signature, program.placed, swapped=swapped)
    index = gpu_index(signature)
    return on_cuda(call, signature, program.placed, index, swapped=swapped)


def _measured(signature: Signature, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Choice:
    """Both, timed in turns after two calls of each: the sitting that is worst for convir."""
    clock = host_seconds if signature.device == "host" else gpu_seconds
    both = (ours, theirs)
    longest = max(clock(call) for call in both for _ in range(2))
    rounds = ROUNDS if longest < LONG_SECONDS else 1
    sittings: list[Choice] = []
    for _ in range(SITTINGS):
        times = [[clock(call) for call in both] for _ in range(rounds)]
        convir, pytorch = (1e6 * median(each) for each in zip(*times, strict=True))
        sittings.append(Choice(convir, pytorch))
    return min(sittings, key=lambda choice: choice.pytorch_us / choice.convir_us)


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


def _key(signature: Signature) -> str:
    where = "cpu"
    if signature.device != "host":
        where = torch.cuda.get_device_name(gpu_index(signature))
    known = (signature, where, torch.__version__, compiler_fingerprint())
    return hashlib.sha256(repr(known).encode()).hexdigest()


def stored_choice(signature: Signature) -> Choice | None:
    """What a process before measured with the same kernels and the same PyTorch."""
    content = cache_of(_KIND).load(_key(signature))
    try:
        return None if content is None else Choice(**json.loads(content))
    except (TypeError, ValueError):
        return None


def store_choice(signature: Signature, choice: Choice) -> None:
    """Keep it for processes to come."""
    times = {"convir_us": choice.convir_us, "pytorch_us": choice.pytorch_us}
    cache_of(_KIND).store(_key(signature), json.dumps(times).encode())
