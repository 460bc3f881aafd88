"""From a call of the operator to who runs it: one lookup where that is decided.

The functions here take the arguments of `aten::convolution` and `aten::convolution_backward`, with
the dispatch keys of the call before them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch

from convir.pytorch import native
from convir.pytorch.choices import change_over, settle
from convir.pytorch.rows import forget_rows, row_of
from convir.pytorch.settings import Settings
from convir.pytorch.signature import Options, Signature, Tensor
from convir.pytorch.taken import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.pytorch.rows import Row
    from convir.pytorch.signature import Pass

Words: TypeAlias = tuple[int, ...]
"""A program (`machine_code.program.words_of`)."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_private: Any = import_module("torch._C")
_num_threads: Callable[[], int] = torch.get_num_threads

_planning = threading.RLock()
on_forget: list[Callable[[], None]] = []
"""Called when all is asked again."""


@dataclass(frozen=True)
class Backward:
    """The gradients that one backward call asks for."""

    data: Row | None
    weight: Row | None
    bias: bool


class _State:
    """What was decided by one choice of settings; a thread may still be in the one before."""

    def __init__(self, chosen: Settings) -> None:
        self.settings = chosen
        self.forward: dict[Any, Row | None] = {}
        """By all that a call is known by: its row, or None where PyTorch always runs it."""
        self.backward: dict[Any, Backward | None] = {}


_state = _State(Settings())


def settings() -> Settings:
    """What convolutions are chosen by."""
    return _state.settings


def configure(new: Settings) -> None:
    """Choose by other settings from now on."""
    if new != settings():
        forget(new)


def forget(new: Settings | None = None) -> None:
    """Ask again whose kernel runs what, by other settings if given; the census begins anew."""
    global _state
    with _planning:
        _state = _State(settings() if new is None else new)
        _tell()
        forget_rows()


def _tell() -> None:
    # Before programs of rows are dropped, which machine code may be running.
    for tell in on_forget:
        tell()


def _keep(kept: Kept, asked: Any, rows: tuple[Row | None, ...], *, backward: bool = False) -> None:
    """Have a call run without Python, if all of it is decided and needs no Python."""
    programs: list[Words | None] = []
    for row in rows:
        if row is not None and row.waiting is not None:
            return
        taken = row is not None and row.run is not None
        words = row.words() if row is not None and taken and row.words is not None else None
        if taken and words is None:
            return
        programs.append(words)
    counter = kept.keep(asked, *programs, backward=backward)
    for row, words in zip(rows, programs, strict=True):
        if row is not None and counter is not None:
            row.native_calls.append((words is not None, counter))


class Kept(Protocol):
    """Calls that are decided, and run without Python from then on (`NativeDispatch`)."""

    def asked(self) -> Any:
        """What the thread's last call is known by."""
        ...

    def keep(
        self,
        asked: Any,
        first: Words | None,
        second: Words | None = None,
        *,
        backward: bool = False,
    ) -> Any:
        """Run such calls on programs, or on PyTorch's kernel; their counter, if that is new."""
        ...


