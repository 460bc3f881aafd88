"""A direction that convir computes: tensors in, a tensor out, addresses in between."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.pytorch.layouts import Order
    from convir.pytorch.signature import Placement, Signature
    from convir.runtime.prepared_call import PreparedCall

_private: Any = import_module("torch._C")
_guards: Any = getattr(getattr(_private, "_dynamo", None), "guards", None)

DTYPES: dict[str, Any] = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
"""The dtypes of signatures."""


def on_host(
    call: PreparedCall, signature: Signature, placed: Placement, *, swapped: bool
) -> Callable[..., Any]:
    """A function of both operands (and the bias) on the CPU, that returns the result."""
    empty = _new_result(signature, "cpu")
    run, copies = call.run, placed.copies
    first, second = placed.operands

    def compute(a: Any, b: Any, bias: Any = None) -> Any:
        if copies[0]:
            a = dense(a, first)
        if copies[1]:
            b = dense(b, second)
        if swapped:
            a, b = b, a
        out = empty()
        if bias is None:
            run([a.data_ptr(), b.data_ptr(), out.data_ptr()])
        else:
            run([a.data_ptr(), b.data_ptr(), bias.data_ptr(), out.data_ptr()])
        return out

    return compute


def on_cuda(
    call: PreparedCall, signature: Signature, placed: Placement, index: int, *, swapped: bool
) -> Callable[..., Any]:
    """A function of both operands (and the bias) on a GPU, that returns the result.

    It enqueues on PyTorch's current stream, and takes memory from PyTorch's allocator.
    """
    empty = _new_result(signature, f"cuda:{index}")
    run, copies, size = call.run, placed.copies, call.workspace_bytes
    first, second = placed.operands
    aligned = call.alignment - 1
    stream_of: Callable[[int], int] = _private._cuda_getCurrentRawStream
    device_of: Callable[[], int] = _private._cuda_getDevice
    workspace_of = _new((size,), (1,), torch.uint8, f"cuda:{index}")

    def compute(a: Any, b: Any, bias: Any = None) -> Any:
        if device_of() != index:
            with torch.cuda.device(index):
                return compute(a, b, bias)
        if copies[0]:
            a = dense(a, first)
        if copies[1]:
            b = dense(b, second)
        if swapped:
            a, b = b, a
        out = empty()
        at, bt = a.data_ptr(), b.data_ptr()
        if (at | bt) & aligned:
            a, b = a.clone(), b.clone()
            at, bt = a.data_ptr(), b.data_ptr()
        addresses = [at, bt]
        if bias is not None:
            where = bias.data_ptr()
            if where & aligned:
                bias = bias.clone()
                where = bias.data_ptr()
            addresses.append(where)
        addresses.append(out.data_ptr())
        # The allocator gives memory back in the order of the stream.
        workspace = workspace_of() if size else None
        run(addresses, 0 if workspace is None else workspace.data_ptr(), stream_of(index))
        return out

    return compute


def dense(tensor: Any, order: Order) -> Any:
    """A dense copy in an order of dimensions."""
    if order == "first":
        return tensor.contiguous()
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1)


def _new_result(signature: Signature, device: str) -> Callable[[], Any]:
    """What makes a new tensor for the result; on the current GPU, if it is one of that."""
    shape, strides = signature.result.shape, signature.result.strides
    return _new(shape, strides, DTYPES[signature.dtype], device)


def _new(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, device: str
) -> Callable[[], Any]:
    """What makes a new tensor; on the current GPU, if its device is one."""
    quick: Any = getattr(_guards, f"_empty_strided_{device.partition(':')[0]}", None)
    if quick is not None:
        return lambda: quick(shape, strides, dtype)
    where = torch.device(device)
    return lambda: torch.empty_strided(shape, strides, dtype=dtype, device=where)
