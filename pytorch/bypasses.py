"""Fused convolutions that never call `aten::convolution`: counted for the census, and no more.

Compilers that froze a model call them. They run on PyTorch's kernels, with nothing added but the
count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from convir.pytorch.rows import bypass_of
from convir.pytorch.signature import Options, Signature, Tensor
from convir.pytorch.taken import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.pytorch.native import OwnKernel
    from convir.pytorch.rows import Row

OPERATORS = {
    "aten": ("cudnn_convolution_relu", "cudnn_convolution_add_relu"),
    "mkldnn": (
        "_convolution_pointwise",
        "_convolution_pointwise.binary",
        "_convolution_pointwise_.binary",
        "_convolution_transpose_pointwise",
    ),
}
"""By library; with their overloads."""
KEYS = {"aten": ("CUDA",), "mkldnn": ("CPU", "MkldnnCPU")}
"""The dispatch keys that have kernels of them."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def counted() -> list[Any]:
    """The libraries that count them from now on, as far as this PyTorch has such operators."""
    get_kernel: Any = getattr(torch.library, "get_kernel", None)
    if get_kernel is None:
        return []
    libraries: list[Any] = []
    for namespace, names in OPERATORS.items():
        library: Any = torch.library.Library(namespace, "IMPL")
        libraries.append(library)
        for name in names:
            for key in KEYS[namespace]:
                try:
                    own = get_kernel(f"{namespace}::{name}", key).call_boxed
                except (RuntimeError, ValueError):
                    continue  # This PyTorch was built without it.
                library.impl(name, _counting(namespace, name, own), key, with_keyset=True)
    return libraries


def _counting(namespace: str, name: str, own: OwnKernel) -> Callable[..., Any]:
    base, _, overload = name.partition(".")
    found: Any = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    at = {given.name: i for i, given in enumerate(found._schema.arguments)}
    tensors = [at.get(long, at.get(short, 0)) for long, short in (("self", "X"), ("weight", "W"))]
    numbers = [at.get(each) for each in ("stride", "padding", "dilation", "output_padding")]
    groups, bias = at["groups"], at.get("bias", at.get("B", 0))
    operator = f"{namespace}::{name}"
    transposed = "transpose" in name
    known: dict[Any, Row] = {}

    def count(keys: Any, *arguments: Any) -> Any:
        result = own(keys, *arguments)
        x, w = (arguments[i] for i in tensors)
        options = tuple(None if i is None else tuple(arguments[i]) for i in numbers)
        call = (x.shape, w.shape, x.dtype, x.device, options, arguments[groups])
        if call not in known:
            known[call] = bypass_of(operator, _signature(call, arguments[bias], result))
        known[call].pytorch_calls += 1
        return result

    def _signature(call: tuple[Any, ...], bias: Any, result: Any) -> Signature:
        options: tuple[Any, ...] = call[4]
        rank = len(call[0]) - 2
        spread = [_spread(each, rank) for each in options]
        return Signature(
            "forward",
            _NAMES.get(call[2], str(call[2]).removeprefix("torch.")),
            (Tensor(tuple(call[0]), ()), Tensor(tuple(call[1]), ())),
            Tensor(tuple(result.shape), ()),
            bias is not None,
            Options(spread[0], spread[1], spread[2], transposed, spread[3], call[5]),
            str(call[3]) if call[3].type != "cpu" else "host",
        )

    return count


def _spread(numbers: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    if numbers is None:
        return (0,) * rank
    return numbers * rank if len(numbers) == 1 else numbers
