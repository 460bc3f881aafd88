"""Whose kernel computes a direction: from what is known, what is measured, or what is wanted."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from convir.analysis.refusal import Refusal
from convir.pytorch import native
from convir.pytorch.comparisons.known import expected, known_on
from convir.pytorch.comparisons.shape import shape_of
from convir.pytorch.compile.compilation import Failure, Wanted, gpu_index, kernel_of
from convir.pytorch.compile.pool import compile_now, pool
from convir.pytorch.machine_code.program import words_of
from convir.pytorch.rows import count_rows
from convir.pytorch.signature import swaps_operands
from convir.pytorch.taken import on_cuda, on_host
from convir.pytorch.timing import Choice, compared
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

MOST_ROWS = 2048
"""Shapes and directions that are compiled in a process; each keeps its code and a little memory."""

FURTHER_CONFIGS = 2
"""What is timed is timed with so many further configs of its kernel."""

_KIND = "pytorch-choices"
"""The folder of the cache."""

_cuda: Any = torch.cuda
_changing = threading.Lock()


@dataclass(frozen=True)
class Waiting:
    """Programs that are being compiled, and what is known of them."""

    wanted: Wanted
    programs: Future[tuple[Compiled, ...] | Refusal] | None
    """None where a call waits for them; but not while it is captured."""
    reason: str
    """Why convir's kernel is taken; empty where both are to be timed first."""


def settle(row: Row, settings: Settings) -> None:
    """Decide about a new row as far as that takes no time; `change_over` does the rest."""
    if count_rows() > MOST_ROWS:
        row.reason = f"more than {MOST_ROWS} shapes and directions were asked for"
        return
    config, reason = "", "convir is preferred"
    if settings.prefer == "faster":
        found = _known(row, settings)
        if isinstance(found, Refusal):
            row.reason = found.reason
            return
        config, reason = found
    row.reason = "its kernel is being compiled"
    waits = settings.wait or torch.are_deterministic_algorithms_enabled()
    further = 0 if reason else FURTHER_CONFIGS
    wanted = Wanted(row.signature, settings.workspace_bytes, config, further)
    row.waiting = Waiting(wanted, None if waits else pool().submit(wanted), reason)


def change_over(row: Row, operands: tuple[Any, ...], theirs: Callable[[], Any]) -> None:
    """Take the row, or leave it, if its programs are there; nothing while a graph is captured.

    Args:
        row: with something to wait for.
        operands: of this call.
        theirs: runs PyTorch's kernel on them.
    """
    waiting: Waiting = row.waiting
    on_gpu = row.signature.device != "host"
    if waiting.programs is not None and not waiting.programs.done():
        return
    if on_gpu and torch.cuda.is_current_stream_capturing():
        return
    if not _changing.acquire(blocking=waiting.programs is None):
        return
    try:
        if row.waiting is waiting:
            _decide(row, waiting, operands, theirs)
            row.waiting = None
    finally:
        _changing.release()


def _decide(
    row: Row, waiting: Waiting, operands: tuple[Any, ...], theirs: Callable[[], Any]
) -> None:
    if waiting.programs is not None:
        programs = waiting.programs.result()
    else:
        programs = compile_now(waiting.wanted)
    if isinstance(programs, Refusal):
        row.reason = programs.reason
        if isinstance(programs, Failure):
            native.warn_once(f"convir leaves convolutions to PyTorch: {programs.reason}")
        return
    row.line = programs[0].source.line
    calls = {each.config: each.executable.prepare() for each in programs}
    runs = {each.config: _runner(row.signature, each, calls[each.config]) for each in programs}
    chosen, reason = programs[0], waiting.reason
    if not reason:
        ours = {config: partial(run, *operands) for config, run in runs.items()}
        try:
            choice = compared(row.signature, ours, theirs)
        except Exception as error:
            native.warn_once(f"convir leaves a convolution to PyTorch: {error}")
            row.reason = f"it failed: {error}"
            return
        if choice.steady:
            store_choice(row.signature, choice)
        chosen = next(each for each in programs if each.config == choice.config)
        row.kernel = kernel_of(chosen.executable)
        found = _by_times(row, choice)
        if isinstance(found, Refusal):
            row.reason = found.reason
            return
        reason = found
    row.kernel, row.reason = kernel_of(chosen.executable), reason
    run, call = runs[chosen.config], calls[chosen.config]
    row.run, row.words = run, _words(row.signature, chosen, call)


def _known(row: Row, settings: Settings) -> tuple[str, str] | Refusal:
    """What is known of the times of a row: the config of its kernel, and why it is taken; both are
    empty where it is to be timed."""
    choice = stored_choice(row.signature)
    if choice is not None:
        taken = _by_times(row, choice)
        return taken if isinstance(taken, Refusal) else (choice.config, taken)
    if _measures(settings):
        return "", ""
    found = _expected(row.signature)
    if isinstance(found, Refusal):
        return Refusal(
            f"{found.reason}; torch.backends.cudnn.benchmark = True, or enable(measure=True), has "
            "both timed"
        )
    return "", found


def _by_times(row: Row, choice: Choice) -> str | Refusal:
    row.convir_us, row.pytorch_us = choice.convir_us, choice.pytorch_us
    if choice.takes:
        return "it was measured faster"
    return Refusal("PyTorch's kernel was measured faster")


def _expected(signature: Signature) -> str | Refusal:
    """What was measured of the shape and those like it on such a GPU says."""
    if signature.device == "host":
        return Refusal("nothing says that convir's kernel is faster")
    shape = shape_of(signature)
    if shape is None:
        return Refusal("its tensors lie in several orders, of which nothing is known")
    gpu: Any = _cuda.get_device_properties(gpu_index(signature))
    return expected(shape, known_on(gpu.name, gpu.multi_processor_count), gpu.name)


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
    cache_of(_KIND).store(_key(signature), json.dumps(asdict(choice)).encode())
