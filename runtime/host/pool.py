"""The thread pool: one launch, many items, all cores, no Python in between.

A kernel is machine code with the signature

    void kernel(void *args, int64_t begin, int64_t end, int64_t worker)

which does the items [begin, end) and may use scratch memory number `worker`. Helpers are Python
threads that live inside native code (`pool.ll`), so neither launching nor working holds the GIL.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from convir.runtime.cores import available_cores
from convir.runtime.host.jit import AS_EMITTED, Library, compile_ir

if TYPE_CHECKING:
    from collections.abc import Callable

SPIN_TURNS = 2000
"""How often an idle helper looks for work before it sleeps: some tens of microseconds, so that
launches in a row find it awake, and an idle process burns nothing."""

PIECES_PER_WORKER = 4
"""A worker takes its range in about this many pieces, so that the others can take some if it was
held up."""

_EXPORTS = ("pool_init", "pool_launch", "pool_run", "pool_copy", "pool_serve", "pool_stop")

_CACHE_LINE = 64
_POOL_BYTES = 256
_SEAT_BYTES = 192

_INIT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_SERVE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int64
)
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
)
_RUN = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
)
_STOP = _INIT

LAUNCH_WORDS = 5
"""What `ThreadPool.run` reads of each launch, 8 bytes each: `ThreadPool.described`."""


class ThreadPool:
    """`workers - 1` helper threads beside the caller, started on the first launch that needs them.

    Calls from several threads are safe: a launch that finds the pool busy runs on its own thread.
    """

    def __init__(self, workers: int) -> None:
        self.workers = max(1, workers)
        self._library = _native()
        seats = _POOL_BYTES + _SEAT_BYTES * self.workers
        self._memory = ctypes.create_string_buffer(seats + _CACHE_LINE)
        self._pool = -(-ctypes.addressof(self._memory) // _CACHE_LINE) * _CACHE_LINE
        self._seats = self._pool + _POOL_BYTES
        self._helpers: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._launch: Callable[..., int] = _LAUNCH(self._library.address("pool_launch"))
        self._run: Callable[..., None] = _RUN(self._library.address("pool_run"))
        _INIT(self._library.address("pool_init"))(self._pool, self._seats, self.workers)

    def launch(self, kernel: int, args: int, items: int, workers: int | None = None) -> int:
        """Run the kernel at address `kernel` on `items` items with at most `workers` threads.

        Args:
            kernel: the address of a function with the signature in the module's docstring.
            args: the address handed to it, which stays valid until this returns.
            items: how many independent items there are.
            workers: at most so many threads, the caller included; all of the pool's if None.

        Returns:
            The number of threads that could take part; 1 if the pool was busy.
        """
        _, _, _, chunk, wanted = self.described(kernel, args, items, workers)
        if wanted > 1 and not self._helpers:
            self.start()
        return self._launch(self._pool, self._seats, kernel, args, items, chunk, wanted)

    def described(
        self, kernel: int, args: int, items: int, workers: int | None
    ) -> tuple[int, int, int, int, int]:
        """A launch of `run`: kernel, args, items, items that a thread takes at a time, and threads;
        arguments as those of `launch`."""
        wanted = min(self.workers if workers is None else workers, self.workers, items)
        chunk = max(1, items // (wanted * PIECES_PER_WORKER)) if wanted > 1 else items
        return kernel, args, items, chunk, wanted

    def run(self, launches: int, count: int, *, together: bool) -> None:
        """Launch one kernel after the other, without Python in between.

        Args:
            launches: the address of `count` rows of `LAUNCH_WORDS` integers, as `described` says.
            count: how many.
            together: whether one of them may use more than one thread.
        """
        if together and not self._helpers:
            self.start()
        self._run(self._pool, self._seats, self.workers, launches, count)

    def start(self) -> None:
        """Start the helpers, if they are not there."""
        with self._starting:
            if self._helpers or self.workers == 1:
                return
            helpers = [
                threading.Thread(
                    target=self._serve, args=(worker,), name=f"convir-worker-{worker}", daemon=True
                )
                for worker in range(1, self.workers)
            ]
            for helper in helpers:
                helper.start()
            self._helpers = helpers
            # The code that helpers live in must not be unloaded under them.
            atexit.register(self.close)

    def run_words(self) -> tuple[int, int, int, int]:
        """What native code needs for calls of `pool_run`: its address, and its first arguments."""
        return self._library.address("pool_run"), self._pool, self._seats, self.workers

    def close(self) -> None:
        """Stop the helpers and wait for them; the pool cannot launch on threads again."""
        with self._starting:
            helpers, self._helpers, self.workers = self._helpers, [], 1
            if helpers:
                stop = _STOP(self._library.address("pool_stop"))
                stop(self._pool, self._seats, len(helpers) + 1)
            for helper in helpers:
                helper.join()
            atexit.unregister(self.close)

    def _serve(self, worker: int) -> None:
        serve = _SERVE(self._library.address("pool_serve"))
        serve(self._pool, self._seats, worker, threading.get_native_id(), SPIN_TURNS)


@cache
def _native() -> Library:
    ir = resources.files("convir.runtime.host").joinpath("pool.ll").read_text(encoding="utf-8")
    return compile_ir(ir, exports=_EXPORTS, options=AS_EMITTED)


def copy_kernel() -> int:
    """The address of a kernel that copies: args are a source and a target, items are bytes.

    Where both are the same nothing is done; otherwise they do not overlap.
    """
    return _native().address("pool_copy")


_shared: ThreadPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> ThreadPool:
    """The process's pool, with one worker per available core."""
    global _shared
    if _shared is None:
        with _shared_lock:
            if _shared is None:
                _shared = ThreadPool(available_cores())
    return _shared


def _forget_shared() -> None:
    # A fork leaves the helpers behind, and maybe a gate half open: the child starts afresh.
    global _shared, _shared_lock
    _shared = None
    _shared_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_shared)