def implementations(key: str, kept: Kept | None = None) -> dict[str, Callable[..., Any]]:
    """The operators of a dispatch key, by their names.

    Args:
        key: `CPU` or `CUDA`.
        kept: is told of calls that are decided.
    """
    own = native.own_kernel("convolution", key)
    own_backward = native.own_kernel("convolution_backward", key)
    flags = _num_threads if key == "CPU" else native.allows_tf32

    def convolution(
        keys: Any,
        x: Any,
        w: Any,
        bias: Any,
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        transposed: bool,
        output_padding: list[int],
        groups: int,
    ) -> Any:
        call: tuple[Any, ...] = (
            x.shape,
            x.stride(),
            x.dtype,
            x.get_device(),
            w.shape,
            w.stride(),
            w.dtype,
            w.get_device(),
            flags(),
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            transposed,
            tuple(output_padding),
            groups,
        )
        if bias is not None:
            call = (*call, bias.dtype, bias.shape, bias.stride(), bias.get_device())
        asked = None if kept is None else kept.asked()
        known = _state.forward
        try:
            row = known[call]
            if kept is not None:
                _keep(kept, asked, (row,))
        except KeyError:
            options = _options(
                x.dim() - 2, stride, padding, dilation, transposed, output_padding, groups
            )
            row = known[call] = _forward_row(x, w, bias, options)
        if row is not None:
            if row.run is None and row.waiting is not None:
                mine = (keys, x, w, bias, stride, padding, dilation, transposed, output_padding)
                change_over(row, (x, w, bias), lambda: own(*mine, groups))
            if row.run is not None:
                try:
                    result = row.run(x, w, bias)
                except Exception as error:
                    _give_up(row, error)
                else:
                    row.convir_calls += 1
                    return result
            row.pytorch_calls += 1
        return own(keys, x, w, bias, stride, padding, dilation, transposed, output_padding, groups)

    def backward(
        keys: Any,
        dy: Any,
        x: Any,
        w: Any,
        bias_sizes: list[int] | None,
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        transposed: bool,
        output_padding: list[int],
        groups: int,
        mask: list[bool],
    ) -> Any:
        call = (
            dy.shape,
            dy.stride(),
            dy.dtype,
            dy.get_device(),
            x.shape,
            x.stride(),
            x.dtype,
            x.get_device(),
            w.shape,
            w.stride(),
            w.dtype,
            w.get_device(),
            flags(),
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            transposed,
            tuple(output_padding),
            groups,
            tuple(mask),
        )
        rest = (bias_sizes, stride, padding, dilation, transposed, output_padding, groups)
        asked = None if kept is None else kept.asked()
        known = _state.backward
        try:
            found = known[call]
            if kept is not None:
                rows = (None, None) if found is None else (found.data, found.weight)
                _keep(kept, asked, rows, backward=True)
        except KeyError:
            options = _options(
                x.dim() - 2, stride, padding, dilation, transposed, output_padding, groups
            )
            found = known[call] = _backward_rows(dy, x, w, bias_sizes, options, mask)
        if found is None:
            return own_backward(keys, dy, x, w, *rest, mask)
        dx = dw = None
        data, weight = found.data, found.weight
        if data is not None:
            if data.run is None and data.waiting is None:
                data.pytorch_calls += 1
            else:
                dx = _gradient(data, (dy, w), (True, False, False), keys, dy, x, w, rest)
        if weight is not None:
            if weight.run is None and weight.waiting is None:
                weight.pytorch_calls += 1
            else:
                dw = _gradient(weight, (x, dy), (False, True, False), keys, dy, x, w, rest)
        if dx is None and dw is None:
            return own_backward(keys, dy, x, w, *rest, mask)
        left = [data is not None and dx is None, weight is not None and dw is None, found.bias]
        if not (left[0] or left[1]):
            return dx, dw, dy.sum(_but_channels(dy.dim())) if found.bias else None
        theirs = own_backward(keys, dy, x, w, *rest, left)
        return dx if dx is not None else theirs[0], dw if dw is not None else theirs[1], theirs[2]

    def _gradient(
        row: Row,
        operands: tuple[Any, Any],
        mask: tuple[bool, bool, bool],
        keys: Any,
        dy: Any,
        x: Any,
        w: Any,
        rest: tuple[Any, ...],
    ) -> Any:
        """A gradient, or None where PyTorch's kernel is to compute it."""
        if row.run is None and row.waiting is not None:

            def theirs() -> Any:
                return own_backward(keys, dy, x, w, *rest, list(mask))

            change_over(row, operands, theirs)
        if row.run is not None:
            try:
                result = row.run(*operands)
            except Exception as error:
                _give_up(row, error)
            else:
                row.convir_calls += 1
                return result
        row.pytorch_calls += 1
        return None

    return {"convolution": convolution, "convolution_backward": backward}


