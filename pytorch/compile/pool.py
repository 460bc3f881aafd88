"""Compilation in the background: threads that wait, each with a process that works.

The compiler holds the interpreter while it works. So it does in processes of its own; a thread
here only asks one, and loads what that left in the caches.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from convir.analysis.refusal import Refusal
from convir.pytorch.compile.compilation import (
    Failure,
    compiled,
    gpu_index,
    gpu_of,
    refusal_of,
    source_of,
)
from convir.pytorch.compile.configs import plans_of
from convir.pytorch.compile.worker import Request
from convir.runtime.cores import available_cores
from convir.runtime.cuda import toolkit
from convir.runtime.devices import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.pytorch.compile.compilation import Compiled, Wanted
    from convir.pytorch.compile.worker import Answer
    from convir.runtime.cuda.plan import CudaPlan

MOST_PROCESSES = 8
"""Compilations at a time; fewer on machines with fewer than two cores each."""
_CORES_EACH = 2


def compile_now(wanted: Wanted) -> tuple[Compiled, ...] | Refusal:
    """The programs of a signature, in this thread; a refusal says what failed."""
    try:
        source = source_of(wanted.signature)
        if isinstance(source, Refusal):
            return source
        plans: Mapping[str, CudaPlan] | Refusal = {}
        if wanted.signature.device != HOST:
            plans = plans_of(wanted, source, gpu_of(gpu_index(wanted.signature)))
        return plans if isinstance(plans, Refusal) else compiled(wanted, source, plans)
    except Exception as error:
        return refusal_of(error)


class CompilePool:
    """Processes that compile, started when there is something to do."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._most = max(1, min(MOST_PROCESSES, available_cores() // _CORES_EACH))

    def submit(self, wanted: Wanted) -> Future[tuple[Compiled, ...] | Refusal]:
        """The programs of a signature, or why there are none, some time later."""
        future: Future[tuple[Compiled, ...] | Refusal] = Future()
        with self._lock:
            self._waiting += 1
            if self._threads < min(self._most, self._waiting):
                self._threads += 1
                name = f"convir-compile-{self._threads}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._requests.put((future, wanted))
        return future

    def close(self) -> None:
        """End the processes; what was not compiled stays so."""
        with self._lock:
            processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
            process.wait()

    def _serve(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        while True:
            future, wanted = self._requests.get()
            if wanted.signature.device != HOST:
                _let_others_capture()
            if process is None or process.poll() is not None:
                process = self._start()
            future.set_result(_made(process, wanted))
            with self._lock:
                self._waiting -= 1

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "convir.pytorch.compile.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        with self._lock:
            if not self._processes:
                atexit.register(self.close)
            self._processes.append(process)
        return process


def _made(process: subprocess.Popen[bytes], wanted: Wanted) -> tuple[Compiled, ...] | Refusal:
    signature = wanted.signature
    try:
        gpu = None if signature.device == HOST else gpu_of(gpu_index(signature))
        answer = _ask(process, Request(wanted, gpu))
        if isinstance(answer, Refusal):
            return answer
        return compiled(wanted, answer.source, answer.plans)
    except Exception as error:
        return refusal_of(error)


def _ask(process: subprocess.Popen[bytes], request: Request) -> Answer | Refusal:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (OSError, EOFError) as error:
        return Failure(f"the process that compiles it ended: {error}")


def _let_others_capture() -> None:
    """What this thread asks of a GPU ends no capture of another one."""
    try:
        cu = toolkit.driver()
        cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    except toolkit.NoGpuError:
        return  # What is compiled says so.


_pool = CompilePool()


def pool() -> CompilePool:
    """The process's pool."""
    return _pool


def _forget_pool() -> None:
    # A fork leaves the threads behind: the child starts afresh.
    global _pool
    _pool = CompilePool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
