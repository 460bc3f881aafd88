"""`enable`: implementations of `aten::convolution` and its backward for the CPU and CUDA keys.

They stand below autograd, autocast, functionalisation and torch.func, which stay PyTorch's. A call
is looked up by the sizes and strides of its tensors; what is not taken goes to PyTorch's kernel.
"""

from __future__ import annotations

import atexit
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from convir.pytorch import bypasses, dispatch, native
from convir.pytorch.machine_code.dispatch import NativeDispatch, native_code
from convir.pytorch.rows import census_json, census_text
from convir.pytorch.settings import WORKSPACE_BYTES, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from convir.pytorch.native import OwnKernel
    from convir.pytorch.settings import Preference

KEYS = ("CPU", "CUDA")
"""The dispatch keys that are overridden."""

_lock = threading.RLock()
_library: Any = None
_counting: list[Any] = []
"""The libraries that count what bypasses the override."""
_everywhere = False
"""Whether the library takes the calls of all threads, or of `_scope` alone."""
_scope = threading.local()
_at_exit: set[str] = set()


def enable(
    *,
    prefer: Preference = "faster",
    wait: bool = False,
    workspace_bytes: int = WORKSPACE_BYTES,
    measure: bool | None = None,
    census: bool | str = False,
) -> None:
    """Run PyTorch's convolutions on kernels of convir, wherever those are faster.

    Enabling again changes the settings, and forgets what they decided.

    Args:
        prefer: `faster`, or `convir` for all that convir can compute.
        wait: whether the first call of a shape waits until its kernel is compiled. Otherwise
            PyTorch's kernel runs until then.
        workspace_bytes: what the temporaries of a call may take.
        measure: whether both kernels of a shape are timed, once, where nothing says which is
            faster; None as `torch.backends.cudnn.benchmark` says.
        census: whether to print the census when the process ends, or the path of a JSON file to
            write it to.

    Raises:
        ValueError: `prefer` is neither, or `workspace_bytes` is negative.
    """
    if prefer not in ("faster", "convir"):
        raise ValueError(f"prefer is {prefer!r}, not 'faster' or 'convir'")
    if workspace_bytes < 0:
        raise ValueError(f"workspace_bytes is {workspace_bytes}, not at least 0")
    settings = Settings(prefer, wait, workspace_bytes, measure)
    with _lock:
        dispatch.configure(settings)
        _register(everywhere=True)
        if census is not False:
            _report_at_exit("" if census is True else str(census))


def disable() -> None:
    """Give convolutions back to PyTorch; compiled kernels and the census stay."""
    with _lock:
        _unregister()


@contextmanager
def enabled(
    *,
    prefer: Preference = "faster",
    wait: bool = False,
    workspace_bytes: int = WORKSPACE_BYTES,
    measure: bool | None = None,
) -> Generator[None]:
    """`enable` for a while, in all threads; afterwards all is as it was.

    Args: those of `enable`.
    """
    before = dispatch.settings() if is_enabled() else None
    enable(prefer=prefer, wait=wait, workspace_bytes=workspace_bytes, measure=measure)
    try:
        yield
    finally:
        if before is None:
            disable()
        else:
            dispatch.configure(before)


def is_enabled() -> bool:
    """Whether all convolutions come here."""
    return _everywhere


@contextmanager
def for_this_thread() -> Generator[None]:
    """Convolutions of this thread come here meanwhile, whatever is enabled."""
    if _library is None:
        with _lock:
            _register(everywhere=False)
    _scope.depth = getattr(_scope, "depth", 0) + 1
    try:
        yield
    finally:
        _scope.depth -= 1


def _register(*, everywhere: bool) -> None:
    global _library, _everywhere
    if _library is not None:
        if _everywhere or not everywhere:
            return
        _unregister()
    with warnings.catch_warnings():
        # PyTorch says of the first operator that it is overridden, which was asked for.
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        library = _native_library() if everywhere else None
        _library = _python_library(everywhere=everywhere) if library is None else library
        if everywhere:
            _counting.extend(bypasses.counted())
    _everywhere = everywhere


def _native_library() -> NativeDispatch | None:
    """Dispatch by machine code, if there is such code by now."""
    code = native_code.loaded(_change_over)
    if code is None:
        return None
    try:
        return NativeDispatch(code)
    except RuntimeError as error:
        native.warn_once(f"convolutions are dispatched by Python: {error}")
        return None


def _python_library(*, everywhere: bool) -> Any:
    library: Any = torch.library.Library("aten", "IMPL")
    for key in KEYS:
        for name, function in dispatch.implementations(key).items():
            chosen = function if everywhere else _scoped(function, native.own_kernel(name, key))
            library.impl(name, chosen, key, with_keyset=True)
    return library


def _change_over() -> None:
    """From Python to machine code, which was compiled meanwhile."""
    with _lock:
        if _everywhere and not isinstance(_library, NativeDispatch):
            _unregister()
            _register(everywhere=True)


def _unregister() -> None:
    global _library, _everywhere
    while _counting:
        _counting.pop()._destroy()
    if _library is not None:
        _library._destroy()
    _library, _everywhere = None, False


def _scoped(function: Callable[..., Any], own: OwnKernel) -> Callable[..., Any]:
    """`function` in threads of `for_this_thread`, PyTorch's own kernel in others."""

    def choose(*arguments: Any) -> Any:
        return (function if getattr(_scope, "depth", 0) else own)(*arguments)

    return choose


def _report_at_exit(where: str) -> None:
    if not _at_exit:
        atexit.register(_report)
    _at_exit.add(where)


def _report() -> None:
    for where in sorted(_at_exit):
        if where:
            Path(where).write_text(census_json(), encoding="utf-8")
        else:
            sys.stderr.write(census_text() + "\n")
