"""The convolutions of `torch.nn.functional` on convir's kernels, whatever is enabled.

Each is the function of `torch.nn.functional` with the same name and arguments, gradients, autocast
and transforms included: only what runs below them differs, in these calls and in their backward.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812  (as everybody calls it)

from convir.pytorch import override

if TYPE_CHECKING:
    from collections.abc import Callable


def _here(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose convolution comes to the override, and so does its backward."""

    @wraps(function)
    def convolve(*args: Any, **options: Any) -> Any:
        if override.is_enabled() or torch.compiler.is_compiling():
            return function(*args, **options)
        with override.for_this_thread():
            result = function(*args, **options)
        _follow(result)
        return result

    convolve.__doc__ = f"`torch.nn.functional.{function.__name__}` on convir's kernels."
    return convolve


def _follow(result: Any) -> None:
    """Have the backward of a convolution come to the override too."""
    node = result.grad_fn
    while node is not None and "Convolution" not in node.name():
        node = node.next_functions[0][0] if node.next_functions else None
    if node is None:
        return
    scopes: list[Any] = []

    def begin(_: Any) -> None:
        scope = override.for_this_thread()
        scope.__enter__()
        scopes.append(scope)

    def end(*_: Any) -> None:
        scopes.pop().__exit__(None, None, None)

    node.register_prehook(begin)
    node.register_hook(end)


conv1d = _here(F.conv1d)
conv2d = _here(F.conv2d)
conv3d = _here(F.conv3d)
conv_transpose1d = _here(F.conv_transpose1d)
conv_transpose2d = _here(F.conv_transpose2d)
conv_transpose3d = _here(F.conv_transpose3d)
