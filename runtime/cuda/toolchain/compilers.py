"""Several compilations by NVRTC at a time: a few in threads, more in processes of their own."""

from __future__ import annotations

import logging
import queue
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from convir.runtime.compile_threads import CompileThreads
from convir.runtime.cores import available_cores
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.nvrtc import NvrtcProcess, compile_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from typing import Self

    Compiler: TypeAlias = Callable[
        [str, Sequence[tuple[str, str]], Sequence[str]], tuple[bytes, bytes]
    ]
    """A source, its headers and options in; a cubin and a log out."""

_Result = TypeVar("_Result")

MOST_THREADS = 2
"""Of so many compilations, threads take as long as processes, which have to start."""

_log = logging.getLogger(__name__)


def compile_here(
    source: str, headers: Sequence[tuple[str, str]], options: Sequence[str]
) -> tuple[bytes, bytes]:
    """A cubin and NVRTC's log, by this thread.

    Raises:
        RefusedError: NVRTC refuses the source.
        NoGpuError: it is not installed.
    """
    return compile_source(_library(), source, headers, options)


class Compilers:
    """As many as there are cores, for the compilations of one block."""

    def __init__(self) -> None:
        self._threads = CompileThreads("convir-nvrtc")
        self._count = 0
        """Of all compilations so far."""
        self._idle: queue.SimpleQueue[NvrtcProcess] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self._threads.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.__exit__(*error)
        while not self._idle.empty():
            self._idle.get().close()

    def submit(
        self, work: Callable[[str], _Result], sources: Sequence[str]
    ) -> dict[str, Future[_Result]]:
        """Have threads do some work for each source, in this order, which may `compile` it."""
        self._count += len(sources)
        return {source: self._threads.submit(work, source) for source in sources}

    def compile(
        self, source: str, headers: Sequence[tuple[str, str]], options: Sequence[str]
    ) -> tuple[bytes, bytes]:
        """As `compile_here`, by a process if there are many compilations."""
        if min(self._count, available_cores()) <= MOST_THREADS:
            return compile_here(source, headers, options)
        try:
            process = self._idle.get_nowait()
        except queue.Empty:
            process = NvrtcProcess(_library())
        try:
            made = process.compile(source, headers, options)
        except OSError as error:
            _log.warning("%s; compiling here instead", error)
            process.close()
            return compile_here(source, headers, options)
        except BaseException:
            self._idle.put(process)
            raise
        self._idle.put(process)
        return made


def _library() -> str:
    return toolkit.library("nvrtc", "NVRTC", "nvidia-cuda-nvrtc")
