"""CUDA C++ to cubins by NVRTC, which needs no GPU, through a cache that survives processes."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from convir.lowering.kernels.cuda.headers import headers, included
from convir.runtime.cache.object_cache import cache_of
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.cubin import executed
from convir.runtime.cuda.toolchain.usage import VERBOSE, Usage, parse_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        CompileError: NVRTC refuses the source.
        NoGpuError: there is no GPU, or CUDA's headers are not installed.
    """
    module = toolkit.cupy().cuda.function.Module()
    module.load(compile_cubin(source, toolkit.architecture()))
    return module.get_function(name)


def _flags(arch: str, options: Sequence[str]) -> tuple[str, ...]:
    return (*BASE_OPTIONS, VERBOSE, f"-arch={arch}", *options)


def _stored(source: str, flags: Sequence[str], folder: str) -> bytes:
    """The cubin or the log of a compilation, from the cache where it is there."""
    key = _key(source, flags)
    found = cache_of(folder).load(key)
    if found is not None and (folder == _LOGS or found.startswith(_ELF)):
        return found
    cubin, log = _compile(source, flags)
    made: dict[str, bytes] = {_CUBINS: cubin, _LOGS: log}
    for name, payload in made.items():
        cache_of(name).store(key, payload)
    return made[folder]


def _key(source: str, flags: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((toolkit.nvrtc().getVersion(), tuple(flags))).encode())
    for name, text in included(source):
        digest.update(f"{name}\0{text}\0".encode())
    digest.update(source.encode())
    return digest.hexdigest()


def _compile(source: str, flags: Sequence[str]) -> tuple[bytes, bytes]:
    """The cubin, and what the compiler says of it."""
    nvrtc = toolkit.nvrtc()
    names = [name.encode() for name, _ in headers()]
    texts = [text.encode() for _, text in headers()]
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
