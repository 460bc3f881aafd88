"""The dispatch of calls that are decided, in machine code: Python is asked once for each shape.

`dispatch.cpp` holds kernels of `aten::convolution` and its backward. It is compiled by the
machine's C++ compiler against the headers of the PyTorch that is installed, in the background, and
kept in the user's cache. Until that is done, or where it cannot be, Python dispatches every call.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import warnings
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from convir.pytorch import dispatch
from convir.runtime.cache.object_cache import cache_of

if TYPE_CHECKING:
    from collections.abc import Callable

COMPILERS = ("c++", "g++", "clang++")
OPTIONS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-w")
OWN_KEYS = {"CPU": "PrivateUse2", "CUDA": "PrivateUse3"}
"""Keys of backends that nobody has, under which Python's kernels are found."""
_KIND = "pytorch-dispatch"
"""The folder of the cache."""
_DRIVER = (
    "cuLaunchKernel",
    "cuLaunchCooperativeKernel",
    "cuMemsetD8Async",
    "cuMemcpyDtoDAsync_v2",
    "cuTensorMapReplaceAddress",
)

_log = logging.getLogger(__name__)
_folder = Path(torch.__file__).parent


class NativeDispatch:
    """The kernels of both keys, registered until `_destroy`."""

    def __init__(self, code: ctypes.CDLL) -> None:
        """Register them, and Python's for calls that are not decided.

        Args:
            code: `dispatch.cpp`, loaded.

        Raises:
            RuntimeError: PyTorch refuses a kernel.
        """
        self._code = code
        self._python: Any = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            # PyTorch says of the first operator that it is overridden, which was asked for.
            warnings.filterwarnings("ignore", "Warning only once for all operators")
            for key, own in OWN_KEYS.items():
                for name, function in dispatch.implementations(key, self).items():
                    self._python.impl(name, function, own, with_keyset=True)
        self._functions = (ctypes.c_void_p * (len(_DRIVER) + 1))(*_driver_functions())
        self._library: int | None = code.convir_open(self._functions)
        if self._library is None:
            self._python._destroy()
            raise RuntimeError("PyTorch refused a kernel")

    def _destroy(self) -> None:
        """Give the operators back; what was kept stays, as what Python decided does."""
        self._code.convir_close(ctypes.c_void_p(self._library))
        self._python._destroy()

    def asked(self) -> tuple[Any, int]:
        """What the thread's last call is known by, to be kept, and when it was asked for.

        Python's kernel reads it first: PyTorch may call the operator again below it.
        """
        words, epoch = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_int64()
        count = self._code.convir_asked(ctypes.byref(words), ctypes.byref(epoch))
        return (ctypes.c_int64 * count)(*words[:count]), epoch.value

    def keep(
        self,
        asked: tuple[Any, int],
        first: tuple[int, ...] | None,
        second: tuple[int, ...] | None = None,
        *,
        backward: bool = False,
    ) -> Any:
        """Run calls like one that was asked for without Python from now on.

        Args:
            asked: from `asked`.
            first: the words of the program that computes the result, or the gradient of the input;
                None where PyTorch's kernel does.
            second: likewise of the gradient of the filter.
            backward: which operator it was.

        Returns:
            A counter of such calls (`.contents.value`), or None where they are known already.
        """
        words, epoch = asked
        programs = [
            None if program is None else (ctypes.c_int64 * len(program))(*program)
            for program in (first, second)
        ]
        where = self._code.convir_keep(backward, words, len(words), epoch, *programs)
        return None if where is None else ctypes.cast(where, ctypes.POINTER(ctypes.c_int64))


def _driver_functions() -> list[int | None]:
    """Addresses of `Driver`; all None without a GPU."""
    try:
        driver, pytorch = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(str(_library("torch_cuda")))
        stream = pytorch.aoti_torch_get_current_cuda_stream
        found = [*(getattr(driver, name) for name in _DRIVER), stream]
    except (OSError, AttributeError):
        return [None] * (len(_DRIVER) + 1)
    return [ctypes.cast(function, ctypes.c_void_p).value for function in found]


def _library(name: str) -> Path:
    return _folder / "lib" / f"lib{name}.so"


class NativeCode:
    """The compiled code of this process, made in the background."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._code: ctypes.CDLL | None = None
        self._tried = False

    def loaded(self, when_made: Callable[[], None], *, wait: bool = False) -> ctypes.CDLL | None:
        """The code; None as long as there is none.

        Args:
            when_made: called, in another thread, once there is.
            wait: whether to compile it in this thread.
        """
        with self._lock:
            if self._tried:
                return self._code
            content = cache_of(_KIND).load(_key())
            if content is None and not wait:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._make, args=(when_made,), name="convir-dispatch", daemon=True
                    )
                    self._thread.start()
                return None
            return self._load(_compiled() if content is None else content)

    def _make(self, when_made: Callable[[], None]) -> None:
        content = _compiled()
        with self._lock:
            code = self._load(content)
        if code is not None:
            when_made()

    def _load(self, content: bytes | None) -> ctypes.CDLL | None:
        self._tried = True
        if content is not None:
            try:
                self._code = _opened(content)
            except OSError as error:
                _without(str(error))
        return self._code


def _opened(content: bytes) -> ctypes.CDLL:
    """The shared object, from memory that only this process sees.

    Raises:
        OSError: it does not fit the PyTorch that is loaded.
    """
    descriptor = os.memfd_create("convir-dispatch")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        code = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    code.convir_open.restype = ctypes.c_void_p
    code.convir_keep.restype = ctypes.c_void_p
    code.convir_asked.restype = ctypes.c_int64
    code.convir_keep.argtypes = (
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    os.register_at_fork(after_in_child=code.convir_forked)
    dispatch.on_forget.append(code.convir_forget)
    return code


def _source() -> bytes:
    return resources.files("convir.pytorch.machine_code").joinpath("dispatch.cpp").read_bytes()


def _key() -> str:
    version: Any = import_module("torch.version")
    known = (_source(), OPTIONS, torch.__version__, version.git_version, str(_folder))
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _compiled() -> bytes | None:
    """The shared object, which the cache keeps; None where it cannot be made."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return _without("there is no C++ compiler")
    with tempfile.TemporaryDirectory(prefix="convir-") as scratch:
        source, made = Path(scratch) / "dispatch.cpp", Path(scratch) / "made.so"
        source.write_bytes(_source())
        command = [
            compiler,
            *OPTIONS,
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            f"-I{_folder / 'include'}",
            str(source),
            "-o",
            str(made),
            str(_library("torch_cpu")),
            str(_library("c10")),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            said = ran.stderr.strip().splitlines()
            return _without(said[0] if said else f"{compiler} failed")
        content = made.read_bytes()
    cache_of(_KIND).store(_key(), content)
    return content


def _without(why: str) -> None:
    _log.warning("PyTorch's convolutions are dispatched by Python, which costs time: %s", why)


native_code = NativeCode()
"""The code of this process."""
