"""PyTorch's own kernels, which run whatever is not taken, and what they would give.

`torch.library.get_kernel` is there from PyTorch 2.9 on. Without it an operator is sent to the key
of a backend that nobody implements: it has the same composite kernel.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from convir.pytorch.layouts import strides_of
from convir.pytorch.signature import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.pytorch.signature import Options

OwnKernel: TypeAlias = "Callable[..., Any]"
"""Takes the dispatch keys of the call and the operator's arguments."""

UNUSED_BACKEND = "Lazy"
"""A dispatch key of a backend that convolutions have no kernel of their own for."""

_private: Any = import_module("torch._C")
_log = logging.getLogger(__name__)


def own_kernel(operator: str, key: str) -> OwnKernel:
    """The kernel that PyTorch runs for a dispatch key, looked up before anything overrides it.

    Args:
        operator: `convolution` or `convolution_backward`.
        key: `CPU` or `CUDA`.
    """
    get_kernel: Any = getattr(torch.library, "get_kernel", None)
    if get_kernel is not None:
        return get_kernel(f"aten::{operator}", key).call_boxed
    return redispatched(operator)


def redispatched(operator: str) -> OwnKernel:
    """The operator's composite kernel, through the key of an unused backend."""
    redispatch: Any = getattr(torch.ops.aten, operator).default.redispatch
    keys = _private.DispatchKeySet(getattr(_private.DispatchKey, UNUSED_BACKEND))

    def own(_: Any, *arguments: Any) -> Any:
        return redispatch(keys, *arguments)

    return own


def is_channels_last(
    x: Any, w: Any, bias: Any, bias_sizes: Sequence[int] | None, options: Options
) -> bool:
    """Whether PyTorch's convolution of `x` and `w` gives channels last, gradients included.

    As in `torch/_subclasses/fake_impls.py`, which says so to compiled code.
    """
    backend = _private._select_conv_backend(
        x,
        w,
        bias,
        options.stride,
        options.padding,
        options.dilation,
        options.transposed,
        options.output_padding,
        options.groups,
        bias_sizes,
    )
    if w.dim() == 3:
        x, w = x.new_empty(x.shape).unsqueeze(2), w.unsqueeze(2)
    chosen = _private._conv_determine_backend_memory_format(x, w, backend)
    return chosen in (torch.channels_last, torch.channels_last_3d)


def made(shape: Sequence[int], *, channels_last: bool) -> Tensor:
    """A result of `shape` as PyTorch makes it."""
    order = "last" if channels_last else "first"
    return Tensor(tuple(shape), strides_of(shape, order))


def allows_tf32() -> bool:
    """Whether PyTorch's convolutions may multiply f32 as TF32 on a GPU."""
    if _precision is not None:
        return _precision("cuda", "conv") == "tf32"
    return _private._get_cudnn_allow_tf32()


_precision: Callable[[str, str], str] | None = getattr(_private, "_get_fp32_precision_getter", None)

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Warn with `text`, unless that was done."""
    if text not in _warned:
        _warned.add(text)
        _log.warning("%s", text)