def _but_channels(rank: int) -> list[int]:
    return [0, *range(2, rank)]


def _options(rank: int, *given: Any) -> Options | None:
    """The options of a call, None where there are not as many numbers as dimensions."""
    stride, padding, dilation, transposed, output_padding, groups = given
    if rank not in (1, 2, 3):
        return None
    numbers: list[tuple[int, ...]] = []
    for values in (stride, padding, dilation, output_padding):
        spread = tuple(values) * rank if len(values) == 1 else tuple(values)
        if len(spread) != rank:
            return None
        numbers.append(spread)
    return Options(numbers[0], numbers[1], numbers[2], transposed, numbers[3], groups)


def _common(tensors: Sequence[Any]) -> str | None:
    """The dtype of tensors that convir may read; None where it may not."""
    first = tensors[0]
    dtype = _NAMES.get(first.dtype)
    device = first.device
    alike = all(t.dtype == first.dtype and t.device == device for t in tensors)
    if dtype is None or not alike or any(t.numel() == 0 for t in tensors):
        return None
    return dtype if all(t.dim() == first.dim() for t in tensors) else None


def _forward_row(x: Any, w: Any, bias: Any, options: Options | None) -> Row | None:
    if options is None or _common((x, w)) is None:
        return None
    channels = w.shape[1] * options.groups if options.transposed else w.shape[0]
    if bias is not None and (
        bias.dtype != x.dtype
        or bias.device != x.device
        or tuple(bias.shape) != (channels,)
        or not bias.is_contiguous()
    ):
        return None
    spatial = options.output_spatial(tuple(x.shape[2:]), tuple(w.shape[2:]))
    if min(spatial) < 1 or channels < 1:
        return None
    last = _channels_last(x, w, bias, None, options)
    if last is None:
        return None
    result = native.made((x.shape[0], channels, *spatial), channels_last=last)
    return _row("forward", (x, w), result, options, bias=bias is not None)


def _backward_rows(
    dy: Any, x: Any, w: Any, bias_sizes: Any, options: Options | None, mask: Sequence[bool]
) -> Backward | None:
    if options is None or _common((dy, x, w)) is None or not (mask[0] or mask[1]):
        return None
    last = _channels_last(x, w, None, bias_sizes, options)
    if last is None:
        return None
    data = weight = None
    if mask[0]:
        result = native.made(x.shape, channels_last=last)
        data = _row("backward data", (dy, w), result, options)
    if mask[1]:
        result = native.made(w.shape, channels_last=last)
        weight = _row("backward weight", (x, dy), result, options)
    return Backward(data, weight, bool(mask[2]))


def _channels_last(x: Any, w: Any, bias: Any, sizes: Any, options: Options) -> bool | None:
    """What PyTorch would give; None where it refuses, which its own kernel then says."""
    try:
        return native.is_channels_last(x, w, bias, sizes, options)
    except RuntimeError:
        return None


def _row(
    direction: Pass,
    operands: tuple[Any, Any],
    result: Tensor,
    options: Options,
    *,
    bias: bool = False,
) -> Row:
    a, b = operands
    dtype = _NAMES[a.dtype]
    on_host = a.device.type == "cpu"
    signature = Signature(
        direction,
        dtype,
        (_without_elements(a), _without_elements(b)),
        result,
        bias,
        options,
        "host" if on_host else f"cuda:{a.get_device()}",
        dtype == "f32" and not on_host and native.allows_tf32(),
        _num_threads() if on_host else 0,
    )
    with _planning:
        row, is_new = row_of(signature)
        if is_new:
            settle(row, settings())
    return row


def _without_elements(tensor: Any) -> Tensor:
    return Tensor(tuple(tensor.shape), tensor.stride())


def _give_up(row: Row, error: Exception) -> None:
    """PyTorch's kernel runs from now on, and one warning says why."""
    native.warn_once(f"convir gives a convolution back to PyTorch: {error}")
    _tell()
    row.run, row.waiting, row.reason = None, None, f"it failed: {error}"
