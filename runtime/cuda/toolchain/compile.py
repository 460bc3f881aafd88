"""CUDA C++ to cubins by NVRTC, which needs no GPU, through a cache that survives processes."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from typing import TYPE_CHECKING, Any

from convir.lowering.kernels.cuda.headers import included
from convir.runtime.cache.object_cache import cache_of
from convir.runtime.compile_error import CompileError
from convir.runtime.cores import available_cores
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.plan import Cubin
from convir.runtime.cuda.toolchain.cubin import executed
from convir.runtime.cuda.toolchain.usage import VERBOSE, Usage, parse_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_CUBINS, _LOGS = "cubins", "cubin-logs"
"""Folders of the cache."""
_ELF = b"\x7fELF"
"""What cubins begin with."""

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
    return _stored(source, _flags(arch, options), _CUBINS)


def compile_cubins(
    sources: Iterable[str], arch: str, told: Callable[[int, int], None] | None = None
) -> dict[str, Cubin]:
    """The cubins of all `sources`, compiled on all cores at once.

    NVRTC compiles in several threads at a time, and CuPy lets go of the interpreter meanwhile.

    Args:
        sources: as `compile_cubin` takes them; equal ones are compiled once.
        arch: the architecture, e.g. `sm_90a`.
        told: is told how many are done, and of how many, whenever one is.

    Raises:
        CompileError: NVRTC refuses a source.
        NoGpuError: CuPy or CUDA's headers are not installed.
    """
    flags = _flags(arch, ())
    keys = {source: _key(source, flags) for source in dict.fromkeys(sources)}
    made: dict[str, Cubin] = {}
    # The slowest first: the last to begin should not be the last to end.
    waiting = sorted(keys, key=_effort, reverse=True)
    with ThreadPoolExecutor(available_cores(), "convir-nvrtc") as pool:
        running = {pool.submit(_stored, each, flags, _CUBINS, keys[each]): each for each in waiting}
        try:
            for done in as_completed(running):
                source = running[done]
                made[source] = Cubin(keys[source], done.result())
                if told is not None:
                    told(len(made), len(keys))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return made


def is_stored(source: str, arch: str) -> bool:
    """Whether the cache has the cubin of `source`, as `compile_cubin` takes it."""
    return stored_cubin(_key(source, _flags(arch, ()))) is not None


def stored_cubin(key: str) -> bytes | None:
    """The cubin that the cache keeps under `key`, if it does; NVRTC is not asked."""
    found = cache_of(_CUBINS).load(key)
    return found if found is not None and found.startswith(_ELF) else None


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


def load_kernel(source: str, name: str) -> Any:
    """The kernel `name` of `source` for the current device, as a CuPy function.

    Raises:
        CompileError: NVRTC refuses the source, or the driver its cubin.
        NoGpuError: there is no GPU, or CUDA's headers are not installed.
    """
    return load_cubin(compile_cubin(source, toolkit.architecture())).get_function(name)


def load_cubin(cubin: bytes) -> Any:
    """A cubin on the current device, as a module of CuPy's.

    Raises:
        CompileError: the driver refuses it, as one does that is older than what made it.
        NoGpuError: CuPy is not installed.
    """
    module = toolkit.cupy().cuda.function.Module()
    try:
        module.load(cubin)
    except toolkit.launches().CUDADriverError as error:
        raise CompileError(
            "the driver refuses a kernel's code", source="", options=str(error), log=str(error)
        ) from error
    return module


def _flags(arch: str, options: Sequence[str]) -> tuple[str, ...]:
    return (*BASE_OPTIONS, VERBOSE, f"-arch={arch}", *options)


def _stored(source: str, flags: Sequence[str], folder: str, key: str | None = None) -> bytes:
    """The cubin or the log of a compilation, from the cache where it is there."""
    key = key or _key(source, flags)
    found = _cached(key, folder)
    if found is not None:
        return found
    with cache_of(folder).lock(key):
        found = _cached(key, folder)  # Another thread or process may have been faster.
        if found is not None:
            return found
        cubin, log = _compile(source, flags)
        made: dict[str, bytes] = {_CUBINS: cubin, _LOGS: log}
        for name, payload in made.items():
            cache_of(name).store(key, payload)
    return made[folder]


def _cached(key: str, folder: str) -> bytes | None:
    return stored_cubin(key) if folder == _CUBINS else cache_of(folder).load(key)


def _effort(source: str) -> int:
    """What grows with the time that a source takes: the code that it includes."""
    return len(source) + sum(len(text) for _, text in included(source))


def _key(source: str, flags: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((toolkit.nvrtc().getVersion(), tuple(flags))).encode())
    for name, text in included(source):
        digest.update(f"{name}\0{text}\0".encode())
    digest.update(source.encode())
    return digest.hexdigest()


def _compile(source: str, flags: Sequence[str]) -> tuple[bytes, bytes]:
    """The cubin, and what the compiler says of it."""
    nvrtc = toolkit.nvrtc()
    names = [name.encode() for name, _ in included(source)]
    texts = [text.encode() for _, text in included(source)]
    program = nvrtc.createProgram(source, "kernel.cu", texts, names)
    try:
        include = f"-I{toolkit.include_folder()}"
        nvrtc.compileProgram(program, (*flags, include))
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program).encode()
    except nvrtc.NVRTCError as error:
        raise CompileError(
            "NVRTC refuses a generated kernel",
            source=source,
            options=" ".join(flags),
            log=nvrtc.getProgramLog(program),
        ) from error
    finally:
        nvrtc.destroyProgram(program)
