"""The dispatch of calls that PyTorch keeps, in machine code: Python is asked once for each shape.

`aten::convolution` and its backward get kernels in libtorch's stable C interface
(`native_dispatch.c`). A call whose sizes, strides and options PyTorch is known to keep goes
straight to PyTorch's composite kernel, which that interface has too; all others go to operators
`convir::convolution` and `convir::convolution_backward`, which are Python's.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from convir.pytorch import native

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEYS = ("CPU", "CUDA")
OPERATORS = ("convolution", "convolution_backward")

_NAMES = {
    "list_size": "torch_list_size",
    "list_item": "torch_list_get_item",
    "delete_list": "torch_delete_list",
    "delete_tensor": "aoti_torch_delete_tensor_object",
    "free_box": "_ZdlPv",
    "defined": "aoti_torch_is_defined",
    "dim": "aoti_torch_get_dim",
    "sizes": "aoti_torch_get_sizes",
    "strides": "aoti_torch_get_strides",
    "dtype": "aoti_torch_get_dtype",
    "device": "aoti_torch_get_device_index",
    "threads": "torch_get_num_threads",
    "dispatch": "torch_call_dispatcher",
    "forward": "aoti_torch_{key}_convolution",
    "backward": "aoti_torch_{key}_convolution_backward",
    "fail": "_ZN3c106detail14torchCheckFailEPKcS2_jS2_",
}


class _Shim(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in _NAMES),
        ("version", ctypes.c_uint64),
        ("tables", ctypes.c_void_p * 2),
    )


_SCHEMA = {
    name: str(getattr(torch.ops.aten, name).default._schema).removeprefix("aten::")
    for name in OPERATORS
}
_lock = threading.Lock()


class NativeDispatch:
    """The kernels of both keys, registered until `close`."""

    def __init__(
        self, code: ctypes.CDLL, implementations: Callable[..., Mapping[str, Callable[..., Any]]]
    ) -> None:
        """Register them.

        Args:
            code: `native_dispatch.c`, loaded.
            implementations: by dispatch key, what Python does for each operator.

        Raises:
            AttributeError: this PyTorch lacks a function of the interface.
            RuntimeError: PyTorch refuses a kernel.
        """
        self._code = code
        code.native_shim.restype = ctypes.c_void_p
        code.native_keep.restype = ctypes.POINTER(ctypes.c_int64)
        code.native_words.restype = ctypes.c_int64
        folder = Path(torch.__file__).parent / "lib"
        self._torch = ctypes.CDLL(str(folder / "libtorch_cpu.so"))
        has_cuda = (folder / "libtorch_cuda.so").exists()
        self._libraries: list[ctypes.c_void_p] = []
        self._python: Any = torch.library.Library("convir", "FRAGMENT")
        major, minor = (int(part) for part in torch.__version__.split(".")[:2])
        version = major << 56 | minor << 48
        for name in OPERATORS:
            self._python.define(_SCHEMA[name])
        for which, key in enumerate(KEYS[: 1 + has_cuda]):
            for name, function in implementations(key, self.keep).items():
                self._python.impl(name, self._speaking(function), key, with_keyset=True)
            source = self._torch
            if key == "CUDA":
                source = ctypes.CDLL(str(folder / "libtorch_cuda.so"))
            shim = _Shim.from_address(code.native_shim(which))
            for name, symbol in _NAMES.items():
                function = getattr(source, symbol.format(key=key.lower()))
                setattr(shim, name, ctypes.cast(function, ctypes.c_void_p).value)
            if key != "CPU":
                shim.threads = None
            shim.version = version
            library = ctypes.c_void_p()
            make = self._torch.aoti_torch_library_init_impl
            self._check(make(b"aten", key.encode(), b"convir", 0, ctypes.byref(library)))
            self._libraries.append(library)
            for name, kernel in zip(OPERATORS, ("forward", "backward"), strict=True):
                address = getattr(code, f"native_{key.lower()}_{kernel}")
                implement = self._torch.torch_library_impl
                self._check(implement(library, name.encode(), address, ctypes.c_uint64(version)))

    def _destroy(self) -> None:
        """Give the operators back."""
        for library in self._libraries:
            self._torch.aoti_torch_delete_library_object(library)
        self._libraries = []
        self._python._destroy()
        self.forget()

    def keep(self, key: str, operator: str) -> Any:
        """Let PyTorch run calls like the one at hand; a counter of them (`.contents.value`).

        The thread's last call is the one at hand: nothing called the operator after it.
        """
        buffer = (ctypes.c_int64 * 128)()
        with _lock:
            count = self._code.native_words(buffer)
            if count == 0:
                return None
            which = KEYS.index(key), OPERATORS.index(operator)
            return self._code.native_keep(*which, buffer, ctypes.c_int64(count))

    def forget(self) -> None:
        """Ask Python for every shape again."""
        with _lock:
            self._code.native_forget()

    def _speaking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        say = self._code.native_say

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except RuntimeError as error:
                say(str(error).encode())
                raise

        return call

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError("PyTorch refused a kernel of its C interface")


@cache
def _code() -> ctypes.CDLL | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = Path(tempfile.mkdtemp(prefix="convir-")) / "native_dispatch.so"
    source = resources.files("convir.pytorch").joinpath("native_dispatch.c")
    with resources.as_file(source) as path:
        options = ("-O2", "-fPIC", "-fexceptions", "-shared", str(path), "-o", str(made))
        ran = subprocess.run([compiler, *options], capture_output=True, check=False)
    return ctypes.CDLL(str(made)) if ran.returncode == 0 else None


def made(implementations: Callable[..., Mapping[str, Callable[..., Any]]]) -> NativeDispatch | None:
    """The kernels, registered; None where there is no compiler or PyTorch is too old."""
    code = _code()
    if code is None:
        return None
    try:
        return NativeDispatch(code, implementations)
    except AttributeError as error:
        native.warn_once(f"convolutions are dispatched by Python: {error}")
        return None
