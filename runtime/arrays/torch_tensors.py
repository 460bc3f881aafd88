"""PyTorch's tensors at the border: only some are plain memory of their values.

DLPack hands out the memory of a tensor, but says nothing of what PyTorch keeps beside it: a bit
that negates every element, a wrapper's own storage, values that are nowhere at all. PyTorch is
never imported here: a caller's tensor brings it along.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from convir.runtime.program import BFLOAT16

_CPU = "cpu"


def is_tensor(value: Any) -> bool:
    """Whether `value` is a PyTorch tensor."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_bfloat16(value: Any) -> bool:
    """Whether `value` is a PyTorch tensor of bf16, which NumPy cannot import."""
    return is_tensor(value) and value.dtype == sys.modules["torch"].bfloat16


def bits_of(tensor: Any) -> Any:
    """A tensor of bf16 as its bits: int16 in the same memory."""
    return tensor.view(sys.modules["torch"].int16)


def tensor_of(array: Any) -> Any:
    """A result of a program, in NumPy's or CuPy's memory, as a tensor of the same memory.

    On a GPU the tensor's current stream waits for what computes the array.
    """
    torch: Any = sys.modules["torch"]
    is_bf16 = array.dtype == BFLOAT16
    plain = array.view(np.int16) if is_bf16 else array
    tensor = torch.from_numpy(plain) if isinstance(plain, np.ndarray) else torch.from_dlpack(plain)
    return tensor.view(torch.bfloat16) if is_bf16 else tensor


def as_plain(value: Any, what: str) -> Any:
    """`value`, unless it is a tensor that only PyTorch knows the values of: then a plain copy of a
    lazy view on the CPU, and else an error.

    Raises:
        TypeError: it is not plain memory; the text says what it is, and what to pass instead.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    with torch._C.DisableTorchFunctionSubclass():
        refused = _wrapped(torch, value) or _without_memory(torch, value)
        if refused is not None:
            raise TypeError(f"{what} {refused}")
        lazy = _lazy(value)
        if lazy is None:
            return value
        bit, method = lazy
        if value.device.type != _CPU:
            # PyTorch's stream would make the copy, and take its memory back, beside the program's.
            raise TypeError(f"{what} {bit}: pass .{method}()")
        return getattr(value, method)()


def _wrapped(torch: Any, value: Any) -> str | None:
    """What a tensor is that computes by rules of its own."""
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        return "is traced by torch.func (vmap, grad or the like), which cannot look into a program"
    kind = cast("Any", type(value))
    base: Any = torch.Tensor
    if kind is base:
        return None
    name = kind.__name__
    if kind.__torch_dispatch__ is not base.__torch_dispatch__:
        return f"is a {name}, whose values only PyTorch knows: pass a plain torch.Tensor"
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    if function in (base.__torch_function__.__func__, torch._C._disabled_torch_function_impl):
        return None
    return (
        f"is a {name}, with rules of its own: pass .as_subclass(torch.Tensor), if its memory "
        "holds its values"
    )


def _without_memory(torch: Any, value: Any) -> str | None:
    """What a tensor is whose values do not lie in its memory one by one, and what does."""
    if value.is_nested:
        return "is nested: pass its tensors one by one, or torch.nested.to_padded_tensor of it"
    if value.is_meta:
        return "lies on the device meta, so that it has no values"
    if value.layout != torch.strided:
        return f"has the layout {value.layout}, not torch.strided: pass .to_dense()"
    if value.is_quantized:
        return "is quantized: pass .dequantize(), or .int_repr()"
    if value.requires_grad:
        return "requires grad, and no program computes gradients: pass .detach()"
    return None


def _lazy(value: Any) -> tuple[str, str] | None:
    """What a tensor puts off until its elements are read, and the method that does it."""
    if value._is_zerotensor():
        return "is a tensor of zeros without memory", "clone"
    if value.is_conj():
        return "has its conjugate bit set", "resolve_conj"
    if value.is_neg():
        return "has its negative bit set", "resolve_neg"
    return None
