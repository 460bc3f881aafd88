"""CUDA C++ to cubins by NVRTC, which needs no GPU, through a cache that survives processes."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import as_completed
from functools import cache
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.headers import included
from convir.runtime.cache.object_cache import cache_of
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.plan import Cubin
from convir.runtime.cuda.toolchain.compilers import Compilers, compile_here
from convir.runtime.cuda.toolchain.cubin import executed
from convir.runtime.cuda.toolchain.loaded import CUBINS, stored_cubin
from convir.runtime.cuda.toolchain.nvrtc import RefusedError
from convir.runtime.cuda.toolchain.usage import VERBOSE, Usage, parse_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future
    from typing import Self

    from convir.runtime.cuda.toolchain.compilers import Compiler

_LOGS = "cubin-logs"
"""A folder of the cache."""

BASE_OPTIONS = ("--std=c++17", "-default-device", "--no-cache")
"""NVRTC's own cache gives cubins without ptxas's report; ours keeps both."""

LIBRARY_CODE = "library"
"""What stands for the digest of code that is not ours."""

_DIGEST_LETTERS = 12

_TOOLS_VERSION = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")
"""In the `.note.nv.tkinfo` section of a cubin."""


def compile_cubin(source: str, arch: str, options: Sequence[str] = ()) -> bytes:
    """The cubin of `source` for an architecture, from the cache where it is there.

    Args:
        source: CUDA C++ that may include the template headers and CUDA's own.
        arch: the architecture, e.g. `sm_90a`.
        options: further options of NVRTC.

    Raises:
        CompileError: NVRTC refuses the source.
        NoGpuError: CuPy or CUDA's headers are not installed.
    """
    return _stored(source, _flags(arch, options), CUBINS)


def compile_cubins(
    sources: Iterable[str], arch: str, told: Callable[[int, int], None] | None = None
) -> dict[str, Cubin]:
    """The cubins of all `sources`, compiled on all cores at once.

    Args:
        sources: as `compile_cubin` takes them; equal ones are compiled once.
        arch: the architecture, e.g. `sm_90a`.
        told: is told how many are done, and of how many, whenever one is.

    Raises:
        CompileError: NVRTC refuses a source.
        NoGpuError: CuPy or CUDA's headers are not installed.
    """
    with Compilations(arch) as compilations:
        return compilations.finished(sources, told)


class Compilations:
    """Sources on their way to cubins, until the block ends: each is compiled once."""

    def __init__(self, arch: str) -> None:
        """Compile for an architecture, e.g. `sm_90a`."""
        self._flags = _flags(arch, ())
        self._compilers = Compilers()
        self._keys: dict[str, str] = {}
        self._made: dict[str, Cubin] = {}
        self._running: dict[str, Future[Cubin]] = {}

    def __enter__(self) -> Self:
        self._compilers.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._compilers.__exit__(*error)

    def start(self, sources: Iterable[str]) -> None:
        """Compile `sources`, but for those that were started before or that the cache has.

        Raises:
            NoGpuError: CuPy is not installed.
        """
        waiting: list[str] = []
        for source in sources:
            if source in self._keys:
                continue
            key = self._keys[source] = _key(source, self._flags)
            found = stored_cubin(key)
            if found is None:
                waiting.append(source)
            else:
                self._made[source] = Cubin(key, found)
        # The slowest first: the last to begin should not be the last to end.
        waiting.sort(key=_effort, reverse=True)
        self._running |= self._compilers.submit(self._compiled, waiting)

    def finished(
        self, sources: Iterable[str], told: Callable[[int, int], None] | None = None
    ) -> dict[str, Cubin]:
        """The cubins of `sources`, as `compile_cubins` says."""
        wanted = dict.fromkeys(sources)
        self.start(wanted)
        made = {source: self._made[source] for source in wanted if source in self._made}
        running = {self._running[source]: source for source in wanted if source not in made}
        for done in as_completed(running):
            made[running[done]] = done.result()
            if told is not None:
                told(len(made), len(wanted))
        return made

    def _compiled(self, source: str) -> Cubin:
        code = _stored(source, self._flags, CUBINS, self._compilers.compile)
        return Cubin(self._keys[source], code)


def stored_code(source: str, arch: str) -> bytes | None:
    """The cubin of `source`, as `compile_cubin` takes it, if the cache has it.

    Raises:
        NoGpuError: CuPy is not installed.
    """
    return stored_cubin(_key(source, _flags(arch, ())))


def kernel_usage(source: str, arch: str, options: Sequence[str] = ()) -> dict[str, Usage]:
    """What each kernel of `source` takes of a multiprocessor, by symbol; as `compile_cubin`."""
    return parse_usage(_stored(source, _flags(arch, options), _LOGS).decode(errors="replace"))


def cubins_digest(sources: Sequence[str], arch: str) -> str:
    """A digest of what the cubins of `sources` make a GPU do; `LIBRARY_CODE` if there are none.

    Comments and names do not change it, another version of the compiler may.

    Raises:
        CompileError: NVRTC refuses a source.
        NoGpuError: CuPy or CUDA's headers are not installed.
    """
    if not sources:
        return LIBRARY_CODE
    digest = hashlib.sha256()
    for source in sources:
        digest.update(executed(compile_cubin(source, arch)))
    return digest.hexdigest()[:_DIGEST_LETTERS]


@cache
def compiler() -> str:
    """The name and version of what makes cubins, e.g. `NVRTC 13.0.88`.

    Raises:
        NoGpuError: CuPy or CUDA's headers are not installed.
    """
    cubin = compile_cubin('extern "C" __global__ void nothing() {}', "sm_80")
    found = _TOOLS_VERSION.search(cubin)
    version = (
        found[1].decode() if found else ".".join(str(part) for part in toolkit.nvrtc().getVersion())
    )
    return f"NVRTC {version}"


def _flags(arch: str, options: Sequence[str]) -> tuple[str, ...]:
    return (*BASE_OPTIONS, VERBOSE, f"-arch={arch}", *options)


def _stored(
    source: str, flags: Sequence[str], folder: str, compiler: Compiler | None = None
) -> bytes:
    """The cubin or the log of a compilation, from the cache where it is there."""
    key = _key(source, flags)
    found = _cached(key, folder)
    if found is not None:
        return found
    with cache_of(folder).lock(key):
        found = _cached(key, folder)  # Another thread or process may have been faster.
        if found is not None:
            return found
        cubin, log = _compile(source, flags, compiler)
        made: dict[str, bytes] = {CUBINS: cubin, _LOGS: log}
        for name, payload in made.items():
            cache_of(name).store(key, payload)
    return made[folder]


def _cached(key: str, folder: str) -> bytes | None:
    return stored_cubin(key) if folder == CUBINS else cache_of(folder).load(key)


def _effort(source: str) -> int:
    """What grows with the time that a source takes: the code that it includes."""
    return len(source) + sum(len(text) for _, text in included(source))


def _key(source: str, flags: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((toolkit.nvrtc().getVersion(), tuple(flags))).encode())
    for name, text in included(source):
        digest.update(f"{name}\0{text}\0".encode())
    digest.update(source.encode())
    return digest.hexdigest()


def _compile(
    source: str, flags: Sequence[str], compiler: Compiler | None = None
) -> tuple[bytes, bytes]:
    """The cubin, and what the compiler says of it."""
    options = (*flags, f"-I{toolkit.include_folder()}")
    try:
        return (compiler or compile_here)(source, included(source), options)
    except RefusedError as error:
        raise CompileError(
            "NVRTC refuses a generated kernel",
            source=source,
            options=" ".join(flags),
            log=str(error),
        ) from error
